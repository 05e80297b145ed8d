//! How a thread sleeps until a time, and is woken if something is due earlier.
//!
//! The sleeper says until when it means to sleep, and then looks once more; whoever brings something first puts it there,
//! and then looks until when the other means to sleep. A full fence on both sides, between the two: at least one of them
//! sees what the other did. Nothing is lost if both do.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Until when a thread sleeps. 0: it does not.
#[derive(Debug)]
pub(crate) struct Bell(AtomicU64);

impl Bell {
    pub fn new() -> Bell {
        Bell(AtomicU64::new(0))
    }

    /// Calls `park` with the time to sleep until: `until`, unless `earliest` knows of something before. `park` may return
    /// whenever it likes, and does at once if there was an `unpark` since the last time.
    pub fn sleep(&self, until: u64, earliest: impl FnOnce() -> u64, park: impl FnOnce(u64)) {
        // SYNC POINT with `ring`.
        self.0.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let earliest = earliest();
        if earliest >= until {
            park(until);
        }
        self.0.store(0, Ordering::Relaxed);
    }

    /// Something that was put there before is due at `at`: calls `unpark` if the sleeper would be late for it.
    pub fn ring(&self, at: u64, unpark: impl FnOnce()) {
        // SYNC POINT with `sleep`.
        fence(Ordering::SeqCst);
        if at < self.0.load(Ordering::Relaxed) {
            unpark();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Bell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    const NEVER: u64 = u64::MAX;

    /// One puts something there that is due at 5; the other sleeps for ever unless it knows. It must come to know:
    /// else loom finds that nobody can go on.
    #[test]
    fn loom_nobody_sleeps_through() {
        loom::model(|| {
            let (bell, due) = (Arc::new(Bell::new()), Arc::new(AtomicU64::new(NEVER)));
            let sleeper = {
                let (bell, due) = (bell.clone(), due.clone());
                loom::thread::spawn(move || {
                    while due.load(Ordering::Acquire) == NEVER {
                        bell.sleep(NEVER, || due.load(Ordering::Acquire), |_| loom::thread::park());
                    }
                })
            };
            due.store(5, Ordering::Release);
            bell.ring(5, || sleeper.thread().unpark());
            sleeper.join().unwrap();
        });
    }
}
