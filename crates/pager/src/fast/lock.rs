//! The lock of fast mode, around the books.
//!
//! It is held for microseconds, and only where no handler of the program can run: in our own handlers, which
//! block all signals, and on the tick thread, which never receives any. Waiting threads spin.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Number of spins before yielding: longer than most holders need, if each has a core.
const SPINS: u32 = 300;

/// A value, once [`Lock::put`] has put it there, and its lock.
pub(super) struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `value` is only touched while `held` is ours.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value, which ends when dropped.
pub(super) struct Held<T: 'static> {
    lock: &'static Lock<T>,
    value: &'static mut T,
}

impl<T> Lock<T> {
    /// Makes a lock around nothing.
    pub(super) const fn new() -> Lock<T> {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(None) }
    }

    /// Waits for the value, which [`Lock::put`] put there.
    pub(super) fn lock(&'static self) -> Held<T> {
        self.acquire();
        // SAFETY: the lock is ours.
        let value = unsafe { &mut *self.value.get() };
        Held { lock: self, value: value.as_mut().expect("the value was put there at start") }
    }

    /// Puts the value there at start, before any thread can ask for it.
    pub(super) fn put(&self, value: T) {
        self.acquire();
        // SAFETY: the lock is ours.
        unsafe { *self.value.get() = Some(value) };
        self.held.store(false, Release);
    }

    fn acquire(&self) {
        let mut spins = 0;
        while self.held.swap(true, Acquire) {
            while self.held.load(Relaxed) {
                spins += 1;
                if spins % SPINS == 0 { rustix::thread::sched_yield() } else { core::hint::spin_loop() }
            }
        }
    }
}

impl<T> Held<T> {
    /// Forgets the value in the child of a fork, which holds the lock: it was its parent's.
    pub(super) fn forget(self) {
        let lock = self.lock;
        core::mem::forget(self);
        // SAFETY: the lock is ours, and this process has no other thread.
        core::mem::forget(unsafe { (*lock.value.get()).take() });
        lock.held.store(false, Release);
    }
}

impl<T> Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.lock.held.store(false, Release);
    }
}
