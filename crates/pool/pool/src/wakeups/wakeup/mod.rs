//! One wakeup: how a thread sleeps on it, and how other threads wake that thread.

use super::futex;
use crate::sync::{AtomicU32, Ordering, fence, yield_now};
use std::time::Duration;

/// Number of attempts to wake a peer before the ringing thread does something else. They take about 100 us, which is
/// about twice the time to wake a thread on another core. A thread that goes to sleep needs much less time, unless it
/// is stopped meanwhile or has no processor.
const TRIES: usize = 64;

/// Lowest bit of the state, which is set while a thread sleeps. The bits above it count the sleeps.
const ASLEEP: u32 = 1;

/// One wakeup, alone on its cache line. At most one thread sleeps on it at a time.
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
    /// Makes a wakeup on which no thread sleeps.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Wakeup {
        Wakeup { state: AtomicU32::new(0) }
    }

    /// Sleeps until a peer wakes this thread or the timeout expires. Does not sleep if `ready` returns true because there is work
    /// to do. `ready` is called after the sleeper has become visible as such, so work that it misses is followed by a
    /// ring. `ready` must only check and never wait, because threads of this process that ring wait until it has
    /// returned. The function may return spuriously.
    pub fn sleep(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        let asleep = (self.state.load(Ordering::Relaxed) & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.state.store(asleep, Ordering::SeqCst);
        let _awake = Awake { wakeup: self, asleep };
        // Pairs with the fence of `try_wake`: either `ready` sees the work that the ring announces, or the ringing
        // thread sees this thread asleep.
        fence(Ordering::SeqCst);
        if !ready() {
            // The result is ignored because the caller checks again.
            futex::wait(&self.state, asleep, timeout);
        }
    }

    /// Wakes the thread of this process that sleeps on the wakeup, and returns whether a thread slept. Before the call,
    /// the caller must have stored the work that the sleeper is to find.
    ///
    /// The function always terminates, because a thread of this process that announces a sleep sleeps soon. The same is
    /// not true of wakeups of other processes: see [`PeerWakeup::wake`].
    pub fn wake(&self) -> bool {
        let mut sent = WakesSent::default();
        let mut needed = false;
        while !self.try_wake(&mut sent) {
            needed = true;
            yield_now();
        }
        needed || sent != WakesSent::default()
    }

    #[inline]
    fn try_wake(&self, sent: &mut WakesSent) -> bool {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        state & ASLEEP == 0 || state == sent.0 || self.wake_sleeper(state, sent)
    }

    #[cold]
    fn wake_sleeper(&self, state: u32, sent: &mut WakesSent) -> bool {
        if !futex::wake(&self.state) {
            return self.state.load(Ordering::Relaxed) != state;
        }
        *sent = WakesSent(state);
        true
    }
}

/// Guard that clears the mark of the sleeper, even if the sleeper panics.
struct Awake<'a> {
    wakeup: &'a Wakeup,
    asleep: u32,
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.wakeup.state.store(self.asleep & !ASLEEP, Ordering::SeqCst);
    }
}

/// A wakeup of another process, by which this process wakes it. That process may be killed or stopped just after it announced a sleep, or
/// may announce a sleep and never sleep. Therefore no function here waits for it without a limit.
#[derive(Clone, Copy)]
pub struct PeerWakeup<'a>(&'a Wakeup);

impl<'a> PeerWakeup<'a> {
    pub(super) fn new(wakeup: &'a Wakeup) -> Self {
        PeerWakeup(wakeup)
    }

    /// Wakes the sleeper, if there is one. Before the call, the caller must have stored the work that the sleeper is to
    /// find. Returns false if the sleeper announced a sleep but no attempt woke it; then the caller must try again
    /// later.
    #[must_use = "a peer that was not woken finds nothing"]
    pub fn wake(self) -> bool {
        let mut sent = WakesSent::default();
        for _ in 0..TRIES {
            if self.0.try_wake(&mut sent) {
                return true;
            }
            yield_now();
        }
        false
    }

    /// Tries once to wake the sleeper, as [`wake`](PeerWakeup::wake) does. Returns false if the sleeper is not fully
    /// asleep yet, or another thread is already waking it; then the caller must try again. A thread that woke a
    /// sleeper does not wake it a second time in the same sleep.
    #[inline]
    pub fn try_wake(self, sent: &mut WakesSent) -> bool {
        self.0.try_wake(sent)
    }

    /// Returns whether a sleeper is visible that `sent` does not record as woken. This costs a load and no fence, so it
    /// may miss a thread that is just going to sleep. A caller that relies on it alone must try again later, or the sleeper
    /// must check again by itself.
    #[inline]
    pub fn is_seen_asleep(self, sent: &WakesSent) -> bool {
        let state = self.0.state.load(Ordering::Relaxed);
        state & ASLEEP != 0 && state != sent.0
    }
}

#[cfg(test)]
mod tests;
