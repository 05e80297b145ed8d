//! Tests and loom models of one wakeup.

#[cfg(not(loom))]
mod plain {
    use super::super::*;

    fn wakeup(state: u32) -> Wakeup {
        Wakeup { state: AtomicU32::new(state) }
    }

    /// A peer that was killed or stopped on its way to sleep announces a sleep for ever.
    #[test]
    fn who_rings_a_peer_gives_up() {
        assert!(!PeerWakeup(&wakeup(ASLEEP)).wake());
        assert!(PeerWakeup(&wakeup(0)).wake(), "nobody sleeps");
    }

    /// Any process that may read a wakeup may sleep on its word. That must not keep a wake from the owner of the wakeup.
    #[test]
    fn a_ring_is_not_stolen() {
        let (wakeup, over) = (wakeup(0), AtomicU32::new(0));
        let asleep = || wakeup.state.load(Ordering::SeqCst);
        let woken_soon = std::thread::scope(|scope| {
            scope.spawn(|| {
                while over.load(Ordering::SeqCst) == 0 {
                    let state = asleep();
                    if state & ASLEEP != 0 {
                        futex::wait(&wakeup.state, state, Some(Duration::from_secs(120)));
                    }
                    yield_now();
                }
            });
            let woken_soon = [(); 5].map(|()| {
                let start = std::time::Instant::now();
                std::thread::scope(|scope| {
                    scope.spawn(|| wakeup.sleep(Some(Duration::from_secs(120)), || false));
                    while asleep() & ASLEEP == 0 {
                        yield_now();
                    }
                    // Time for both to sleep: with less, nothing is stolen, and nothing is tested.
                    std::thread::sleep(Duration::from_millis(20));
                    wakeup.wake();
                });
                start.elapsed() < Duration::from_secs(60)
            });
            over.store(1, Ordering::SeqCst);
            futex::wake(&wakeup.state);
            woken_soon
        });
        assert_eq!(woken_soon, [true; 5], "the sleeper was not woken");
    }

    #[test]
    fn a_sleeper_that_panics_does_not_sleep() {
        let wakeup = wakeup(0);
        let sleep = || wakeup.sleep(None, || panic!("as the test wants"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(sleep)).is_err());
        assert!(!wakeup.wake());
    }
}

/// Explores all interleavings: a lost ring leaves a thread asleep for ever, which the checker reports.
#[cfg(loom)]
mod loom_models {
    use super::super::*;
    use crate::sync::AtomicU64;
    use loom::sync::Arc;

    struct Shared {
        wakeup: Wakeup,
        /// Flags that the sleeper is to find.
        found: [AtomicU64; 2],
    }

    impl Shared {
        fn tell(&self, which: usize) {
            self.found[which].store(1, Ordering::Relaxed);
        }

        fn is_there(&self, which: usize) -> bool {
            self.found[which].load(Ordering::Relaxed) == 1
        }

        /// Sleeps until all of these flags are set.
        fn await_all(&self, which: &[usize]) {
            let all_there = || which.iter().all(|&which| self.is_there(which));
            while !all_there() {
                self.wakeup.sleep(None, all_there);
            }
        }
    }

    fn model<const R: usize>(ringers: [fn(&Shared); R], awaited: &'static [usize]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let found = [AtomicU64::new(0), AtomicU64::new(0)];
            let shared = Arc::new(Shared { wakeup: Wakeup { state: AtomicU32::new(0) }, found });
            let ringing = ringers.map(|ringer| {
                let shared = shared.clone();
                loom::thread::spawn(move || ringer(&shared))
            });
            shared.await_all(awaited);
            for ringer in ringing {
                ringer.join().unwrap();
            }
        });
    }

    #[test]
    fn a_ring_is_heard() {
        let tell_and_ring = |shared: &Shared| {
            shared.tell(0);
            shared.wakeup.wake();
        };
        model([tell_and_ring], &[0]);
    }

    /// Models a server: a sleeper that was woken for the first flag is not woken again for the second.
    #[test]
    fn who_was_woken_finds_what_came_later() {
        let tell_twice = |shared: &Shared| {
            let mut rung = WakesSent::default();
            for which in 0..2 {
                shared.tell(which);
                while !PeerWakeup(&shared.wakeup).try_wake(&mut rung) {
                    yield_now();
                }
            }
        };
        model([tell_twice], &[0, 1]);
    }
}
