//! Plain-text tables: first column to the left, the others to the right, two blanks between.

/// Rows of cells under a header of one or more lines.
#[derive(Default)]
pub(crate) struct Table {
    header: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Adds a line to the header; several lines stand above each other.
    pub(crate) fn header(mut self, cells: &[&str]) -> Table {
        self.header.push(cells.iter().map(|cell| cell.to_string()).collect());
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the table as lines, each ended, without trailing blanks.
    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
        let rule = vec!["-".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1))];
        let lines = self.header.iter().chain([&rule]).chain(&self.rows);
        lines.map(|cells| line(cells, &widths) + "\n").collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for cells in self.header.iter().chain(&self.rows) {
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, &width))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
}
