//! Drawings: panels on a sheet, with a legend below.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "52 bits are more than any size has")]

pub(crate) mod lines;
mod svg;

use svg::Svg;

use crate::machine::Machine;

/// Width and height of a panel, in pixels like all lengths here.
const PANEL_SIZE: (f64, f64) = (460.0, 300.0);
/// Room around the axes of a panel, for labels: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 34.0, 16.0, 46.0);
const PANELS_IN_A_ROW: usize = 2;
const LEGEND_LINE_HEIGHT: f64 = 20.0;
const CAPTION_LINES: usize = 2;
const PADDING: f64 = 14.0;

/// Colours that are distinct on white and on black, also for most colour-blind people (Okabe and Ito, 2008).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/// Layout of panels and legend.
struct Sheet {
    panel_columns: usize,
    panel_rows: usize,
}

impl Sheet {
    fn new(panels: usize) -> Self {
        let panel_columns = panels.clamp(1, PANELS_IN_A_ROW);
        Self { panel_columns, panel_rows: panels.div_ceil(panel_columns) }
    }

    fn new_svg(&self, title: &str, legend_lines: usize) -> Svg {
        let lines = legend_lines + CAPTION_LINES;
        let height = self.corner(self.panel_rows * self.panel_columns).1 + LEGEND_LINE_HEIGHT * lines as f64 + PADDING;
        Svg::new(PADDING * 2.0 + PANEL_SIZE.0 * self.panel_columns as f64, height, title)
    }

    /// Draws the last lines: the machine and date of the measurement.
    fn draw_caption(&self, svg: &mut Svg, legend_lines: usize, machine: &Machine) {
        for (line, text) in machine.lines().iter().enumerate() {
            let (x, y) = self.legend_position(legend_lines + line, 1);
            svg.text((x, y + 4.0), "start", text);
        }
    }

    /// Returns the left and top of a panel.
    fn corner(&self, index: usize) -> (f64, f64) {
        let (column, row) = (index % self.panel_columns, index / self.panel_columns);
        (PADDING + PANEL_SIZE.0 * column as f64, PADDING + PANEL_SIZE.1 * row as f64)
    }

    /// Returns the start of a legend's entry, at half the height of its line.
    fn legend_position(&self, index: usize, columns: usize) -> (f64, f64) {
        let (left, top) = self.corner(self.panel_rows * self.panel_columns);
        let width = (PANEL_SIZE.0 * self.panel_columns as f64 - MARGIN.0) / columns as f64;
        let line = (index / columns) as f64 + 0.5;
        (left + MARGIN.0 + width * (index % columns) as f64, top + LEGEND_LINE_HEIGHT * line)
    }
}

/// Returns the left, top, right and bottom of the axes of a panel.
fn edges((x, y): (f64, f64)) -> (f64, f64, f64, f64) {
    (x + MARGIN.0, y + MARGIN.1, x + PANEL_SIZE.0 - MARGIN.2, y + PANEL_SIZE.1 - MARGIN.3)
}

/// Returns every value once, in the order of first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Formats a size: `64`, `16 Ki`, `1 Mi`.
fn format_size(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} Mi", size >> 20),
        size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} Ki", size >> 10),
        size => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_short() {
        assert_eq!([16, 1000, 1024, 16384, 1 << 20].map(super::format_size), ["16", "1000", "1 Ki", "16 Ki", "1 Mi"]);
    }
}
