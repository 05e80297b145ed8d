//! Threads that sleep until answers are taken.
//!
//! One of them sleeps on the bell that the server rings; the others beside it, until that one, or anybody, took
//! their answer, or the bell is free.

use std::sync::PoisonError;
use std::time::Duration;
use unrack_pool::Bell;
use unrack_pool::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, fence};

/// Where a thread looks for the last time before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    OnBell,
    Beside,
}

#[derive(Default)]
pub struct Sleepers {
    /// Somebody is about to sleep on the bell, or does.
    on_bell: AtomicBool,
    /// For those who sleep beside it.
    beside: Mutex<()>,
    told: Condvar,
    beside_count: AtomicUsize,
}

/// A thread that may sleep on the bell.
struct OnBell<'a>(&'a Sleepers);

impl Drop for OnBell<'_> {
    fn drop(&mut self) {
        self.0.on_bell.store(false, Ordering::Release);
        // Pairs with the fence of `sleep_beside`: either that thread finds the bell free, or we find it there.
        fence(Ordering::SeqCst);
        self.0.tell_beside();
    }
}

impl Sleepers {
    /// Sleeps once, unless `ready`, which is asked when others can see that this thread is about to. Whoever sleeps on
    /// the bell takes what has come; those beside it look only at what was taken. May return for no reason.
    pub fn sleep(&self, bell: &Bell, left: Option<Duration>, mut ready: impl FnMut(Place) -> bool) {
        match self.take_bell() {
            Some(_on_bell) => bell.sleep(left, || ready(Place::OnBell)),
            None => self.sleep_beside(left, || ready(Place::Beside)),
        }
    }

    fn take_bell(&self) -> Option<OnBell<'_>> {
        let taken = self.on_bell.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| OnBell(self))
    }

    /// Sleeps until somebody took answers, or does not sleep on the bell any more.
    fn sleep_beside(&self, left: Option<Duration>, ready: impl FnOnce() -> bool) {
        let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        self.beside_count.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !ready() && self.on_bell.load(Ordering::Relaxed) {
            let left = left.unwrap_or(Duration::from_secs(3600));
            drop(self.told.wait_timeout(beside, left));
        }
        self.beside_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Answers were taken, by a thread at that place: whoever waits for them is told.
    ///
    /// A thread says that it sleeps before it looks for the last time, with the calls locked. If it locked them before
    /// the teller did, the teller sees that here; if after, it has seen what was taken.
    #[inline]
    pub fn tell(&self, bell: &Bell, place: Place) {
        if place == Place::Beside && self.on_bell.load(Ordering::Relaxed) {
            bell.ring();
        }
        self.tell_beside();
    }

    /// Wakes all, to look at what a thread of this process changed.
    pub fn tell_all(&self, bell: &Bell) {
        // Pairs with what those do who go to sleep: they look after they said so.
        fence(Ordering::SeqCst);
        bell.ring();
        self.tell_beside();
    }

    fn tell_beside(&self) {
        if self.beside_count.load(Ordering::Relaxed) > 0 {
            drop(self.beside.lock().unwrap_or_else(PoisonError::into_inner));
            self.told.notify_all();
        }
    }
}

#[cfg(all(test, loom))]
mod tests;
