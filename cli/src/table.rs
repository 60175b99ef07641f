//! Text tables that fit into a terminal.

use crate::terminal;

/// A text table with columns as wide as necessary. The last column is not padded. If the output is too narrow, optional columns are left
/// out, and the last column is folded.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right_aligned: Vec<usize>,
    optional: Vec<usize>,
}

/// Blanks between two cells.
const COLUMN_GAP: usize = 2;
/// Minimum width of a folded column.
const MIN_FOLDED_WIDTH: usize = 16;

impl Table {
    /// Creates a table; `right_aligned` has the indices of the columns that are aligned to the right, as numbers are.
    pub(crate) fn new(header: &[&str], right_aligned: &[usize]) -> Self {
        let rows = vec![header.iter().map(|&cell| cell.to_owned()).collect()];
        Self { rows, right_aligned: right_aligned.to_vec(), optional: Vec::new() }
    }

    /// Sets the columns that may be left out, in this order.
    pub(crate) fn with_optional_columns(mut self, columns: &[usize]) -> Self {
        self.optional = columns.to_vec();
        self
    }

    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self) -> String {
        self.render_within(terminal::width())
    }

    fn render_within(&self, max_width: Option<usize>) -> String {
        let mut widths = self.widths();
        let max_width = max_width.unwrap_or(usize::MAX);
        let kept = fitting_columns(&widths, &self.optional, max_width);
        let last = widths.len().saturating_sub(1);
        let folded =
            kept.contains(&last) && self.rows.iter().any(|row| row.get(last).is_some_and(|cell| cell.contains(' ')));
        if folded {
            let others: usize =
                kept.iter().filter(|column| **column != last).map(|column| widths[*column] + COLUMN_GAP).sum();
            widths[last] = widths[last].min(max_width.saturating_sub(others).max(MIN_FOLDED_WIDTH));
        }
        let of_kept =
            |row: &[String]| kept.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect();
        let right_aligned: Vec<usize> =
            (0..kept.len()).filter(|index| self.right_aligned.contains(&kept[*index])).collect();
        let kept_widths: Vec<usize> = kept.iter().map(|column| widths[*column]).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut cells: Vec<String> = of_kept(row);
            let rest = if folded { fold(cells.last_mut(), widths[last]) } else { Vec::new() };
            text += &format_line(&cells, &kept_widths, &right_aligned);
            for part in rest {
                cells.fill(String::new());
                cells[kept.len() - 1] = part;
                text += &format_line(&cells, &kept_widths, &right_aligned);
            }
        }
        text + &omission_note(
            self.rows[0].iter().enumerate().filter(|(column, _)| !kept.contains(column)).map(|(_, name)| &**name),
        )
    }

    fn widths(&self) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| terminal::columns(cell)).max()
        };
        (0..count).map(|column| widest(column).unwrap_or_default()).collect()
    }
}

/// Returns the indices of the columns to show. Leaves out optional columns in their order until the others fit.
pub(crate) fn fitting_columns(widths: &[usize], optional: &[usize], max_width: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    for column in optional {
        let total: usize = kept.iter().map(|column| widths[*column] + COLUMN_GAP).sum();
        // `total` has a gap after the last column, too.
        if total <= max_width.saturating_add(COLUMN_GAP) {
            break;
        }
        kept.retain(|kept| kept != column);
    }
    kept
}

/// Returns a line with the names of the omitted columns, or an empty string if there are none.
pub(crate) fn omission_note<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() { String::new() } else { format!("(no room for {})\n", names.join(", ")) }
}

/// Wraps a cell to `width` columns. Leaves the first line in the cell, and returns the others.
fn fold(cell: Option<&mut String>, width: usize) -> Vec<String> {
    let Some(cell) = cell.filter(|cell| terminal::columns(cell) > width) else { return Vec::new() };
    let mut lines = terminal::wrap(cell, width, "");
    *cell = lines.remove(0);
    lines
}

/// Formats one line of a table, without blanks at its end.
pub(crate) fn format_line(cells: &[String], widths: &[usize], right_aligned: &[usize]) -> String {
    let mut line = String::new();
    for (column, cell) in cells.iter().enumerate() {
        let padding = " ".repeat(widths[column].saturating_sub(terminal::columns(cell)));
        if right_aligned.contains(&column) {
            line += &padding;
            line += cell;
        } else {
            line += cell;
            line += &padding;
        }
        line += "  ";
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "N", "WHAT"], &[1]);
        table.add_row(["é".into(), "100".into(), "more".into()]);
        assert_eq!(table.render_within(None), "NAME    N  WHAT\né     100  more\n");
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_columns_and_says_so() {
        let mut table = Table::new(&["NAME", "KIND", "N"], &[2]).with_optional_columns(&[1]);
        table.add_row(["sha256".into(), "digest".into(), "7".into()]);
        assert_eq!(table.render_within(Some(17)), table.render_within(None));
        assert_eq!(table.render_within(Some(16)), "NAME    N\nsha256  7\n(no room for KIND)\n");
        assert_eq!(table.render_within(Some(1)), table.render_within(Some(16)), "other columns stay");
    }

    #[test]
    fn text_in_the_last_column_is_folded() {
        let mut table = Table::new(&["N", "WHAT"], &[]);
        table.add_row(["1".into(), "one two three four five".into()]);
        table.add_row(["2".into(), "short".into()]);
        assert_eq!(table.render_within(Some(20)), "N  WHAT\n1  one two three\n   four five\n2  short\n");
        assert_eq!(table.render_within(None).lines().count(), 3);
    }
}
