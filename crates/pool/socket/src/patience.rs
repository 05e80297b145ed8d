//! Patience: how long a wait spins before it sleeps, learned from how long earlier waits took.

use crate::crowd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds that the first wait spins.
const FIRST: u32 = 20_000;
/// Most nanoseconds that a wait spins: a sleep that ends sooner was not worth it.
const MOST: u32 = 200_000;
/// Nanoseconds from which the patience grows, and below which it is none.
const LEAST: u32 = 5_000;
/// Looks before the clock is read.
const LOOKS: u32 = 16;

/// Nanoseconds that a wait spins before it sleeps.
pub(crate) struct Patience(AtomicU32);

impl Patience {
    /// Returns the patience of a wait of which nothing is known.
    pub(crate) const fn new() -> Patience {
        Patience(AtomicU32::new(FIRST))
    }

    /// Forgets what was learned.
    pub(crate) fn reset(&self) {
        self.0.store(FIRST, Ordering::Relaxed);
    }

    /// Spins until a condition holds, for as long as spinning paid before. Returns whether it holds.
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
            // Other threads had the processor meanwhile: they need it, and the peer may be among them.
            self.learn(spent.max(Duration::from_nanos(MOST.into())));
        }
        found
    }

    /// Learns from a wait that ended in a sleep whether spinning would have been better. The patience grows if the whole wait
    /// was short, and shrinks if it was long.
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
