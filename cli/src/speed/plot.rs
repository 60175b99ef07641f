//! Throughput against size, both on logarithmic axes: a panel for each algorithm and operation, a line for each device
//! and batch.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::report::Row;

const PANEL: (f64, f64) = (460.0, 300.0);
/// Room around the axes of a panel, for labels: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 34.0, 16.0, 46.0);
const PANELS_IN_A_ROW: usize = 2;
const LEGEND_LINE: f64 = 20.0;
const PADDING: f64 = 14.0;

/// Colours that are told apart on white and on black, also by most of those who see few colours (Okabe and Ito, 2008).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/// What ours are compared with.
const PEER: &str = "#7f7f7f";
/// Dashes tell batches apart.
const DASHES: [&str; 5] = ["", "6 4", "2 3", "9 3 2 3", "12 4"];

/// The rows as an SVG document.
pub(super) fn draw(rows: &[Row]) -> String {
    let devices: Vec<&str> = in_order(rows.iter().map(|row| row.device.as_str()));
    let batches: Vec<usize> = in_order(rows.iter().map(|row| row.batch));
    let lines: Vec<(&str, usize)> = in_order(rows.iter().map(|row| (row.device.as_str(), row.batch)));
    let panels: Vec<(&str, &str)> = in_order(rows.iter().map(|row| (row.algorithm, row.operation)));

    let across = panels.len().clamp(1, PANELS_IN_A_ROW);
    let width = PADDING * 2.0 + PANEL.0 * across as f64;
    let legend_columns = (across * 2).min(lines.len()).max(1);
    let legend_height = LEGEND_LINE * lines.len().div_ceil(legend_columns) as f64;
    let height = PADDING * 2.0 + PANEL.1 * panels.len().div_ceil(across) as f64 + legend_height;

    let scale = Scale::of(rows);
    let mut svg = Svg::new(width, height);
    for (index, (algorithm, operation)) in panels.iter().enumerate() {
        let corner = (PADDING + PANEL.0 * (index % across) as f64, PADDING + PANEL.1 * (index / across) as f64);
        let panel = Panel { corner, scale: &scale };
        panel.axes(&mut svg, &format!("{algorithm} {operation}"));
        for &(device, batch) in &lines {
            let of_line = |row: &&Row| {
                (row.algorithm, row.operation) == (*algorithm, *operation)
                    && (row.device.as_str(), row.batch) == (device, batch)
            };
            let mut points: Vec<(usize, f64)> =
                rows.iter().filter(of_line).map(|row| (row.bytes, row.mb_per_s)).collect();
            points.sort_by_key(|(bytes, _)| *bytes);
            panel.line(&mut svg, &points, Look::of(device, batch, &devices, &batches));
        }
    }
    let top = height - PADDING - legend_height;
    for (index, &(device, batch)) in lines.iter().enumerate() {
        let column_width = (width - PADDING * 2.0 - MARGIN.0) / legend_columns as f64;
        let x = PADDING + MARGIN.0 + column_width * (index % legend_columns) as f64;
        let y = top + LEGEND_LINE * (index / legend_columns) as f64 + LEGEND_LINE / 2.0;
        let look = Look::of(device, batch, &devices, &batches);
        svg.path(&[(x, y), (x + 28.0, y)], look);
        svg.dot((x + 14.0, y), look);
        let batch = if device == "openssl" { String::new() } else { format!(", batch {batch}") };
        svg.text((x + 36.0, y + 4.0), "start", &format!("{device}{batch}"));
    }
    svg.finish()
}

/// Every value once, in the order of its first appearance.
fn in_order<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[derive(Clone, Copy)]
struct Look {
    colour: &'static str,
    dash: &'static str,
}

impl Look {
    fn of(device: &str, batch: usize, devices: &[&str], batches: &[usize]) -> Self {
        let place = devices.iter().position(|known| *known == device).unwrap_or(0);
        let dash = batches.iter().position(|known| *known == batch).unwrap_or(0);
        let colour = if device == "openssl" { PEER } else { COLOURS[place % COLOURS.len()] };
        Self { colour, dash: DASHES[dash % DASHES.len()] }
    }
}

/// What the axes of all panels span, in the logarithms of bytes (to base 2) and MB/s (to base 10).
struct Scale {
    sizes: BTreeSet<usize>,
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn of(rows: &[Row]) -> Self {
        let sizes: BTreeSet<usize> = rows.iter().map(|row| row.bytes).collect();
        let log = |size: Option<&usize>| size.map_or(0.0, |size| (*size as f64).log2());
        let x = (log(sizes.first()), log(sizes.last()));
        let rates = || rows.iter().map(|row| row.mb_per_s.max(1e-3).log10());
        let y = (rates().fold(f64::INFINITY, f64::min).floor(), rates().fold(f64::NEG_INFINITY, f64::max).ceil());
        // A single value still has a place, in the middle.
        let x = if x.1 - x.0 < 0.5 { (x.0 - 1.0, x.1 + 1.0) } else { x };
        let y = if y.1 - y.0 < 0.5 { (y.0 - 1.0, y.1 + 1.0) } else { y };
        Self { sizes, x, y }
    }
}

