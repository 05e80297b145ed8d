#[cfg(not(loom))]
mod plain {
    use super::super::*;

    fn bell(state: u32) -> Bell {
        Bell { state: AtomicU32::new(state) }
    }

    /// A peer that was killed asleep says for ever that it sleeps.
    #[test]
    fn who_rings_a_peer_gives_up() {
        let mut asked = 0;
        let enough = || {
            asked += 1;
            asked == 3
        };
        assert!(PeerBell(&bell(ASLEEP)).ring(enough));
        assert!(!PeerBell(&bell(0)).ring(|| true), "nobody sleeps");
    }

    #[test]
    fn a_sleeper_that_panics_does_not_sleep() {
        let bell = bell(0);
        let sleep = || bell.sleep(None, || panic!("as the test wants"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(sleep)).is_err());
        assert!(!bell.ring());
    }
}

/// All interleavings: a ring that is lost leaves a thread asleep for ever, which the checker reports.
#[cfg(loom)]
mod loom_models {
    use super::super::*;
    use crate::sync::AtomicU64;
    use loom::sync::Arc;

    struct Shared {
        bell: Bell,
        /// What is to be found.
        found: [AtomicU64; 2],
    }

    impl Shared {
        fn tell(&self, which: usize) {
            self.found[which].store(1, Ordering::Relaxed);
        }

        fn is_there(&self, which: usize) -> bool {
            self.found[which].load(Ordering::Relaxed) == 1
        }

        /// Sleeps until all of it is there.
        fn await_all(&self, which: &[usize]) {
            let all_there = || which.iter().all(|&which| self.is_there(which));
            while !all_there() {
                self.bell.sleep(None, all_there);
            }
        }
    }

    fn model<const R: usize>(ringers: [fn(&Shared); R], awaited: &'static [usize]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let found = [AtomicU64::new(0), AtomicU64::new(0)];
            let shared = Arc::new(Shared { bell: Bell { state: AtomicU32::new(0) }, found });
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
            shared.bell.ring();
        };
        model([tell_and_ring], &[0]);
    }

    /// As a server does: who was woken for the first thing is not woken again for the second.
    #[test]
    fn who_was_woken_finds_what_came_later() {
        let tell_twice = |shared: &Shared| {
            let mut rung = Rung::default();
            for which in 0..2 {
                shared.tell(which);
                while !PeerBell(&shared.bell).try_ring(&mut rung) {
                    yield_now();
                }
            }
        };
        model([tell_twice], &[0, 1]);
    }
}
