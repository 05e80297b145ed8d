//! Scans for memory that can be remote: when, and where.

use crate::control::{ControlHead, count};
use crate::maps::Area;
use crate::memory::Memory;
use crate::sys::now_ns;
use alloc::vec::Vec;

/// Least time in ns between two scans while the process is over the limit.
const PAUSE_NS: u64 = 1_000_000;
/// Inverse share of the time for scans that can wait: one in a hundred.
const SPARE_PART: u64 = 100;
/// Number of scans after which one looks everywhere.
const EVERYWHERE: u64 = 8;

/// Memory that the last scan found, and the time of the next.
#[derive(Default)]
pub(crate) struct Scan {
    pub(crate) areas: Vec<Area>,
    text: Vec<u8>,
    scans: u64,
    begun_ns: u64,
    next_ns: u64,
    /// Time from which on another scan costs little.
    spare_ns: u64,
}

impl Scan {
    /// Begins a scan: reads the areas. Returns false if the last one was just now, or there is nothing to read.
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

    /// Ends a scan: the next comes after a pause that is long beside it.
    pub(crate) fn end(&mut self) {
        let now = now_ns();
        let took = now - self.begun_ns;
        self.next_ns = now + PAUSE_NS.max(4 * took);
        self.spare_ns = now + PAUSE_NS.max(SPARE_PART * took);
    }

    /// Returns whether the last scan is so long ago that another costs little.
    pub(crate) fn is_spare(&self, now_ns: u64) -> bool {
        now_ns >= self.spare_ns
    }

    /// Returns whether this scan looks where nothing new is expected, too.
    pub(crate) fn looks_everywhere(&self) -> bool {
        self.scans.is_multiple_of(EVERYWHERE)
    }

    /// Reads the areas again, and returns the one that `address` is in.
    pub(crate) fn area_at(&mut self, memory: &Memory, address: usize) -> Option<Area> {
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