struct Panel<'a> {
    /// Left and top.
    corner: (f64, f64),
    scale: &'a Scale,
}

impl Panel<'_> {
    fn place(&self, bytes: f64, rate: f64) -> (f64, f64) {
        let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        let (left, top, right, bottom) = self.edges();
        let x = left + share(bytes, self.scale.x) * (right - left);
        let y = bottom - share(rate, self.scale.y) * (bottom - top);
        (x, y)
    }

    /// Left, top, right and bottom of the axes.
    fn edges(&self) -> (f64, f64, f64, f64) {
        let (x, y) = self.corner;
        (x + MARGIN.0, y + MARGIN.1, x + PANEL.0 - MARGIN.2, y + PANEL.1 - MARGIN.3)
    }

    fn axes(&self, svg: &mut Svg, title: &str) {
        let (left, top, right, bottom) = self.edges();
        for decade in self.scale.y.0 as i32..=self.scale.y.1 as i32 {
            for digit in 1..10 {
                let rate = f64::from(digit).log10() + f64::from(decade);
                if rate > self.scale.y.1 {
                    break;
                }
                let (_, y) = self.place(self.scale.x.0, rate);
                svg.grid((left, y), (right, y), digit == 1);
            }
            let (_, y) = self.place(self.scale.x.0, f64::from(decade));
            svg.text((left - 8.0, y + 4.0), "end", &decimal(decade));
        }
        let mut free = f64::NEG_INFINITY;
        for &size in &self.scale.sizes {
            let (x, _) = self.place((size as f64).log2(), self.scale.y.0);
            svg.grid((x, top), (x, bottom), true);
            // Sizes that lie too near to the last one go without a label.
            if x - free > 34.0 {
                svg.text((x, bottom + 18.0), "middle", &binary(size));
                free = x;
            }
        }
        svg.frame((left, top), (right, bottom));
        svg.title((f64::midpoint(left, right), top - 12.0), title);
        svg.text((f64::midpoint(left, right), bottom + 36.0), "middle", "bytes in a request");
        svg.upright((self.corner.0 + 12.0, f64::midpoint(top, bottom)), "MB/s");
    }

    fn line(&self, svg: &mut Svg, points: &[(usize, f64)], look: Look) {
        let place = |&(bytes, rate): &(usize, f64)| self.place((bytes as f64).log2(), rate.max(1e-3).log10());
        let places: Vec<(f64, f64)> = points.iter().map(place).collect();
        svg.path(&places, look);
        for place in places {
            svg.dot(place, look);
        }
    }
}

/// A power of ten: `0.1`, `10`, `10,000`.
fn decimal(exponent: i32) -> String {
    match exponent {
        ..0 => format!("{:.*}", exponent.unsigned_abs() as usize, 10_f64.powi(exponent)),
        0..3 => 10_u32.pow(exponent as u32).to_string(),
        _ => format!("{},000", 10_u32.pow(exponent as u32 - 3)),
    }
}

/// A size: `64`, `16 Ki`, `1 Mi`.
fn binary(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} Mi", size >> 20),
        size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} Ki", size >> 10),
        size => size.to_string(),
    }
}

/// A document in the making. Its greys and colours stand on light and on dark ground alike; the ground is the reader's.
struct Svg {
    text: String,
}

impl Svg {
    fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { text: String::new() };
        svg.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">"
        ));
        svg.add(format_args!("<title>Throughput against size, by gantry speed</title>"));
        svg.add(format_args!(
            "<style>svg{{background:#ffffff;color:#24292f}} @media (prefers-color-scheme:dark){{svg{{background:#16191d;color:#d0d7de}}}} \
             text{{fill:currentColor}}</style>"
        ));
        svg
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{element}");
    }

    fn grid(&mut self, from: (f64, f64), to: (f64, f64), major: bool) {
        let opacity = if major { 0.45 } else { 0.15 };
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#808890\" stroke-opacity=\"{opacity}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn frame(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" stroke=\"#808890\"/>",
            from.0,
            from.1,
            to.0 - from.0,
            to.1 - from.1
        ));
    }

    fn path(&mut self, points: &[(f64, f64)], look: Look) {
        if points.is_empty() {
            return;
        }
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
            points.join(" "),
            look.colour,
            look.dash
        ));
    }

    fn dot(&mut self, (x, y): (f64, f64), look: Look) {
        self.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>", look.colour));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escape(text);
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    fn title(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"14\" font-weight=\"600\">{text}</text>"
        ));
    }

    /// Text that is read from below.
    fn upright(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\">{text}</text>"
        ));
    }

    fn finish(mut self) -> String {
        self.text += "</svg>\n";
        self.text
    }
}

/// Names of devices come from drivers.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        assert_eq!([-1, 0, 2, 3, 4].map(decimal), ["0.1", "1", "100", "1,000", "10,000"]);
        assert_eq!([16, 1000, 1024, 16384, 1 << 20].map(binary), ["16", "1000", "1 Ki", "16 Ki", "1 Mi"]);
    }

    #[test]
    fn one_row_and_no_row_are_drawn_too() {
        assert!(draw(&[]).ends_with("</svg>\n"));
        assert_eq!(escape("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
