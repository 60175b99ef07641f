//! Throughput against size, both on logarithmic axes: one panel per algorithm and operation, one line per device and number of requests
//! in flight.

use std::collections::BTreeSet;

use super::svg::{LineStyle, Svg};
use super::{COLOURS, Sheet, distinct, edges, format_size};
use crate::machine::Machine;

/// A point of the drawing.
pub(crate) struct Sample {
    pub(crate) algorithm: &'static str,
    pub(crate) operation: &'static str,
    /// A device, or `openssl`.
    pub(crate) device: String,
    pub(crate) bytes: usize,
    /// How requests were submitted: `batch 16`, `queue 32`. Empty for `openssl`.
    pub(crate) mode: String,
    pub(crate) mb_per_s: f64,
}

/// Colour of `openssl`.
const OPENSSL_COLOUR: &str = "#7f7f7f";
/// Dash patterns, one for each way to submit requests.
const DASHES: [&str; 5] = ["", "6 4", "2 3", "9 3 2 3", "12 4"];

/// Draws the samples as an SVG document; `command` names the source.
pub(crate) fn draw(command: &str, rows: &[Sample], machine: &Machine) -> String {
    let devices: Vec<&str> = distinct(rows.iter().map(|row| row.device.as_str()));
    let modes: Vec<&str> = distinct(rows.iter().map(|row| row.mode.as_str()));
    let lines: Vec<(&str, &str)> = distinct(rows.iter().map(|row| (row.device.as_str(), row.mode.as_str())));
    let panels: Vec<(&str, &str)> = distinct(rows.iter().map(|row| (row.algorithm, row.operation)));

    let sheet = Sheet::new(panels.len());
    let columns = (sheet.panel_columns * 2).min(lines.len()).max(1);
    let scale = Scale::of(rows);
    let title = format!("Throughput against size, by {command}");
    let legend_lines = lines.len().div_ceil(columns);
    let mut svg = sheet.new_svg(&title, legend_lines);
    for (index, (algorithm, operation)) in panels.iter().enumerate() {
        let panel = Panel { corner: sheet.corner(index), scale: &scale };
        panel.draw_axes(&mut svg, &format!("{algorithm} {operation}"));
        for &(device, mode) in &lines {
            let of_line = |row: &&Sample| {
                (row.algorithm, row.operation) == (*algorithm, *operation)
                    && (row.device.as_str(), row.mode.as_str()) == (device, mode)
            };
            let mut points: Vec<(usize, f64)> =
                rows.iter().filter(of_line).map(|row| (row.bytes, row.mb_per_s)).collect();
            points.sort_by_key(|(bytes, _)| *bytes);
            panel.draw_line(&mut svg, &points, line_style(device, mode, &devices, &modes));
        }
    }
    for (index, &(device, mode)) in lines.iter().enumerate() {
        let (x, y) = sheet.legend_position(index, columns);
        let style = line_style(device, mode, &devices, &modes);
        svg.path(&[(x, y), (x + 28.0, y)], style);
        svg.dot((x + 14.0, y), style);
        let comma = if mode.is_empty() { "" } else { ", " };
        svg.text((x + 36.0, y + 4.0), "start", &format!("{device}{comma}{mode}"));
    }
    sheet.draw_caption(&mut svg, legend_lines, machine);
    svg.finish()
}

fn line_style(device: &str, mode: &str, devices: &[&str], modes: &[&str]) -> LineStyle {
    let device_index = devices.iter().position(|known| *known == device).unwrap_or(0);
    let dash = modes.iter().position(|known| *known == mode).unwrap_or(0);
    let colour = if device == "openssl" { OPENSSL_COLOUR } else { COLOURS[device_index % COLOURS.len()] };
    LineStyle { colour, dash: DASHES[dash % DASHES.len()] }
}

