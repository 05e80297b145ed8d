//! Threads that sleep until their answers are taken from the queue.
//!
//! One of the threads sleeps on the wakeup that the server uses. The others sleep on a condition variable ("beside the
//! wakeup") until any thread has taken their answer, or until the wakeup is free.

use std::sync::PoisonError;
use std::time::Duration;
use unrack_pool::Wakeup;
use unrack_pool::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, fence};

/// Place from which a thread checks for answers for the last time before it sleeps: on the wakeup, or beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SleeperSlot {
    OnBell,
    Beside,
}

/// State of the sleeping threads of a client.
#[derive(Default)]
pub(super) struct Sleepers {
    /// True while a thread sleeps on the wakeup, or is about to.
    on_wakeup: AtomicBool,
    /// Lock of the threads that sleep beside the wakeup.
    beside: Mutex<()>,
    told: Condvar,
    beside_count: AtomicUsize,
}

/// Permission of a thread to sleep on the wakeup.
struct OnWakeup<'a>(&'a Sleepers);

impl Drop for OnWakeup<'_> {
    fn drop(&mut self) {
        self.0.on_wakeup.store(false, Ordering::Release);
        // Pairs with the fence of `sleep_beside`: either that thread finds the wakeup free, or we find the thread in the
        // count.
        fence(Ordering::SeqCst);
        self.0.tell_beside();
    }
}

impl Sleepers {
    /// Sleeps once, unless `ready` returns true. `ready` is called when other threads can already see that this thread
    /// is about to sleep. A thread on the wakeup takes the answers that have come; a thread beside it only checks answers
    /// that were taken. May return spuriously.
    pub(super) fn sleep(
        &self,
        wakeup: &Wakeup,
        left: Option<Duration>,
        mut ready: impl FnMut(SleeperSlot) -> bool,
    ) {
        match self.take_wakeup() {
            Some(_on_wakeup) => wakeup.sleep(left, || ready(SleeperSlot::OnBell)),
            None => self.sleep_beside(left, || ready(SleeperSlot::Beside)),
        }
    }

    fn take_wakeup(&self) -> Option<OnWakeup<'_>> {
        let taken = self.on_wakeup.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| OnWakeup(self))
    }

    /// Sleeps until another thread took answers, or until no thread sleeps on the wakeup any more.
    fn sleep_beside(&self, left: Option<Duration>, ready: impl FnOnce() -> bool) {
        let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        self.beside_count.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !ready() && self.on_wakeup.load(Ordering::Relaxed) {
            let left = left.unwrap_or(Duration::from_secs(3600));
            drop(self.told.wait_timeout(beside, left));
        }
        self.beside_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes waiting threads, because the calling thread, which is at `place`, took answers.
    ///
    /// No wakeup is lost, because a thread announces its sleep before it checks for the last time with the calls
    /// locked. If it locked the calls before the waking thread did, the waking thread sees the announcement here. If it
    /// locked them later, it has seen the answers that were taken.
    #[inline]
    pub(super) fn tell(&self, wakeup: &Wakeup, place: SleeperSlot) {
        if place == SleeperSlot::Beside && self.on_wakeup.load(Ordering::Relaxed) {
            wakeup.wake();
        }
        self.tell_beside();
    }

    /// Wakes all threads, so that they see a change made by a thread of this process.
    pub(super) fn tell_all(&self, wakeup: &Wakeup) {
        // Pairs with the threads that go to sleep, which check after they have announced their sleep.
        fence(Ordering::SeqCst);
        wakeup.wake();
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
