//! One bell: how a thread sleeps on it, and how other threads wake that thread.

use super::futex;
use crate::sync::{AtomicU32, Ordering, fence, yield_now};
use std::time::Duration;

/// Number of attempts to wake a peer before the ringing thread does something else. They take about 100 us, which is
/// about twice the time to wake a thread on another core. A thread that goes to sleep needs much less time, unless it
/// is stopped meanwhile or has no processor.
const TRIES: usize = 64;

/// Lowest bit of the state, which is set while a thread sleeps. The bits above it count the sleeps.
const ASLEEP: u32 = 1;

/// One bell, alone on its cache line. At most one thread sleeps on it at a time.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Wakeup {
    /// [`ASLEEP`], and the number of the sleep.
    state: AtomicU32,
}

/// Number of the sleep that a ringing thread has already ended, so that it does not end the same sleep twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakesSent(u32);

impl Wakeup {
    /// Makes a bell on which no thread sleeps.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Wakeup {
        Wakeup { state: AtomicU32::new(0) }
    }

    /// Sleeps until the bell rings or the timeout expires. Does not sleep if `ready` returns true because there is work
    /// to do. `ready` is called after the sleeper has become visible as such, so work that it misses is followed by a
    /// ring. `ready` must only check and never wait, because threads of this process that ring wait until it has
    /// returned. The function may return spuriously.
    pub fn sleep(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        let asleep = (self.state.load(Ordering::Relaxed) & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.state.store(asleep, Ordering::SeqCst);
        let _awake = Awake { bell: self, asleep };
        // Pairs with the fence of `try_ring`: either `ready` sees the work that the ring announces, or the ringing
        // thread sees this thread asleep.
        fence(Ordering::SeqCst);
        if !ready() {
            // The result is ignored because the caller checks again.
            futex::wait(&self.state, asleep, timeout);
        }
    }

    /// Wakes the thread of this process that sleeps on the bell, and returns whether a thread slept. Before the call,
    /// the caller must have stored the work that the sleeper is to find.
    ///
    /// The function always terminates, because a thread of this process that announces a sleep sleeps soon. The same is
    /// not true of bells of other processes: see [`PeerBell::ring`].
    pub fn wake(&self) -> bool {
        let mut rung = WakesSent::default();
        let mut needed = false;
        while !self.try_wake(&mut rung) {
            needed = true;
            yield_now();
        }
        needed || rung != WakesSent::default()
    }

    #[inline]
    fn try_wake(&self, rung: &mut WakesSent) -> bool {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        state & ASLEEP == 0 || state == rung.0 || self.wake(state, rung)
    }

    #[cold]
    fn wake(&self, state: u32, rung: &mut WakesSent) -> bool {
        if !futex::wake(&self.state) {
            return self.state.load(Ordering::Relaxed) != state;
        }
        *rung = WakesSent(state);
        true
    }
}

/// Guard that clears the mark of the sleeper, even if the sleeper panics.
struct Awake<'a> {
    bell: &'a Wakeup,
    asleep: u32,
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.bell.state.store(self.asleep & !ASLEEP, Ordering::SeqCst);
    }
}

/// A bell of another process, for ringing. That process may be killed or stopped just after it announced a sleep, or
/// may announce a sleep and never sleep. Therefore no function here waits for it without a limit.
#[derive(Clone, Copy)]
pub struct PeerWakeup<'a>(&'a Wakeup);

impl<'a> PeerWakeup<'a> {
    pub(super) fn new(bell: &'a Wakeup) -> Self {
        PeerWakeup(bell)
    }

    /// Wakes the sleeper, if there is one. Before the call, the caller must have stored the work that the sleeper is to
    /// find. Returns false if the sleeper announced a sleep but no attempt woke it; then the caller must ring again
    /// later.
    #[must_use = "a peer that was not woken finds nothing"]
    pub fn wake(self) -> bool {
        let mut rung = WakesSent::default();
        for _ in 0..TRIES {
            if self.0.try_wake(&mut rung) {
                return true;
            }
            yield_now();
        }
        false
    }

    /// Tries once to wake the sleeper, as [`ring`](PeerBell::ring) does. Returns false if the sleeper is not fully
    /// asleep yet, or another thread is already waking it; then the caller must ring again. A thread that woke a
    /// sleeper does not wake it a second time in the same sleep.
    #[inline]
    pub fn try_ring(self, rung: &mut WakesSent) -> bool {
        self.0.try_wake(rung)
    }

    /// Returns whether a sleeper is visible that `rung` does not record as woken. This costs a load and no fence, so it
    /// may miss a thread that is just going to sleep. A caller that relies on it alone must ring later, or the sleeper
    /// must check again by itself.
    #[inline]
    pub fn is_seen_asleep(self, rung: &WakesSent) -> bool {
        let state = self.0.state.load(Ordering::Relaxed);
        state & ASLEEP != 0 && state != rung.0
    }
}

#[cfg(test)]
mod tests;
