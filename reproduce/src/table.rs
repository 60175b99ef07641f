/// A text table. The first `left_columns` columns are words, the others numbers.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    left_columns: usize,
}

impl Table {
    pub(crate) fn new(header: &[&str], left_columns: usize) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()], left_columns }
    }

    pub(crate) fn push_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < self.left_columns { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text += "\n";
        }
        text
    }
}
