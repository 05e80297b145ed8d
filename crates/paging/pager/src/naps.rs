//! Sleeping until a page is due, on machines whose cores wake late.
//!
//! A core that sleeps wakes late, in a virtual machine by 50 us and more. If each page came later than its delay by that much, every
//! simulated network would look slow. Therefore the pager measures how late each sleep ends, and a thread ends its sleep early enough to
//! spin for the rest of the time.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time in ns for which a thread spins in any case before a page is due.
const LEAST_NS: u64 = 30_000;
/// Maximum lateness in ns that one sleep counts for. If a sleep ends later than that, another program had the core.
const MOST_NS: u64 = 250_000;

/// Mean lateness of sleeps and its mean deviation, in ns, smoothed like a round-trip time (RFC 6298 §2).
///
/// Threads may share the value, because a lost update does no harm.
#[derive(Debug, Default)]
pub(crate) struct Naps {
    mean_ns: AtomicU64,
    deviation_ns: AtomicU64,
}

impl Naps {
    /// Makes the value before any sleep.
    pub(crate) const fn new() -> Naps {
        Naps { mean_ns: AtomicU64::new(0), deviation_ns: AtomicU64::new(0) }
    }

    /// Returns for how many ns a thread may sleep if a page is due at `due_ns`, or `None` if the thread should spin.
    pub(crate) fn until(&self, now_ns: u64, due_ns: u64) -> Option<u64> {
        let margin = self.margin_ns();
        let left = due_ns.saturating_sub(now_ns);
        // A shorter sleep would save no work.
        (left > 2 * margin).then(|| left - margin)
    }

    /// Notes a sleep that began at `from_ns`, was to take `nap_ns`, and ended at `now_ns`.
    pub(crate) fn woke(&self, from_ns: u64, nap_ns: u64, now_ns: u64) {
        let late = now_ns.saturating_sub(from_ns.saturating_add(nap_ns)).min(MOST_NS);
        let (mean, deviation) = (self.mean_ns.load(Relaxed), self.deviation_ns.load(Relaxed));
        self.deviation_ns.store(deviation - deviation / 4 + late.abs_diff(mean) / 4, Relaxed);
        self.mean_ns.store(mean - mean / 8 + late / 8, Relaxed);
    }

    fn margin_ns(&self) -> u64 {
        let late = self.mean_ns.load(Relaxed) + 2 * self.deviation_ns.load(Relaxed);
        late.clamp(LEAST_NS, MOST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns naps on a core that repeatedly wakes late by these times.
    fn after(lateness_ns: &[u64]) -> Naps {
        let naps = Naps::new();
        for late in lateness_ns.iter().cycle().take(100) {
            naps.woke(1_000, 500, 1_500 + late);
        }
        naps
    }

    #[test]
    fn a_thread_wakes_as_early_as_its_core_is_late() {
        for late in [0, 5_000, 60_000, 120_000, 10_000_000] {
            let naps = after(&[late]);
            let nap = naps.until(7, 1_000_007).unwrap();
            let awake_at = nap + late.min(MOST_NS);
            assert!(awake_at <= 1_000_000, "{late}: {awake_at}");
            assert!(awake_at >= 1_000_000 - LEAST_NS - 8, "{late}: {awake_at}");
        }
        // Lateness that varies: nine out of ten sleeps end in time.
        let naps = after(&[20_000, 80_000, 40_000, 60_000, 30_000, 50_000, 20_000, 70_000, 40_000, 90_000]);
        assert!(naps.until(0, 1_000_000).unwrap() + 80_000 <= 1_000_000);
    }

    #[test]
    fn what_is_due_soon_is_spun_for() {
        assert_eq!(Naps::new().until(0, 2 * LEAST_NS), None);
        assert_eq!(Naps::new().until(0, 2 * LEAST_NS + 1), Some(LEAST_NS + 1));
        assert_eq!(after(&[100_000]).until(0, 190_000), None);
        assert_eq!(Naps::new().until(9, 3), None, "it is due already");
    }

    #[test]
    fn a_core_that_wakes_in_time_again_is_trusted_again() {
        let naps = after(&[200_000]);
        assert_eq!(naps.until(0, 300_000), None);
        (0..100).for_each(|_| naps.woke(0, 10, 15));
        assert_eq!(naps.until(0, 300_000), Some(270_000));
    }
}
