//! Tests and loom models of the list of free buffers.

#[cfg(not(loom))]
mod plain {
    use super::super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Compares with a set: nothing is handed out twice, nothing is lost, and it closes only when all is
        /// free.
        #[test]
        fn behaves_as_a_set(steps in prop::collection::vec((0u8..4, 0usize..64), 0..200)) {
            const COUNT: u32 = 24;
            let list = FreeList::new(COUNT);
            list.open(3, COUNT);
            let mut held: Vec<u16> = Vec::new();
            for (step, which) in steps {
                match step {
                    0 | 1 => {
                        let mut got = Vec::new();
                        let count = list.take(3, which as u32 % 9, |buffer| got.push(buffer));
                        prop_assert_eq!(count as usize, got.len());
                        held.extend(got);
                    }
                    2 if !held.is_empty() => {
                        let none = list.free() == 0;
                        let given = list.give(&[held.swap_remove(which % held.len())]);
                        prop_assert_eq!(given.first, none);
                        prop_assert_eq!(given.free, list.free());
                    }
                    3 if !held.is_empty() => {
                        let chain: Vec<u16> = held.drain(..1 + which % held.len()).collect();
                        list.give(&chain);
                    }
                    _ => {}
                }
                let distinct: HashSet<u16> = held.iter().copied().collect();
                prop_assert_eq!(distinct.len(), held.len());
                prop_assert!(held.iter().all(|&buffer| (buffer as u32) < COUNT));
                prop_assert_eq!(list.free() as usize + held.len(), COUNT as usize);
                prop_assert_eq!(list.take(4, 1, |_| {}), 0, "another class");
                if !held.is_empty() {
                    prop_assert!(!list.close(COUNT));
                }
            }
            if !held.is_empty() {
                list.give(&held);
            }
            prop_assert!(list.close(COUNT));
            prop_assert_eq!(list.take(3, 1, |_| {}), 0);
        }
    }

    #[test]
    #[should_panic(expected = "freed that is free")]
    fn freeing_twice_is_noticed() {
        let list = FreeList::new(4);
        list.open(0, 4);
        let mut taken = 0;
        list.take(0, 1, |buffer| taken = buffer);
        list.give(&[taken]);
        list.give(&[taken]);
    }

    /// Threads take, mark and give back; no thread finds another's mark.
    #[test]
    fn threads_never_hold_the_same_buffer() {
        const COUNT: u32 = 16;
        let rounds = if cfg!(miri) { 10 } else { 30_000 };
        let list = FreeList::new(COUNT);
        list.open(1, COUNT);
        let holders: Vec<_> = (0..COUNT).map(|_| std::sync::atomic::AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 1..=4u32 {
                let (list, holders) = (&list, &holders);
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..rounds {
                        list.take(1, (round + thread) % 5, |buffer| held.push(buffer));
                        for &buffer in &held {
                            let before = holders[buffer as usize].swap(thread, Ordering::Relaxed);
                            assert!(before == 0, "{before} holds {buffer}, too");
                        }
                        for &buffer in &held {
                            holders[buffer as usize].store(0, Ordering::Relaxed);
                        }
                        if !held.is_empty() {
                            list.give(&held);
                            held.clear();
                        }
                    }
                });
            }
        });
        assert_eq!(list.free(), COUNT);
        assert!(list.close(COUNT));
    }
}

/// All interleavings of two threads: `RUSTFLAGS="--cfg loom" cargo test -p unrack-pool --lib loom`.
#[cfg(loom)]
mod loom_models {
    use super::super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;

    /// Marks a buffer as held, and panics if another thread holds it.
    fn hold(holders: &[AtomicU32], buffer: u16) {
        assert_eq!(holders[buffer as usize].swap(1, Ordering::Relaxed), 0, "held twice");
    }

    fn let_go(holders: &[AtomicU32], buffer: u16) {
        holders[buffer as usize].store(0, Ordering::Relaxed);
    }

    fn model(count: u32, threads: [fn(&FreeList, &[AtomicU32]); 2]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared =
                Arc::new((FreeList::new(count), (0..count).map(|_| AtomicU32::new(0)).collect::<Vec<_>>()));
            shared.0.open(1, count);
            let running = threads.map(|thread| {
                let shared = shared.clone();
                loom::thread::spawn(move || thread(&shared.0, &shared.1))
            });
            for thread in running {
                thread.join().unwrap();
            }
            let (list, holders) = &*shared;
            // Nothing is lost: all buffers that are not held can be taken.
            let held = holders.iter().filter(|holder| holder.load(Ordering::Relaxed) == 1).count() as u32;
            if list.class() == Some(1) {
                let mut rest = 0;
                while list.take(1, 1, |buffer| hold(holders, buffer)) == 1 {
                    rest += 1;
                }
                assert_eq!(rest + held, count);
            }
        });
    }

    /// Takes one, gives it back, takes one: provokes the ABA problem, a compare-and-swap that succeeds wrongly.
    fn back_and_forth(list: &FreeList, holders: &[AtomicU32]) {
        for _ in 0..2 {
            let mut got = None;
            list.take(1, 1, |buffer| got = Some(buffer));
            if let Some(buffer) = got {
                hold(holders, buffer);
                let_go(holders, buffer);
                list.give(&[buffer]);
            }
        }
    }

    fn take_two(list: &FreeList, holders: &[AtomicU32]) {
        list.take(1, 2, |buffer| hold(holders, buffer));
    }

    fn swap_order(list: &FreeList, holders: &[AtomicU32]) {
        let mut got = Vec::new();
        list.take(1, 2, |buffer| got.push(buffer));
        for &buffer in &got {
            hold(holders, buffer);
        }
        for &buffer in &got {
            let_go(holders, buffer);
        }
        if !got.is_empty() {
            list.give(&got);
        }
    }

    /// Closes the section if it can, opens it for another class, and checks that no other thread has a buffer of
    /// it.
    fn close_and_reopen(list: &FreeList, holders: &[AtomicU32]) {
        if list.close(2) {
            list.open(2, 1);
            let mut got = None;
            list.take(2, 1, |buffer| got = Some(buffer));
            hold(holders, got.expect("nobody of another class takes it"));
        }
    }

    #[test]
    fn two_take_and_give() {
        model(2, [back_and_forth, back_and_forth]);
    }

    #[test]
    fn one_takes_several_while_the_other_changes_the_order() {
        model(3, [take_two, back_and_forth]);
        model(3, [swap_order, take_two]);
    }

    #[test]
    fn a_section_closes_only_when_all_is_free() {
        model(2, [close_and_reopen, back_and_forth]);
        model(2, [close_and_reopen, take_two]);
    }
}
