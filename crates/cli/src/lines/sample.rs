//! What the recorded windows of a run say of its memory: heat by page and time, and accesses by the level that served
//! them.

use std::collections::{BTreeMap, BTreeSet};
use unrack_lines::window::{Served, Window};
use unrack_record::{ServedCount, line_heat};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// Most epochs of the heat's time.
const EPOCHS: u32 = 64;

/// Sums over the windows of a run.
#[derive(Default)]
pub(crate) struct Sample {
    pub windows: u64,
    pub instructions: u64,
    pub write_backs: u64,
    served: BTreeMap<Served, u64>,
    /// Misses and write-backs by epoch and page.
    heat: BTreeMap<(u32, u64), (u64, u64)>,
    pages: BTreeSet<u64>,
}

impl Sample {
    /// Adds a window of a thread, whose run is divided into epochs of so many instructions.
    pub(crate) fn add(&mut self, window: &Window, epoch_instructions: u64) {
        let epoch = (window.start / epoch_instructions.max(1)) as u32;
        self.windows += 1;
        self.instructions += window.steps.iter().map(|step| u64::from(step.instructions)).sum::<u64>();
        self.write_backs += window.write_backs.len() as u64;
        for access in &window.accesses {
            *self.served.entry(access.served).or_default() += 1;
            self.pages.insert(access.address / PAGE);
            if access.served == Served::Memory {
                self.heat.entry((epoch, access.address / PAGE)).or_default().0 += 1;
            }
        }
        for write_back in &window.write_backs {
            self.heat.entry((epoch, write_back.line / PAGE)).or_default().1 += 1;
        }
    }

    /// Returns the instructions of an epoch, for a thread of so many.
    pub(crate) fn epoch_instructions(longest: u64) -> u64 {
        longest.div_ceil(EPOCHS.into()).max(1)
    }

    /// Returns the accesses by level, for a run of `instructions`, of which the windows are a sample.
    pub(crate) fn served(&self, instructions: u64) -> Vec<ServedCount> {
        let levels = [
            (Served::L1, "L1"),
            (Served::L2, "L2"),
            (Served::L3, "L3"),
            (Served::Peer, "peer"),
            (Served::Memory, "memory"),
        ];
        let scaled = |count: u64| (count as f64 * self.scale(instructions)).round() as u64;
        let count = |(served, level): (Served, &str)| ServedCount {
            level: level.into(),
            accesses: scaled(self.served.get(&served).copied().unwrap_or(0)),
        };
        levels.map(count).into()
    }

    /// Returns the instructions of the run over those of the windows.
    pub(crate) fn scale(&self, instructions: u64) -> f64 {
        instructions as f64 / self.instructions.max(1) as f64
    }

    /// Returns the pages that the windows accessed.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns the rows of the table of heat.
    pub(crate) fn heat(&self) -> impl Iterator<Item = line_heat::Row> + '_ {
        let row = |(&(epoch, page), &(misses, write_backs)): (&(u32, u64), &(u64, u64))| line_heat::Row {
            epoch,
            page,
            misses,
            write_backs,
        };
        self.heat.iter().map(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_lines::window::{Access, Step, Walk, WriteBack};

    fn access(address: u64, served: Served) -> Access {
        Access { instruction: 0, address, bytes: 8, is_store: false, served, near: 0, walk: Walk::default() }
    }

    #[test]
    fn misses_are_counted_by_page_and_time_and_scaled_to_the_run() {
        let step = Step { block: 0, instructions: 10, first_access: 0, is_mispredicted: false };
        let window = |start| Window {
            start,
            steps: vec![step; 5],
            accesses: vec![
                access(4096, Served::Memory),
                access(4100, Served::Memory),
                access(9000, Served::L2),
            ],
            write_backs: vec![WriteBack { after: 0, line: 8192, near: 0 }],
            ..Window::default()
        };
        let mut sample = Sample::default();
        sample.add(&window(0), 1000);
        sample.add(&window(2500), 1000);
        let row = |epoch, page, misses, write_backs| line_heat::Row { epoch, page, misses, write_backs };
        let expected = [row(0, 1, 2, 0), row(0, 2, 0, 1), row(2, 1, 2, 0), row(2, 2, 0, 1)];
        assert_eq!(sample.heat().collect::<Vec<_>>(), expected);
        assert_eq!((sample.windows, sample.instructions, sample.pages()), (2, 100, 2));
        let served = sample.served(1000);
        assert_eq!((served[4].accesses, served[1].accesses, served[0].accesses), (40, 20, 0));
    }
}
