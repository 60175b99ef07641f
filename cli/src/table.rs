/// A table of text whose columns are as wide as they must be. The last column is not padded.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// `right` are the columns of numbers.
    pub(crate) fn new(header: &[&str], right: &[usize]) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()], right: right.to_vec() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max())
            .map(Option::unwrap_or_default)
            .collect();
        self.rows.iter().map(|row| line(row, &widths, &self.right)).collect()
    }
}

/// One line of a table whose column widths are known.
pub(crate) fn line(cells: &[String], widths: &[usize], right: &[usize]) -> String {
    let mut line = String::new();
    for (column, cell) in cells.iter().enumerate() {
        let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
        if right.contains(&column) {
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
        table.row(["é".into(), "100".into(), "more".into()]);
        assert_eq!(table.render(), "NAME    N  WHAT\né     100  more\n");
    }
}
