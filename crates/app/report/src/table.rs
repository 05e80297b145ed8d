//! Plain-text tables. The first column is aligned left, the others right, with two blanks between columns. On a terminal that is too
//! narrow, the text in cells is wrapped.

use comfy_table::{CellAlignment, ContentArrangement};
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;

/// Rows of cells under a header of one or more lines.
#[derive(Default)]
pub(crate) struct Table {
    header: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Adds a line to the header. Several lines are stacked.
    pub(crate) fn header(mut self, cells: &[&str]) -> Table {
        self.header.push(cells.iter().map(|cell| cell.to_string()).collect());
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the table as lines that end with a newline and have no trailing blanks. The table is as wide as its cells need, but not
    /// wider than the terminal if standard output is a terminal.
    pub(crate) fn text(&self) -> String {
        self.within(terminal_columns())
    }

    fn within(&self, most: Option<u16>) -> String {
        let widths = self.widths();
        let width = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if let Some(most) = most.filter(|most| width > usize::from(*most)) {
            return self.broken(most);
        }
        let rule = vec!["-".repeat(width)];
        let lines = self.header.iter().chain([&rule]).chain(&self.rows);
        lines.map(|cells| line(cells, &widths) + "\n").collect()
    }

    /// Returns the table with its cells wrapped, so that it fits into `most` columns.
    fn broken(&self, most: u16) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_preset("     --            ")
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(most);
        let columns = self.header.iter().map(Vec::len).max().unwrap_or(0);
        let stacked = |column: usize| {
            let lines = self.header.iter().filter_map(|line| line.get(column));
            lines.map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        table.set_header((0..columns).map(stacked));
        table.add_rows(&self.rows);
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 1));
            if number > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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

/// Returns the number of columns of standard output, if it is a terminal that reports a size.
fn terminal_columns() -> Option<u16> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    tcgetwinsize(&out).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default().header(&["", "over ideal", "slowdown"]).header(&[
            "fabric",
            "mean",
            "95 % interval",
        ]);
        table.row(vec!["edm".into(), "1.02".into(), "1.1 to 1.4".into()]);
        table.row(vec!["a-long-name-of-a-fabric".into(), "12.5".into(), "2.0 to 2.5".into()]);
        table
    }

    #[test]
    fn a_table_that_fits_is_the_same_on_every_terminal() {
        let natural = table().within(None);
        assert_eq!(table().within(Some(200)), natural);
        assert!(natural.contains("edm                            1.02"), "{natural}");
    }

    #[test]
    fn a_table_that_does_not_fit_is_broken_and_loses_nothing() {
        for columns in 24..50 {
            let broken = table().within(Some(columns));
            for line in broken.lines() {
                assert!(line.chars().count() <= usize::from(columns), "{columns}:\n{broken}");
            }
            let letters = |text: &str| {
                let mut all: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(letters(&broken), letters(&table().within(None)), "{columns}:\n{broken}");
        }
    }
}
