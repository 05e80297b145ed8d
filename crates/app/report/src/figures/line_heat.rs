//! Misses to memory by address and time, as cells.

use unrack_record::line_heat::{Meta, Row};

use super::cells::{class, draw_cell, steps};
use crate::chart::{AxisRange, ChartData, Drawing, Key, Picture, WIDE, legend, style};
use crate::markup::{Attributes, Markup, Px};
use crate::words::{bytes, count};

/// Maximum number of rows of cells.
const ROWS: usize = 40;
const CELL_HEIGHT: f64 = 9.0;
/// Width reserved for addresses.
const MARGIN: f64 = 118.0;

/// Draws the heat. `None` if there were no misses.
pub(crate) fn line_heat(meta: &Meta, rows: &[Row]) -> Option<Picture> {
    let heat = HeatCells::new(meta, rows)?;
    let description = format!(
        "{}: {} ranges of {} with misses, in the order of their addresses, over {} epochs of {} instructions.",
        meta.program,
        count(heat.pages as u64),
        bytes(meta.page_size),
        heat.epochs,
        count(meta.epoch_instructions)
    );
    let title = "Misses to memory by address and time";
    Some(Picture::new("line-heat", title, &description, |width| heat.draw(width)))
}

/// Misses in cells. The pages are in the order of their addresses; each row has the same number of pages.
struct HeatCells {
    /// Address of the first byte of each row.
    addresses: Vec<u64>,
    /// Misses by row and epoch.
    cells: Vec<Vec<u64>>,
    epochs: usize,
    pages: usize,
    epoch_instructions: u64,
}

impl HeatCells {
    fn new(meta: &Meta, rows: &[Row]) -> Option<HeatCells> {
        let missed: Vec<&Row> = rows.iter().filter(|row| row.misses > 0).collect();
        let mut pages: Vec<u64> = missed.iter().map(|row| row.page).collect();
        pages.sort_unstable();
        pages.dedup();
        let epochs = missed.iter().map(|row| row.epoch as usize).max()? + 1;
        let together = pages.len().div_ceil(ROWS);
        let mut cells = vec![vec![0; epochs]; pages.len().div_ceil(together)];
        for row in missed {
            let place = pages.partition_point(|page| *page < row.page);
            cells[place / together][row.epoch as usize] += row.misses;
        }
        let addresses = pages.iter().step_by(together).map(|page| page * meta.page_size).collect();
        Some(HeatCells {
            addresses,
            cells,
            epochs,
            pages: pages.len(),
            epoch_instructions: meta.epoch_instructions,
        })
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut body = Markup::new();
        let top = self.keys(&mut body, width) + 4.0;
        let steps = steps(self.most());
        let cell = (width - MARGIN - 12.0) / self.epochs as f64;
        for (row, misses) in self.cells.iter().enumerate() {
            let y = top + row as f64 * CELL_HEIGHT;
            for (epoch, misses) in misses.iter().enumerate() {
                let text =
                    format!("{} misses in epoch {epoch}, from {:#x}", count(*misses), self.addresses[row]);
                let corner = (MARGIN + epoch as f64 * cell, y);
                let class = class(&steps, *misses as f64);
                draw_cell(&mut body, class, corner, (cell, CELL_HEIGHT), &text);
            }
            if row.is_multiple_of(if width < WIDE { 8 } else { 4 }) {
                let place: Attributes =
                    &[("class", &"tick end"), ("x", &Px(MARGIN - 7.0)), ("y", &Px(y + CELL_HEIGHT))];
                body.text("text", place, &format!("{:#x}", self.addresses[row]));
            }
        }
        let bottom = top + self.cells.len() as f64 * CELL_HEIGHT;
        let middle = Px((MARGIN + width - 12.0) / 2.0);
        let label = format!("time, in epochs of {} instructions", count(self.epoch_instructions));
        body.text("text", &[("class", &"label mid"), ("x", &middle), ("y", &Px(bottom + 20.0))], &label);
        Drawing { width, height: bottom + 32.0, body, data: self.data(&label) }
    }

    fn data(&self, label: &str) -> ChartData {
        let mut data = ChartData::of_cells(label, "address", "misses", &steps(self.most()));
        for (address, misses) in self.addresses.iter().zip(&self.cells) {
            for (epoch, misses) in misses.iter().enumerate() {
                data.cell("", epoch.to_string(), format!("{address:#x}"), *misses as f64, AxisRange::None);
            }
        }
        data
    }

    fn keys(&self, m: &mut Markup, width: f64) -> f64 {
        let last = format!("h{}", style::HEAT - 1);
        let most = format!("{} misses", count(self.most()));
        legend(m, 8.0, width - 16.0, &[(Key::Cell, "h0", "none"), (Key::Cell, &last, &most)])
    }

    fn most(&self) -> u64 {
        self.cells.iter().flatten().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta { command_line: Vec::new(), program: "/bin/x".into(), page_size: 4096, epoch_instructions: 1000 }
    }

    fn row(epoch: u32, page: u64, misses: u64) -> Row {
        Row { epoch, page, misses, write_backs: 0 }
    }

    #[test]
    fn misses_of_all_pages_are_in_the_cells() {
        let rows: Vec<Row> = (0..3).flat_map(|e| (0..100).map(move |p| row(e, p * 7, p + 1))).collect();
        let heat = HeatCells::new(&meta(), &rows).unwrap();
        assert_eq!((heat.epochs, heat.pages, heat.cells.len()), (3, 100, 34));
        assert_eq!(heat.cells.iter().flatten().sum::<u64>(), 3 * 5050);
        assert_eq!(heat.cells[1][0], 4 + 5 + 6);
        assert_eq!(heat.addresses[1], 3 * 7 * 4096);
    }

    #[test]
    fn without_misses_there_is_no_picture() {
        assert!(line_heat(&meta(), &[]).is_none() && line_heat(&meta(), &[row(0, 1, 0)]).is_none());
    }
}
