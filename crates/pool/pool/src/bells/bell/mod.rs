//! One bell: how a thread goes to sleep on it, and how others wake it.

use super::futex;
use crate::sync::{AtomicU32, Ordering, fence, yield_now};
use std::time::Duration;

/// Number of attempts to wake a peer before the ringing thread does something else: some 100 us, which is about
/// twice the time it takes to wake a thread on another core. A thread on its way to sleep gets there in much
/// less, unless it is stopped there or has no processor.
const TRIES: usize = 64;

/// Lowest bit of the state, set while a thread sleeps; the bits above count the sleeps.
const ASLEEP: u32 = 1;

/// One bell, on a cache line of its own. One thread at a time sleeps on it.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Bell {
    /// [`ASLEEP`], and the number of the sleep.
    state: AtomicU32,
}

/// Number of the sleep that this thread already ended, so that it does not end it twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rung(u32);

impl Bell {
    /// Makes a bell on which nobody sleeps.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Bell {
        Bell { state: AtomicU32::new(0) }
    }

    /// Sleeps until the bell rings or the timeout expires, unless `ready` says that there is something to do.
    /// `ready` is called once the sleeper is visible as such: whatever it misses is followed by a ring. It only looks,
    /// and waits for nothing, since threads of this process that ring wait until it has returned. May return
    /// spuriously.
    pub fn sleep(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        let asleep = (self.state.load(Ordering::Relaxed) & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.state.store(asleep, Ordering::SeqCst);
        let _awake = Awake { bell: self, asleep };
        // Pairs with the fence of `try_ring`: either `ready` sees what the ring announces, or the ringer sees us
        // asleep.
        fence(Ordering::SeqCst);
        if !ready() {
            // The result does not matter: the caller looks again.
            futex::wait(&self.state, asleep, timeout);
        }
    }

    /// Wakes the thread of this process that sleeps on the bell, if there is one, and returns whether there was.
    /// The caller must have stored before what the sleeper is to find.
    ///
    /// Always terminates: a thread of this process that announces a sleep sleeps soon. This cannot be said of
    /// other processes' bells: see [`PeerBell::ring`].
    pub fn ring(&self) -> bool {
        let mut rung = Rung::default();
        let mut needed = false;
        while !self.try_ring(&mut rung) {
            needed = true;
            yield_now();
        }
        needed || rung != Rung::default()
    }

    #[inline]
    fn try_ring(&self, rung: &mut Rung) -> bool {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        state & ASLEEP == 0 || state == rung.0 || self.wake(state, rung)
    }

    #[cold]
    fn wake(&self, state: u32, rung: &mut Rung) -> bool {
        if !futex::wake(&self.state) {
            return self.state.load(Ordering::Relaxed) != state;
        }
        *rung = Rung(state);
        true
    }
}

/// Guard that clears the sleeper's mark, also when the sleeper panics.
struct Awake<'a> {
    bell: &'a Bell,
    asleep: u32,
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.bell.state.store(self.asleep & !ASLEEP, Ordering::SeqCst);
    }
}

/// A bell of another process, to ring. That process may be killed or stopped just after it announced a sleep, or
/// announce one and not sleep: nobody waits for it.
#[derive(Clone, Copy)]
pub struct PeerBell<'a>(&'a Bell);

impl<'a> PeerBell<'a> {
    pub(super) fn new(bell: &'a Bell) -> Self {
        PeerBell(bell)
    }

    /// Wakes the sleeper, if there is one. The caller must have stored before what the sleeper is to find.
    /// Returns false if the sleeper announced a sleep but could not be woken in any attempt; it has to be rung
    /// for again later.
    #[must_use = "a peer that was not woken finds nothing"]
    pub fn ring(self) -> bool {
        let mut rung = Rung::default();
        for _ in 0..TRIES {
            if self.0.try_ring(&mut rung) {
                return true;
            }
            yield_now();
        }
        false
    }

    /// Tries once to wake the sleeper, as [`ring`](PeerBell::ring) does. Returns false if the sleeper is not
    /// quite asleep yet, or is already being woken by another thread, and has to be rung for again. A thread that
    /// woke a sleeper does not wake it again before it was awake.
    #[inline]
    pub fn try_ring(self, rung: &mut Rung) -> bool {
        self.0.try_ring(rung)
    }

    /// Returns whether a sleeper is visible that was not woken. Costs a load and no fence, so it may miss a
    /// thread that is just going to sleep: a caller that relies on it alone has to ring later, or the sleeper to
    /// look again.
    #[inline]
    pub fn is_seen_asleep(self, rung: &Rung) -> bool {
        let state = self.0.state.load(Ordering::Relaxed);
        state & ASLEEP != 0 && state != rung.0
    }
}

#[cfg(test)]
mod tests;
