//! Wakeup of a sleeping thread. The thread sleeps until a given time, and is woken if work is due earlier.
//!
//! The sleeper publishes the time until which it will sleep, and then checks once more for work. A waker first makes its work visible to
//! the sleeper, and then reads that time. Each of them executes a full fence between its two steps, so that at least one of them sees the
//! other's store. If both do, the extra wakeup is harmless.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Time until which a thread sleeps, in the unit of its caller; 0 while it is awake.
#[derive(Debug)]
pub(crate) struct SleepTime(AtomicU64);

impl SleepTime {
    /// Returns the time of a thread that is awake.
    pub(crate) fn new() -> SleepTime {
        SleepTime(AtomicU64::new(0))
    }

    /// Calls `park` with `until`, unless `earliest` then returns an earlier time. `park` may return at any time, and must return at once if
    /// `unpark` was called since it last returned.
    pub(crate) fn sleep(&self, until: u64, earliest: impl FnOnce() -> u64, park: impl FnOnce(u64)) {
        // SYNC POINT with `wake`.
        self.0.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let earliest = earliest();
        if earliest >= until {
            park(until);
        }
        self.0.store(0, Ordering::Relaxed);
    }

    /// Calls `unpark` if the sleeper would sleep beyond `at`. `at` is when work is due that the caller has already made visible to the
    /// sleeper.
    pub(crate) fn wake(&self, at: u64, unpark: impl FnOnce()) {
        // SYNC POINT with `sleep`.
        fence(Ordering::SeqCst);
        if at < self.0.load(Ordering::Relaxed) {
            unpark();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::SleepTime;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    const NEVER: u64 = u64::MAX;

    /// One thread publishes work that is due at 5, and the other sleeps forever unless it is woken for this work. If a wakeup were lost,
    /// loom would report a deadlock.
    #[test]
    fn loom_nobody_sleeps_through() {
        loom::model(|| {
            let (time, due) = (Arc::new(SleepTime::new()), Arc::new(AtomicU64::new(NEVER)));
            let sleeper = {
                let (time, due) = (time.clone(), due.clone());
                loom::thread::spawn(move || {
                    while due.load(Ordering::Acquire) == NEVER {
                        time.sleep(NEVER, || due.load(Ordering::Acquire), |_| loom::thread::park());
                    }
                })
            };
            due.store(5, Ordering::Release);
            time.wake(5, || sleeper.thread().unpark());
            sleeper.join().unwrap();
        });
    }
}
