//! A lock for what is held for nanoseconds: one atomic exchange to take, a store to give back.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Guards data that threads of this process share.
pub struct Lock<T> {
    taken: AtomicBool,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached through a guard only, and there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub fn new(data: T) -> Self {
        Lock { taken: AtomicBool::new(false), data: UnsafeCell::new(data) }
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_slowly(),
        }
    }

    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        (!self.taken.swap(true, Ordering::Acquire)).then(|| Guard(self))
    }

    /// Whoever holds it may not be running: after some looks, let it.
    #[cold]
    fn lock_slowly(&self) -> Guard<'_, T> {
        loop {
            for _ in 0..100 {
                if !self.taken.load(Ordering::Relaxed)
                    && let Some(guard) = self.try_lock()
                {
                    return guard;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one guard at a time.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard at a time, and it is borrowed.
        unsafe { &mut *self.0.data.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let lock = Lock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let mut count = lock.lock();
                        let seen = *count;
                        *count = std::hint::black_box(seen) + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 200_000);
    }

    #[test]
    fn a_taken_lock_is_not_taken_twice() {
        let lock = Lock::new(());
        let guard = lock.try_lock().expect("it is free");
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}
