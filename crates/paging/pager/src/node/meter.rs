//! Counts what one session gets from its memory node: pages in each direction, and the time during which the node owed pages.

use super::request::{Owed, PageCompletion};
use crate::control::{NodeCounts, count};
use core::sync::atomic::AtomicU64;

/// Meter of one session.
pub(super) struct Meter {
    counts: Option<&'static NodeCounts>,
    /// Time of the latest reading, if the node owed pages then (monotonic ns).
    since_ns: Option<u64>,
    /// Time in ns that is not in the counts yet.
    busy_ns: u64,
}

impl Meter {
    /// Makes the meter of a session whose counts go to `counts`.
    pub(super) fn new(counts: Option<&'static NodeCounts>) -> Meter {
        Meter { counts, since_ns: None, busy_ns: 0 }
    }

    /// Adds the completed requests, and the time since the previous reading if the node owed pages meanwhile.
    pub(super) fn read(&mut self, done: &[PageCompletion], owed: Option<Owed>, now_ns: u64) {
        let Some(counts) = self.counts else { return };
        if let Some(since_ns) = self.since_ns {
            self.busy_ns += now_ns.saturating_sub(since_ns);
        }
        self.since_ns = (owed == Some(Owed::Pages)).then_some(now_ns);
        if done.is_empty() {
            return;
        }
        let of = |wanted: fn(&PageCompletion) -> bool| done.iter().filter(|one| wanted(one)).count() as u64;
        add(&counts.loaded, of(|one| matches!(one, PageCompletion::Loaded { .. })));
        add(&counts.stored, of(|one| matches!(one, PageCompletion::Stored { .. })));
        add(&counts.busy_ns, core::mem::take(&mut self.busy_ns));
    }
}

/// Adds to a counter, unless there is nothing to add: the counters are shared by all processes of a run.
fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        count(counter, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn the_node_is_busy_from_the_request_to_the_answer() {
        let counts: &NodeCounts = std::boxed::Box::leak(std::boxed::Box::default());
        let mut meter = Meter::new(Some(counts));
        let seen = || [&counts.loaded, &counts.stored, &counts.busy_ns].map(|counter| counter.load(Relaxed));
        meter.read(&[PageCompletion::Stored { id: 1 }], None, 100);
        assert_eq!(seen(), [0, 1, 0]);
        meter.read(&[], Some(Owed::Pages), 1000);
        meter.read(&[], Some(Owed::Pages), 1400);
        meter.read(&[PageCompletion::Loaded { id: 1 }, PageCompletion::Refused { id: 2 }], None, 1500);
        assert_eq!(seen(), [1, 1, 500]);
        meter.read(&[PageCompletion::Loaded { id: 1 }], Some(Owed::Room), 9000);
        assert_eq!(seen(), [2, 1, 500], "nothing was owed before");
    }
}
