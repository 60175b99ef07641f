//! What a policy reaches of the best device: a panel for each algorithm and number of threads, a cell for each size and
//! number of requests in hand. Colour is the ratio, and a dot says which device is the best one.

use super::svg::Svg;
use super::{COLOURS, Sheet, binary, edges, in_order};
use crate::machine::Machine;

/// A point of the drawing.
pub(crate) struct Cell {
    pub(crate) panel: String,
    pub(crate) bytes: usize,
    pub(crate) batch: usize,
    /// Throughput of the policy / of the best device.
    pub(crate) ratio: f64,
    pub(crate) best_device: String,
}

/// Colours of less and of more than 1. Devices that are usual have others.
const LOSS: &str = "#cc79a7";
const GAIN: &str = "#009e73";
/// A ratio so far from 1, and any that is farther, has the full colour.
const FULL: f64 = 0.1;
/// Ratios in the legend.
const SHOWN: [(f64, &str); 5] =
    [(0.9, "0.90 or less"), (0.95, "0.95"), (1.0, "1.00"), (1.05, "1.05"), (1.1, "1.10 or more")];

/// The cells as an SVG document. Colours of `devices` are as their order has it.
pub(crate) fn draw(title: &str, devices: &[&str], cells: &[Cell], machine: &Machine) -> String {
    let panels: Vec<&str> = in_order(cells.iter().map(|cell| cell.panel.as_str()));
    let sheet = Sheet::new(panels.len());
    let best = |device: &&&str| cells.iter().any(|cell| cell.best_device == **device);
    let found: Vec<&str> = devices.iter().filter(best).copied().collect();
    let columns = SHOWN.len();
    let legend = 1 + found.len().div_ceil(columns);
    let mut svg = sheet.begin(title, legend);
    for (index, title) in panels.iter().enumerate() {
        let of_panel: Vec<&Cell> = cells.iter().filter(|cell| cell.panel == *title).collect();
        panel(&mut svg, sheet.corner(index), title, devices, &of_panel);
    }
    for (index, (ratio, label)) in SHOWN.into_iter().enumerate() {
        let (x, y) = sheet.legend(index, columns);
        paint(&mut svg, (x, y - 7.0), (14.0, 14.0), ratio);
        svg.text((x + 20.0, y + 4.0), "start", label);
    }
    for (index, device) in found.into_iter().enumerate() {
        let (x, y) = sheet.legend(columns + index, columns);
        svg.mark((x + 7.0, y), colour(device, devices));
        svg.text((x + 20.0, y + 4.0), "start", device);
    }
    sheet.caption(&mut svg, legend, machine);
    svg.finish()
}

fn panel(svg: &mut Svg, corner: (f64, f64), title: &str, devices: &[&str], cells: &[&Cell]) {
    let sorted = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers
    };
    let sizes = sorted(in_order(cells.iter().map(|cell| cell.bytes)));
    let batches = sorted(in_order(cells.iter().map(|cell| cell.batch)));
    let (left, top, right, bottom) = edges(corner);
    let (width, height) = ((right - left) / sizes.len() as f64, (bottom - top) / batches.len() as f64);
    for cell in cells {
        let place = |all: &[usize], value: usize| all.iter().position(|known| *known == value).unwrap_or(0) as f64;
        let (x, y) = (left + width * place(&sizes, cell.bytes), bottom - height * (place(&batches, cell.batch) + 1.0));
        paint(svg, (x, y), (width, height), cell.ratio);
        svg.mark((x + 9.0, y + height / 2.0), colour(&cell.best_device, devices));
        svg.text((x + 16.0, y + height / 2.0 + 4.0), "start", &format!("{:.2}", cell.ratio));
    }
    for (index, size) in sizes.into_iter().enumerate() {
        svg.text((left + width * (index as f64 + 0.5), bottom + 18.0), "middle", &binary(size));
    }
    for (index, batch) in batches.into_iter().enumerate() {
        svg.text((left - 8.0, bottom - height * (index as f64 + 0.5) + 4.0), "end", &batch.to_string());
    }
    svg.frame((left, top), (right, bottom));
    svg.title((f64::midpoint(left, right), top - 12.0), title);
    svg.text((f64::midpoint(left, right), bottom + 36.0), "middle", "bytes in a request");
    svg.upright((corner.0 + 12.0, f64::midpoint(top, bottom)), "requests in hand");
}

/// An area in the colour of a ratio. At 1 it is that of the ground.
fn paint(svg: &mut Svg, corner: (f64, f64), size: (f64, f64), ratio: f64) {
    let share = ((ratio - 1.0) / FULL).clamp(-1.0, 1.0);
    svg.area(corner, size, if share < 0.0 { LOSS } else { GAIN }, share.abs() * 0.85);
}

fn colour(device: &str, devices: &[&str]) -> &'static str {
    COLOURS[devices.iter().position(|known| *known == device).unwrap_or(0) % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_a_colour_and_one_is_none() {
        let cell = |bytes, ratio| {
            let (panel, best_device) = ("sha256 digest, 1 thread".to_owned(), "software".to_owned());
            Cell { panel, bytes, batch: 1, ratio, best_device }
        };
        let svg = draw("regret", &["software"], &[cell(16, 0.5), cell(64, 1.0), cell(256, 1.2)], &Machine::example());
        let image = roxmltree::Document::parse(&svg).unwrap();
        let areas = image.descendants().filter(|node| node.attribute("fill-opacity").is_some());
        let looks: Vec<_> =
            areas.map(|area| (area.attribute("fill").unwrap(), area.attribute("fill-opacity").unwrap())).collect();
        assert_eq!(looks[..3], [(LOSS, "0.85"), (GAIN, "0.00"), (GAIN, "0.85")]);
        assert!(draw("regret", &[], &[], &Machine::example()).ends_with("</svg>\n"));
    }
}
