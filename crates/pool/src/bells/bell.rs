//! One bell: how a thread goes to sleep on it, and how others wake it.

use super::futex;
use crate::sync::{AtomicU32, Ordering, fence, yield_now};
use std::time::Duration;

/// How often a peer's bell is rung before whoever rings does something else: some 100 us, which is about twice what it
/// takes to wake a thread on another core. One that is on its way to sleep gets there in much less, unless it is stopped
/// there, or has no processor.
const TRIES: usize = 64;

/// The lowest bit says that somebody sleeps; those above count how often somebody did.
const ASLEEP: u32 = 1;

/// One bell: a line of its own. One thread at a time sleeps on it.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Bell {
    /// [`ASLEEP`], and the number of the sleep.
    state: AtomicU32,
}

/// Which sleep of a bell somebody has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rung(u32);

impl Bell {
    /// Sleeps until the bell rings, or the time is over, unless `ready` says that there is something to do.
    /// `ready` is asked after the sleeper can be seen: what it does not see is followed by a ring. May return
    /// for no reason.
    pub fn sleep(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        let asleep = (self.state.load(Ordering::Relaxed) & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.state.store(asleep, Ordering::SeqCst);
        let _awake = Awake { bell: self, asleep };
        // Pairs with the fence of `try_ring`: either we see what it announces, or it sees us asleep.
        fence(Ordering::SeqCst);
        if !ready() {
            // Whatever it returns: the caller looks again.
            futex::wait(&self.state, asleep, timeout);
        }
    }

    /// Wakes the thread of this process that sleeps on it, if one does. What it is to find was stored before. Says
    /// whether it needed to.
    ///
    /// It ends: a thread of this process that says that it sleeps soon does. Of others' bells this cannot be said:
    /// [`PeerBell::ring`].
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

/// Says that nobody sleeps any more, also when a sleeper panics.
struct Awake<'a> {
    bell: &'a Bell,
    asleep: u32,
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.bell.state.store(self.asleep & !ASLEEP, Ordering::SeqCst);
    }
}

/// A bell of another process, to ring. That one may be killed or stopped just when it has said that it sleeps, or say so
/// and not do it: nobody waits for it.
#[derive(Clone, Copy)]
pub struct PeerBell<'a>(&'a Bell);

impl<'a> PeerBell<'a> {
    pub(super) fn new(bell: &'a Bell) -> Self {
        PeerBell(bell)
    }

    /// Wakes the sleeper, if there is one. What it is to find was stored before. False: it says that it sleeps, and could
    /// not be woken however often it was tried; so it has to be rung for again later.
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

    /// As [`ring`](PeerBell::ring), once: says false if the sleeper is not quite asleep, or already being woken by
    /// somebody else, and has to be rung for again. Who has woken a sleeper does not do so again until it was awake.
    #[inline]
    pub fn try_ring(self, rung: &mut Rung) -> bool {
        self.0.try_ring(rung)
    }

    /// Whether somebody can be seen sleeping who was not woken. Costs a load and no fence, so it may miss one that is
    /// just going to sleep: whoever relies on it alone has to ring later, or the sleeper to look again.
    #[inline]
    pub fn is_seen_asleep(self, rung: &Rung) -> bool {
        let state = self.0.state.load(Ordering::Relaxed);
        state & ASLEEP != 0 && state != rung.0
    }
}

#[cfg(test)]
mod tests;
