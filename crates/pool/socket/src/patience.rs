//! Patience: how long a wait spins before it sleeps. It adapts to how long earlier waits took.

use crate::crowd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds for which the first wait spins.
const FIRST: u32 = 20_000;
/// Maximum number of nanoseconds for which a wait spins. A sleep that ends sooner than this was not worth its cost.
const MOST: u32 = 200_000;
/// Smallest patience other than zero, in nanoseconds: growth starts here, and a smaller value becomes zero.
const LEAST: u32 = 5_000;
/// Evaluations of the condition between two readings of the clock.
const LOOKS: u32 = 16;

/// Nanoseconds for which a wait spins before it sleeps.
pub(crate) struct SpinTime(AtomicU32);

impl SpinTime {
    /// Returns the initial patience, for a wait without history.
    pub(crate) const fn new() -> SpinTime {
        SpinTime(AtomicU32::new(FIRST))
    }

    /// Resets the patience to its initial value.
    pub(crate) fn reset(&self) {
        self.0.store(FIRST, Ordering::Relaxed);
    }

    /// Spins until a condition holds, at most for the learned time. Returns whether the condition holds.
    pub(crate) fn spin(&self, mut holds: impl FnMut() -> bool) -> bool {
        let budget = self.0.load(Ordering::Relaxed);
        if holds() {
            return true;
        }
        if budget == 0 {
            return false;
        }
        let (budget, begin) = (Duration::from_nanos(budget.into()), Instant::now());
        if !crowd::may_spin(begin) {
            return holds();
        }
        let found = look_for(budget, begin, &mut holds);
        let spent = begin.elapsed();
        if spent > budget * 2 {
            // This thread was preempted while it spun. Other threads need the processor, and the peer may be one of them, so spin less.
            self.learn(spent.max(Duration::from_nanos(MOST.into())));
        }
        found
    }

    /// Updates the patience after a wait that ended in a sleep. The patience doubles if the whole wait was short, because spinning would
    /// have been better; otherwise it halves.
    pub(crate) fn learn(&self, waited: Duration) {
        let now = self.0.load(Ordering::Relaxed);
        let next = match waited < Duration::from_nanos(MOST.into()) {
            true => (now * 2).clamp(LEAST, MOST),
            false if now / 2 < LEAST => 0,
            false => now / 2,
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

fn look_for(budget: Duration, begin: Instant, holds: &mut impl FnMut() -> bool) -> bool {
    loop {
        for _ in 0..LOOKS {
            if holds() {
                return true;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() >= budget {
            return holds();
        }
    }
}
