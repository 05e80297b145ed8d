//! Heat by time and address range, in a bounded number of cells. A cell is one address range in one epoch.

use super::ranges::{RangeTotals, SHIFT, merged};
use super::{RangeHeat, TransferReason};

/// Maximum number of epochs. An epoch is a period of time, which is measured in executed instructions.
const EPOCHS: usize = 64;
/// Initial length of an epoch, in instructions.
const INSTRUCTIONS: u64 = 1 << 20;
/// Maximum number of cells in all completed epochs.
const CELLS: usize = 1 << 16;
/// Maximum number of address ranges in the current epoch.
const RANGES: usize = 1 << 16;

/// Heat by time and address range. When the number of epochs would exceed its limit, the epochs double in length. When
/// the number of cells would exceed its limit, the address ranges double in size.
#[derive(Clone, Debug)]
pub(super) struct HeatPicture {
    shift: u32,
    epoch_instructions: u64,
    over: Vec<Vec<RangeHeat>>,
    current: RangeTotals,
}

impl HeatPicture {
    pub(super) fn new() -> HeatPicture {
        let current = RangeTotals::new(RANGES);
        HeatPicture { shift: SHIFT, epoch_instructions: INSTRUCTIONS, over: Vec::new(), current }
    }

    /// Counts a transferred line in the current epoch.
    #[inline]
    pub(super) fn add(&mut self, address: u64, way: TransferReason) {
        self.current.add(address, way);
    }

    /// Advances time to `instructions` executed instructions, and completes the epochs that have ended.
    pub(super) fn advance(&mut self, instructions: u64) {
        while instructions / self.epoch_instructions > self.over.len() as u64 {
            let ended = std::mem::replace(&mut self.current, RangeTotals::new(RANGES));
            self.shift = self.shift.max(ended.range_bytes().trailing_zeros());
            self.over.push(ended.sorted());
            if self.over.len() == EPOCHS {
                self.double_epochs();
            }
            self.limit();
        }
    }

    fn double_epochs(&mut self) {
        self.epoch_instructions *= 2;
        let shift = self.shift;
        self.over = self.over.chunks(2).map(|pair| added(&pair.concat(), shift)).collect();
    }

    /// Doubles the size of the address ranges until the number of cells is within its limit.
    fn limit(&mut self) {
        while self.over.iter().map(Vec::len).sum::<usize>() > CELLS {
            self.shift += 1;
            let shift = self.shift;
            self.over.iter_mut().for_each(|epoch| *epoch = merged(epoch.drain(..), shift));
        }
    }

    /// Returns the length of an epoch, in instructions.
    pub(super) fn epoch_instructions(&self) -> u64 {
        self.epoch_instructions
    }

    /// Returns the size of an address range, in bytes.
    pub(super) fn range_bytes(&self) -> u64 {
        1 << self.shift.max(self.current.range_bytes().trailing_zeros())
    }

    /// Returns the heat of all epochs. The last element is the current epoch.
    pub(super) fn epochs(&self) -> Vec<Vec<RangeHeat>> {
        let shift = self.range_bytes().trailing_zeros();
        let present = self.current.sorted();
        self.over.iter().chain([&present]).map(|epoch| merged(epoch.iter().copied(), shift)).collect()
    }
}

/// Sums the rows that belong to the same address range of 2^`shift` bytes. The rows may be in any order.
fn added(rows: &[RangeHeat], shift: u32) -> Vec<RangeHeat> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.address);
    merged(rows.into_iter(), shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heat of a program that scans `pages` pages repeatedly, one page per thousand instructions.
    fn scanned(pages: u64, accesses: u64) -> HeatPicture {
        let mut picture = HeatPicture::new();
        for access in 0..accesses {
            picture.add((access % pages) << 12, TransferReason::Miss);
            picture.advance((access + 1) * 1000);
        }
        picture
    }

    fn sum(picture: &HeatPicture) -> u64 {
        picture.epochs().concat().iter().map(|row| row.misses).sum()
    }

    #[test]
    fn epochs_double_and_lose_nothing() {
        for accesses in [1, 1000, 40_000, 70_000, 500_000] {
            let picture = scanned(10, accesses);
            let epochs = picture.epochs();
            assert_eq!(sum(&picture), accesses);
            assert!(epochs.len() <= EPOCHS);
            let expected = accesses * 1000 / picture.epoch_instructions() + 1;
            assert_eq!(epochs.len() as u64, expected, "{accesses} accesses");
            // Every epoch but the last has the same heat, to within one page.
            let heat = |epoch: &Vec<RangeHeat>| epoch.iter().map(|row| row.misses).sum::<u64>();
            for epoch in &epochs[..epochs.len() - 1] {
                assert!(heat(epoch).abs_diff(picture.epoch_instructions() / 1000) <= 1);
            }
        }
    }

    #[test]
    fn ranges_double_and_lose_nothing() {
        let picture = scanned(1 << 20, 1 << 18);
        assert_eq!(sum(&picture), 1 << 18);
        let cells: usize = picture.epochs().iter().map(Vec::len).sum();
        assert!(picture.range_bytes() > 4096 && cells <= CELLS + RANGES, "{cells}");
        assert_eq!(scanned(100, 1 << 16).range_bytes(), 4096);
    }

    #[test]
    fn a_pause_is_empty_epochs() {
        let mut picture = HeatPicture::new();
        picture.add(0, TransferReason::Miss);
        picture.advance(10 * INSTRUCTIONS);
        picture.add(0, TransferReason::WriteBack);
        let lengths: Vec<usize> = picture.epochs().iter().map(Vec::len).collect();
        assert_eq!(lengths, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
