//! The lock of fast mode, which protects the bookkeeping of pages.
//!
//! The lock is held for microseconds, and only where no handler of the program can run: in the handlers of fast mode, which block all
//! signals, and on the tick thread, which never receives a signal. Waiting threads spin for a moment and then sleep, because the holder
//! needs a core if there are more threads than cores.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use rustix::thread::futex;

/// Number of spins before a thread sleeps. They take longer than most holders need if each thread has a core.
const SPINS: u32 = 300;

/// States of a lock: free; held; held, and threads may be sleeping until it is free.
const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A value, which is absent until [`Lock::put`], and its lock.
pub(super) struct Lock<T> {
    state: AtomicU32,
    /// Number of threads that wait.
    waiting: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

/// Access to a locked value; the lock is released when this is dropped.
pub(super) struct LockGuard<T: 'static> {
    lock: &'static Lock<T>,
    value: &'static mut T,
}

// SAFETY: `value` is only accessed while the lock is held.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Makes a lock without a value.
    pub(super) const fn new() -> Lock<T> {
        Lock { state: AtomicU32::new(FREE), waiting: AtomicU32::new(0), value: UnsafeCell::new(None) }
    }

    /// Waits for the lock and returns access to the value, which [`Lock::put`] must have stored.
    pub(super) fn lock(&'static self) -> LockGuard<T> {
        self.acquire();
        // SAFETY: this thread holds the lock.
        let value = unsafe { &mut *self.value.get() };
        LockGuard { lock: self, value: value.as_mut().expect("the value was put there at start") }
    }

    /// Stores the value at start, before any thread can lock it.
    pub(super) fn put(&self, value: T) {
        self.acquire();
        // SAFETY: this thread holds the lock.
        unsafe { *self.value.get() = Some(value) };
        self.release();
    }

    /// Returns whether a thread waits for the lock now.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    fn acquire(&self) {
        if self.state.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.waiting.fetch_add(1, Relaxed);
            self.wait();
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    fn wait(&self) {
        for _ in 0..SPINS {
            if self.state.load(Relaxed) == FREE
                && self.state.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        // A thread that has slept does not know whether others still sleep. Therefore it takes the lock as awaited.
        while self.state.swap(AWAITED, Acquire) != FREE {
            // The state is checked after every end of the wait, whatever the reason.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    fn release(&self) {
        if self.state.swap(FREE, Release) == AWAITED {
            // A wakeup fails only for an address that is not mapped.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
    }
}

impl<T> LockGuard<T> {
    /// Drops the value without destroying it, in the child of a fork that holds the lock, because the value was the parent's.
    pub(super) fn forget(self) {
        let lock = self.lock;
        core::mem::forget(self);
        // SAFETY: this thread holds the lock, and this process has no other thread.
        core::mem::forget(unsafe { (*lock.value.get()).take() });
        lock.waiting.store(0, Relaxed);
        lock.state.store(FREE, Release);
    }
}

impl<T> Deref for LockGuard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for LockGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Drop for LockGuard<T> {
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
