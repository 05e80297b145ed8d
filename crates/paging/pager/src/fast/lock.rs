//! The lock of fast mode, around the books.
//!
//! It is held for microseconds, and only where no handler of the program can run: in our own handlers, which
//! block all signals, and on the tick thread, which never receives any. Waiting threads spin for a moment, and then
//! sleep: with more threads than cores, the holder needs the core.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use rustix::thread::futex;

/// Number of spins before sleeping: longer than most holders need, if each has a core.
const SPINS: u32 = 300;

/// States of a lock: free; held; held, and threads may sleep until it is free.
const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A value, once [`Lock::put`] has put it there, and its lock.
pub(super) struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

/// Access to the value, which ends when dropped.
pub(super) struct Held<T: 'static> {
    lock: &'static Lock<T>,
    value: &'static mut T,
}

// SAFETY: `value` is only touched while the lock is ours.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Makes a lock around nothing.
    pub(super) const fn new() -> Lock<T> {
        Lock { state: AtomicU32::new(FREE), value: UnsafeCell::new(None) }
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
        self.release();
    }

    fn acquire(&self) {
        for _ in 0..SPINS {
            if self.state.load(Relaxed) == FREE
                && self.state.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        // A thread that has slept does not know whether others still sleep.
        while self.state.swap(AWAITED, Acquire) != FREE {
            // Whatever ends the wait, the state decides.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    fn release(&self) {
        if self.state.swap(FREE, Release) == AWAITED {
            // It fails only at an address that is no memory.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
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
        lock.state.store(FREE, Release);
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
        self.lock.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        static COUNT: Lock<u64> = Lock::new();
        COUNT.put(0);
        let count = || (0..20_000).for_each(|_| *COUNT.lock() += 1);
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(count)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*COUNT.lock(), 160_000);
    }

    #[test]
    fn waiting_threads_leave_their_core_to_others() {
        static LONG: Lock<()> = Lock::new();
        LONG.put(());
        let held = LONG.lock();
        let wait = || {
            drop(LONG.lock());
            let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(wait)).collect();
        std::thread::sleep(Duration::from_millis(300));
        drop(held);
        for thread in threads {
            let used = thread.join().unwrap();
            assert!(used < Duration::from_millis(30), "{used:?} of 300 ms");
        }
    }
}
