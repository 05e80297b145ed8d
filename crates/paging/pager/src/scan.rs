//! Scans for memory that can be remote: when the pager scans, and where.

use crate::control::{ControlHead, count};
use crate::maps::PageableArea;
use crate::memory::Memory;
use crate::sys::now_ns;
use alloc::vec::Vec;

/// Minimum time in ns between two scans while the process is over the limit.
const PAUSE_NS: u64 = 1_000_000;
/// Inverse of the share of time that scans may take if they are not urgent: one in a hundred.
const SPARE_PART: u64 = 100;
/// One in this number of scans covers all memory.
const EVERYWHERE: u64 = 8;

/// Memory that the last scan found, and the time of the next scan.
#[derive(Default)]
pub(crate) struct Scan {
    pub(crate) areas: Vec<PageableArea>,
    text: Vec<u8>,
    scans: u64,
    begun_ns: u64,
    next_ns: u64,
    /// Time from which on another scan costs little.
    spare_ns: u64,
}

impl Scan {
    /// Begins a scan and reads the areas. Returns false if the last scan was just now, or if the areas cannot be read.
    pub(crate) fn begin(&mut self, memory: &Memory, control: &ControlHead) -> bool {
        self.begun_ns = now_ns();
        if self.begun_ns < self.next_ns {
            return false;
        }
        count(&control.counts.scans, 1);
        let is_read = self.read_areas(memory);
        self.scans += is_read as u64;
        if !is_read {
            self.end();
        }
        is_read
    }

    /// Ends a scan. The next scan follows after a pause that is long compared with the duration of this one.
    pub(crate) fn end(&mut self) {
        let now = now_ns();
        let took = now - self.begun_ns;
        self.next_ns = now + PAUSE_NS.max(4 * took);
        self.spare_ns = now + PAUSE_NS.max(SPARE_PART * took);
    }

    /// Returns whether the last scan was so long ago that another one costs little.
    pub(crate) fn is_spare(&self, now_ns: u64) -> bool {
        now_ns >= self.spare_ns
    }

    /// Returns whether this scan also covers memory where no new pages are expected.
    pub(crate) fn looks_everywhere(&self) -> bool {
        self.scans.is_multiple_of(EVERYWHERE)
    }

    /// Reads the areas again, and returns the area that contains `address`.
    pub(crate) fn area_at(&mut self, memory: &Memory, address: usize) -> Option<PageableArea> {
        if !self.read_areas(memory) {
            return None;
        }
        let after = self.areas.partition_point(|area| area.start <= address);
        self.areas[..after].last().filter(|area| address < area.end).copied()
    }

    fn read_areas(&mut self, memory: &Memory) -> bool {
        memory.read_areas(&mut self.text, &mut self.areas).is_ok()
    }
}
