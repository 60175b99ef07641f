//! Groups of horizontal bars. The longest bar of each group has the whole width.

use super::svg::Svg;
use super::{COLOURS, LEGEND_LINE, PADDING, in_order};
use crate::machine::Machine;

/// Bars that are compared with each other.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    /// Bars of one name have one colour.
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    /// What is written behind it.
    pub(crate) text: String,
}

/// Left of the bars, the longest bar, and what is right of it.
const NAMES: f64 = 200.0;
const LONGEST: f64 = 420.0;
const TEXTS: f64 = 160.0;
const THICK: f64 = 14.0;
const BETWEEN: f64 = 10.0;

/// The groups as an SVG document.
pub(crate) fn draw(title: &str, groups: &[Group], machine: &Machine) -> String {
    let names: Vec<&str> = in_order(groups.iter().flat_map(|group| &group.bars).map(|bar| bar.name));
    let bars: usize = groups.iter().map(|group| group.bars.len()).sum();
    let drawn = LEGEND_LINE + bars as f64 * THICK + groups.len() as f64 * BETWEEN;
    let height = PADDING + drawn + 3.0 * LEGEND_LINE + PADDING;
    let mut svg = Svg::new(2.0 * PADDING + NAMES + LONGEST + TEXTS, height, title);
    svg.title((PADDING + NAMES + LONGEST / 2.0, PADDING + 4.0), title);
    let colour = |name: &str| COLOURS[names.iter().position(|known| *known == name).unwrap_or(0) % COLOURS.len()];
    let left = PADDING + NAMES;
    let mut y = PADDING + LEGEND_LINE;
    for group in groups {
        let longest = group.bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        svg.text((left - 8.0, y + group.bars.len() as f64 * THICK / 2.0 + 4.0), "end", &group.name);
        for bar in &group.bars {
            let length = LONGEST * (bar.value / longest).clamp(0.0, 1.0);
            svg.area((left, y + 1.0), (length, THICK - 2.0), colour(bar.name), 1.0);
            svg.text((left + length + 6.0, y + THICK - 3.0), "start", &bar.text);
            y += THICK;
        }
        y += BETWEEN;
    }
    y += LEGEND_LINE / 2.0;
    for (index, name) in names.iter().enumerate() {
        let x = left + 160.0 * index as f64;
        svg.area((x, y - 7.0), (14.0, 14.0), colour(name), 1.0);
        svg.text((x + 20.0, y + 4.0), "start", name);
    }
    for text in machine.lines() {
        y += LEGEND_LINE;
        svg.text((left, y + 4.0), "start", &text);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_names_may_hold_anything() {
        let bar = |name, value| Bar { name, value, text: format!("{value}") };
        let groups = [Group { name: "<b>".to_owned(), bars: vec![bar("one", 4.0), bar("other", 1.0)] }];
        let svg = draw("title", &groups, &Machine::example());
        assert!(svg.contains("width=\"420.0\"") && svg.contains("width=\"105.0\""), "{svg}");
        assert!(svg.contains(">&lt;b&gt;</text>") && svg.contains("CPU &lt;1&gt;"), "{svg}");
    }
}
