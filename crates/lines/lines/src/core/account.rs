//! Cycle account of a lane, which is one of several memory configurations that the core model simulates simultaneously.
//! The account attributes the lane's cycles to causes, and states how many cache misses of the lane overlapped.
//!
//! The time between the retirements of two successive instructions is attributed to the cause that delayed the later
//! one, as in performance counters (Eyerman et al., "A performance counter architecture for computing accurate CPI
//! components", ASPLOS 2006). The part of this time before the dispatch of the later instruction is attributed to the
//! front end. The rest is attributed to the operation of this instruction, or to the cache line for which it waited.

use super::time::{LaneTime, LaneTimes};
use super::watch::{CoreObserver, Retirement, WaitCause};

/// Cycles of a lane by cause. The cycles of all causes add up to the cycles of the executed windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CycleAccount {
    /// Cycles in which the core retired instructions at its full width, or waited only because instructions were not
    /// dispatched faster.
    pub dispatch: f64,
    /// Cycles after mispredicted branches and system calls, during which the core could not dispatch instructions.
    pub restart: f64,
    /// Cycles in which the store queue was full.
    pub stores: f64,
    /// Cycles in which retirement waited for operations and their inputs, including hits in the first-level cache.
    pub operations: f64,
    /// Cycles in which retirement waited for lines from the second-level cache, the last-level cache, or caches of
    /// other cores.
    pub caches: f64,
    /// Cycles in which retirement waited for lines from memory.
    pub memory: f64,
    /// Mean number of lines in flight from memory, over the time in which at least one line was in flight. It is 0 if
    /// no line was requested from memory.
    pub overlap: f64,
    /// Number of lines requested from memory, including prefetches.
    pub lines: u64,
}

impl CycleAccount {
    /// Returns the sum of the cycles of all causes.
    pub fn cycles(&self) -> f64 {
        self.dispatch + self.restart + self.stores + self.operations + self.caches + self.memory
    }
}

/// Observer that keeps the account of one lane.
pub(super) struct Accountant {
    lane: usize,
    is_counting: bool,
    account: CycleAccount,
    /// Cycles from the window's start to the current time base.
    base: f64,
    /// Beginning and end of each memory request of the window, in cycles.
    lines: Vec<(f64, f64)>,
    /// Sum of the durations of all memory requests (`sum`), and total time in which at least one request was in flight
    /// (`covered`).
    sum: f64,
    covered: f64,
}

impl Accountant {
    pub(super) fn new(lane: usize) -> Accountant {
        let (account, lines) = (CycleAccount::default(), Vec::new());
        Accountant { lane, is_counting: false, account, base: 0.0, lines, sum: 0.0, covered: 0.0 }
    }

    /// Completes the account of a window.
    pub(super) fn end(&mut self) {
        self.lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut until = f64::NEG_INFINITY;
        for (begin, end) in self.lines.drain(..) {
            self.sum += end - begin;
            self.covered += (end - until.max(begin)).max(0.0);
            until = until.max(end);
            self.account.lines += 1;
        }
        (self.is_counting, self.base) = (false, 0.0);
    }

    /// Returns the account of all completed windows.
    pub(super) fn account(&self) -> CycleAccount {
        let overlap = if self.covered > 0.0 { self.sum / self.covered } else { 0.0 };
        CycleAccount { overlap, ..self.account }
    }
}

impl<const N: usize> CoreObserver<LaneTimes<N>> for Accountant {
    fn start(&mut self) {
        self.is_counting = true;
    }

    #[inline(always)]
    fn retire(&mut self, retirement: &Retirement<LaneTimes<N>>) {
        let [at, before] = [&retirement.at, &retirement.before].map(|time| time.cycles(self.lane));
        if !self.is_counting || at <= before {
            return;
        }
        let dispatch = retirement.dispatch.cycles(self.lane);
        let arrived = dispatch.clamp(before, at);
        let front = f64::from(arrived - before);
        if retirement.is_restart {
            self.account.restart += front;
        } else if retirement.room.cycles(self.lane) >= dispatch {
            self.account.stores += front;
        } else {
            self.account.dispatch += front;
        }
        // An instruction that waits for nothing retires a minimum time after its dispatch. This time is also attributed
        // to dispatch, because it follows from the dispatch time.
        let unhindered = (dispatch + retirement.least).clamp(arrived, at);
        self.account.dispatch += f64::from(unhindered - arrived);
        let own = f64::from(at - unhindered);
        match retirement.waited {
            WaitCause::Core => self.account.operations += own,
            WaitCause::Cache => self.account.caches += own,
            WaitCause::Memory => self.account.memory += own,
        }
    }

    fn read(&mut self, begin: LaneTimes<N>, end: LaneTimes<N>) {
        if self.is_counting {
            let lane = self.lane;
            self.lines
                .push((self.base + f64::from(begin.cycles(lane)), self.base + f64::from(end.cycles(lane))));
        }
    }

    fn rebase(&mut self, base: LaneTimes<N>) {
        self.base += f64::from(base.cycles(self.lane));
    }
}
