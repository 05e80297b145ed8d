//! Counters of the calls with `MSG_ZEROCOPY` on a socket. Reports to the program identify calls by these numbers.

use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counters of the calls with `MSG_ZEROCOPY`.
#[repr(C)]
pub(crate) struct ZerocopyCounts {
    /// 1 once the program set `SO_ZEROCOPY`. Without that, `MSG_ZEROCOPY` has no effect.
    is_on: AtomicU32,
    /// Calls through the kernel before the ring.
    before: AtomicU32,
    /// Calls into the ring.
    ring: AtomicU32,
    /// Calls into the ring that were reported to the program.
    told: AtomicU32,
}

impl ZerocopyCounts {
    pub(crate) fn reset(&self) {
        for word in [&self.is_on, &self.before, &self.ring, &self.told] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Starts counting calls.
    pub(super) fn turn_on(&self) {
        self.is_on.store(1, Ordering::Relaxed);
    }

    /// Counts a call that sent at least one byte.
    pub(crate) fn count(&self, flags: c_int, by_ring: bool) {
        if flags & libc::MSG_ZEROCOPY != 0 && self.is_on() {
            let word = if by_ring { &self.ring } else { &self.before };
            word.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns whether the program set `SO_ZEROCOPY`.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of calls through the kernel before the ring.
    pub(super) fn before_ring(&self) -> u32 {
        self.before.load(Ordering::Acquire)
    }

    /// Returns the number of calls into the ring.
    pub(crate) fn by_ring(&self) -> u32 {
        self.ring.load(Ordering::Acquire)
    }

    /// Returns whether a report is due that the kernel does not have.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        self.told.load(Ordering::Acquire) != self.ring.load(Ordering::Acquire)
    }

    /// Takes the report that is due: returns the numbers of the first and the last call in it, or `None` if another thread has taken it.
    pub(super) fn take_report(&self) -> Option<(u32, u32)> {
        let (before, told) = (self.before.load(Ordering::Acquire), self.told.load(Ordering::Acquire));
        let all = self.ring.load(Ordering::Acquire);
        self.told.compare_exchange(told, all, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some((before.wrapping_add(told), before.wrapping_add(all).wrapping_sub(1)))
    }
}