/// Ranges of the axes of all panels: log2 of bytes, and log10 of MB/s.
struct Scale {
    sizes: BTreeSet<usize>,
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn of(rows: &[Sample]) -> Self {
        let sizes: BTreeSet<usize> = rows.iter().map(|row| row.bytes).collect();
        let log = |size: Option<&usize>| size.map_or(0.0, |size| (*size as f64).log2());
        let x = (log(sizes.first()), log(sizes.last()));
        let rates = || rows.iter().map(|row| row.mb_per_s.max(1e-3).log10());
        let y = (rates().fold(f64::INFINITY, f64::min).floor(), rates().fold(f64::NEG_INFINITY, f64::max).ceil());
        // Centres a single value.
        let x = if x.1 - x.0 < 0.5 { (x.0 - 1.0, x.1 + 1.0) } else { x };
        let y = if y.1 - y.0 < 0.5 { (y.0 - 1.0, y.1 + 1.0) } else { y };
        Self { sizes, x, y }
    }
}

struct Panel<'a> {
    /// Left and top of the panel.
    corner: (f64, f64),
    scale: &'a Scale,
}

impl Panel<'_> {
    fn position(&self, bytes: f64, rate: f64) -> (f64, f64) {
        let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        let (left, top, right, bottom) = edges(self.corner);
        let x = left + share(bytes, self.scale.x) * (right - left);
        let y = bottom - share(rate, self.scale.y) * (bottom - top);
        (x, y)
    }

    fn draw_axes(&self, svg: &mut Svg, title: &str) {
        let (left, top, right, bottom) = edges(self.corner);
        for decade in self.scale.y.0 as i32..=self.scale.y.1 as i32 {
            for digit in 1..10 {
                let rate = f64::from(digit).log10() + f64::from(decade);
                if rate > self.scale.y.1 {
                    break;
                }
                let (_, y) = self.position(self.scale.x.0, rate);
                svg.grid((left, y), (right, y), digit == 1);
            }
            let (_, y) = self.position(self.scale.x.0, f64::from(decade));
            svg.text((left - 8.0, y + 4.0), "end", &format_power_of_ten(decade));
        }
        let mut last_label_x = f64::NEG_INFINITY;
        for &size in &self.scale.sizes {
            let (x, _) = self.position((size as f64).log2(), self.scale.y.0);
            svg.grid((x, top), (x, bottom), true);
            // Omits labels that would overlap.
            if x - last_label_x > 34.0 {
                svg.text((x, bottom + 18.0), "middle", &format_size(size));
                last_label_x = x;
            }
        }
        svg.frame((left, top), (right, bottom));
        svg.title((f64::midpoint(left, right), top - 12.0), title);
        svg.text((f64::midpoint(left, right), bottom + 36.0), "middle", "bytes in a request");
        svg.rotated_text((self.corner.0 + 12.0, f64::midpoint(top, bottom)), "MB/s");
    }

    fn draw_line(&self, svg: &mut Svg, points: &[(usize, f64)], style: LineStyle) {
        let position = |&(bytes, rate): &(usize, f64)| self.position((bytes as f64).log2(), rate.max(1e-3).log10());
        let positions: Vec<(f64, f64)> = points.iter().map(position).collect();
        svg.path(&positions, style);
        for position in positions {
            svg.dot(position, style);
        }
    }
}

/// Formats a power of ten: `0.1`, `10`, `10,000`.
fn format_power_of_ten(exponent: i32) -> String {
    match exponent {
        ..0 => format!("{:.*}", exponent.unsigned_abs() as usize, 10_f64.powi(exponent)),
        0..3 => 10_u32.pow(exponent as u32).to_string(),
        _ => format!("{},000", 10_u32.pow(exponent as u32 - 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        assert_eq!([-1, 0, 2, 3, 4].map(format_power_of_ten), ["0.1", "1", "100", "1,000", "10,000"]);
    }

    #[test]
    fn an_empty_drawing_is_valid() {
        let svg = draw("gantry speed", &[], &Machine::example());
        assert!(svg.contains(">CPU &lt;1&gt;, level avx2</text>") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
