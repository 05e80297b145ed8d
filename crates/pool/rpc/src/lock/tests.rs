//! Tests and loom models of the lock.

#[cfg(not(loom))]
mod plain {
    use super::super::*;

    /// Runs with the first thread as owner for a while, then with all sharing.
    #[test]
    fn one_holds_it_at_a_time() {
        for _ in 0..50 {
            let lock = Lock::new(0u64);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..2_000 {
                            let mut count = lock.lock();
                            let seen = *count;
                            *count = std::hint::black_box(seen) + 1;
                        }
                    });
                }
            });
            assert_eq!(*lock.lock(), 6_000);
        }
    }

    #[test]
    fn what_the_owner_did_is_seen_by_those_who_come_later() {
        let lock = Lock::new(0u64);
        for _ in 0..1000 {
            *lock.lock() += 1;
        }
        assert_eq!(lock.owner.load(Ordering::Relaxed) == SHARED, !can_withdraw());
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(*lock.lock(), 1000));
        });
        assert_eq!(lock.owner.load(Ordering::Relaxed), SHARED);
        assert_eq!(*lock.lock(), 1000);
    }

    #[test]
    fn a_taken_lock_is_not_taken_twice() {
        let lock = Lock::new(());
        let guard = lock.try_lock().expect("it is free");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_lock().is_none()));
        });
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}

/// Explores all interleavings. The data is the checker's own: it reports two threads that access it at once.
#[cfg(loom)]
mod loom_models {
    use super::super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Runs threads that each lock as often as given in `times`, the first of them this one.
    fn model<const T: usize>(preemptions: usize, times: [usize; T]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let lock = Arc::new(Lock::new(UnsafeCell::new(0)));
            let count = |lock: &Lock<UnsafeCell<usize>>, times: usize| {
                for _ in 0..times {
                    // SAFETY: the lock makes the access exclusive.
                    lock.lock().with_mut(|count| unsafe { *count += 1 });
                }
            };
            let others: Vec<_> = times[1..]
                .iter()
                .map(|&times| {
                    let lock = lock.clone();
                    loom::thread::spawn(move || count(&lock, times))
                })
                .collect();
            count(&lock, times[0]);
            for other in others {
                other.join().unwrap();
            }
            // SAFETY: all others have ended, and the lock is held.
            let counted = lock.lock().with(|count| unsafe { *count });
            assert_eq!(counted, times.iter().sum::<usize>());
        });
    }

    /// The owner comes back while another thread withdraws its ownership.
    #[test]
    fn an_owner_is_withdrawn() {
        model(3, [3, 1]);
        model(3, [2, 2]);
    }

    #[test]
    fn one_of_three_holds_it() {
        model(1, [1, 1, 1]);
    }

    #[test]
    fn who_only_tries_is_alone_too() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let lock = Arc::new(Lock::new(UnsafeCell::new(0)));
            let other = loom::thread::spawn({
                let lock = lock.clone();
                move || {
                    for _ in 0..2 {
                        // SAFETY: the lock makes the access exclusive.
                        lock.lock().with_mut(|count| unsafe { *count += 1 });
                    }
                }
            });
            if let Some(guard) = lock.try_lock() {
                // SAFETY: the guard makes the access exclusive; the checker reports if not.
                guard.with_mut(|count| unsafe { *count += 1 });
            }
            other.join().unwrap();
        });
    }
}
