//! Writes SVG documents.

use std::fmt::Write;

/// Colour and dashes of a line.
#[derive(Clone, Copy)]
pub(super) struct LineStyle {
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
}

/// An SVG document under construction. Its colours are legible on light and dark backgrounds.
pub(super) struct Svg {
    text: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { text: String::new() };
        svg.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">"
        ));
        svg.add(format_args!("<title>{}</title>", escape(title)));
        svg.add(format_args!(
            "<style>svg{{background:#ffffff;color:#24292f}} @media (prefers-color-scheme:dark){{svg{{background:#16191d;color:#d0d7de}}}} \
             text{{fill:currentColor}}</style>"
        ));
        svg
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{element}");
    }

    pub(super) fn grid(&mut self, from: (f64, f64), to: (f64, f64), major: bool) {
        let opacity = if major { 0.45 } else { 0.15 };
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#808890\" stroke-opacity=\"{opacity}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn frame(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" stroke=\"#808890\"/>",
            from.0,
            from.1,
            to.0 - from.0,
            to.1 - from.1
        ));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], style: LineStyle) {
        if points.is_empty() {
            return;
        }
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
            points.join(" "),
            style.colour,
            style.dash
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), style: LineStyle) {
        self.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>", style.colour));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escape(text);
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    pub(super) fn title(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"14\" font-weight=\"600\">{text}</text>"
        ));
    }

    /// Adds text that is rotated by 90 degrees and reads upwards.
    pub(super) fn rotated_text(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\">{text}</text>"
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.text += "</svg>\n";
        self.text
    }
}

/// Escapes text for XML or HTML: names of devices come from drivers.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_escaped() {
        assert_eq!(super::escape("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
