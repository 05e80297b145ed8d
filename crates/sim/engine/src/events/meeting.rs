//! A barrier at which threads meet many thousand times a second.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A barrier for threads that each have a core. A waiting thread spins, and yields its core from time to time.
pub(super) struct SpinBarrier {
    threads: usize,
    here: AtomicUsize,
    /// Number of meetings held.
    held: AtomicUsize,
    /// Set when a thread has panicked, because no further meeting can complete.
    broken: AtomicBool,
}

/// Number of spins before a waiting thread yields its core.
const TURNS: u32 = 1 << 10;

impl SpinBarrier {
    pub(super) fn new(threads: usize) -> SpinBarrier {
        let (here, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
        SpinBarrier { threads, here, held, broken: AtomicBool::new(false) }
    }

    /// Returns a guard that each thread holds while it takes part. If the thread panics, the guard makes the other
    /// threads panic too.
    pub(super) fn attend(&self) -> Attending<'_> {
        Attending(self)
    }

    /// Waits until all threads have arrived. All threads can read after the meeting what any thread wrote before it.
    ///
    /// # Panics
    /// If another thread has panicked.
    pub(super) fn wait(&self) {
        let held = self.held.load(Ordering::Relaxed);
        if self.here.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.here.store(0, Ordering::Relaxed);
            self.held.store(held.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut turns = 0;
        while self.held.load(Ordering::Acquire) == held {
            assert!(!self.broken.load(Ordering::Relaxed), "another thread of this run has panicked");
            turns += 1;
            match turns % TURNS {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

pub(super) struct Attending<'a>(&'a SpinBarrier);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_on_before_all_have_come() {
        let (meeting, sum) = (SpinBarrier::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=1000 {
                        sum.fetch_add(1, Ordering::Relaxed);
                        meeting.wait();
                        assert_eq!(sum.load(Ordering::Relaxed), 3 * round);
                        meeting.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_one_that_panicked_panics() {
        let meeting = SpinBarrier::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let _hold = meeting.attend();
                meeting.wait();
            });
            let panics = scope.spawn(|| {
                let _hold = meeting.attend();
                panic!("for the test");
            });
            assert!(panics.join().is_err() && waits.join().is_err());
        });
    }
}
