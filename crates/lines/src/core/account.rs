//! Causes of a core's cycles, in its first lane.
//!
//! Cycles are those between one retirement and the next, given to what the later instruction waited for: a stack of cycles
//! per instruction (Eyerman et al., ASPLOS 2006, section 3), counted where instructions retire.

use super::time::Time;
use super::watch::{Retirement, Waited, Watch};

/// Causes of the cycles of one lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Cycles bound by dispatch, retirement and operations.
    pub core: f64,
    /// Cycles that waited for caches beyond the first level.
    pub caches: f64,
    /// Cycles that waited for loads from memory.
    pub memory: f64,
    /// Cycles that waited for room in the store queue.
    pub stores: f64,
    /// Cycles without instructions after a mispredicted branch or a system call.
    pub restarts: f64,
    /// Reads of memory, by demand and by prefetchers.
    pub reads: u64,
    /// Sum of the times of these reads, in cycles.
    pub read_cycles: f64,
    /// Time in which at least one of them was on its way, in cycles.
    pub busy_cycles: f64,
    is_started: bool,
    /// Cycles before the present base of times.
    base: f64,
    /// Reads since the lead: beginning and end.
    intervals: Vec<(f64, f64)>,
}

impl Account {
    /// Returns the mean number of memory reads that are on their way while there is any; 0 without one.
    pub fn memory_parallelism(&self) -> f64 {
        if self.busy_cycles > 0.0 { self.read_cycles / self.busy_cycles } else { 0.0 }
    }

    /// Returns all cycles.
    pub fn cycles(&self) -> f64 {
        self.core + self.caches + self.memory + self.stores + self.restarts
    }

    /// Adds the account of another window.
    pub fn add(&mut self, other: &Account) {
        self.core += other.core;
        self.caches += other.caches;
        self.memory += other.memory;
        self.stores += other.stores;
        self.restarts += other.restarts;
        self.reads += other.reads;
        self.read_cycles += other.read_cycles;
        self.busy_cycles += other.busy_cycles;
    }

    /// Ends a window. Returns its account, and begins a new one.
    pub(super) fn take(&mut self) -> Account {
        let mut done = std::mem::take(self);
        let mut intervals = std::mem::take(&mut done.intervals);
        intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut busy_until = f64::NEG_INFINITY;
        for (begin, end) in intervals {
            done.busy_cycles += (end - begin.max(busy_until)).max(0.0);
            busy_until = busy_until.max(end);
        }
        Account { is_started: false, base: 0.0, ..done }
    }
}

impl<T: Time> Watch<T> for Account {
    fn start(&mut self) {
        self.is_started = true;
    }

    #[inline(always)]
    fn retire(&mut self, retirement: &Retirement<T>) {
        let (before, at) = (retirement.before.cycles(0), retirement.at.cycles(0));
        if !self.is_started || at <= before {
            return;
        }
        // Until the dispatch there was nothing to retire.
        let dispatch = retirement.dispatch.cycles(0).clamp(before, at);
        let empty = f64::from(dispatch - before);
        if retirement.is_restart {
            self.restarts += empty;
        } else if retirement.room.cycles(0) >= dispatch {
            self.stores += empty;
        } else {
            self.core += empty;
        }
        let waited = f64::from(at - dispatch);
        match retirement.waited {
            Waited::Core => self.core += waited,
            Waited::Cache => self.caches += waited,
            Waited::Memory => self.memory += waited,
        }
    }

    fn read(&mut self, begin: T, end: T, _: u16) {
        if self.is_started {
            let (begin, end) = (f64::from(begin.cycles(0)), f64::from(end.cycles(0)));
            self.reads += 1;
            self.read_cycles += end - begin;
            self.intervals.push((self.base + begin, self.base + end));
        }
    }

    fn rebase(&mut self, base: T) {
        self.base += f64::from(base.cycles(0));
    }
}
