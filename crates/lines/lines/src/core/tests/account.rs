//! Tests of accounts: sums, and programs of which one cause is known.

use super::written::{random, register};
use super::*;
use crate::window::ServedBy;
use proptest::prelude::*;

fn account(lanes: &[MemoryLane], lane: usize, written: &Written) -> CycleAccount {
    let mut replay = CoreReplay::new(&parameters(), lanes, lane).unwrap();
    replay.run(&written.window, &written.blocks);
    replay.account()
}

proptest! {
    #[test]
    fn an_account_adds_up_to_the_cycles(first in random(), second in random(), lane in 0..16usize) {
        let mut replay = CoreReplay::new(&parameters(), &far_lanes(), lane).unwrap();
        let mut blocks = first.blocks.clone();
        blocks.extend(second.blocks.clone());
        let mut second = second.window;
        second.steps.iter_mut().for_each(|step| step.block += first.blocks.len() as u32);
        let cycles = replay.run(&first.window, &blocks).cycles[lane] + replay.run(&second, &blocks).cycles[lane];
        prop_assert_eq!(replay.account().cycles(), cycles);
    }
}

fn rounds(mut round: impl FnMut(&mut Written, u64)) -> Written {
    let mut written = Written::default();
    (0..1000).for_each(|number| round(&mut written, number));
    written
}

#[test]
fn each_cause_is_charged_where_it_is_the_only_one() {
    let lanes = far_lanes();
    let share = |part: fn(&CycleAccount) -> f64, written: &Written| {
        let account = account(&lanes, 3, written);
        part(&account) / account.cycles()
    };
    let chase = rounds(|w, n| w.load(register(0), register(0), n * 64, ServedBy::Memory));
    assert!(share(|account| account.memory, &chase) > 0.98);
    let cached = rounds(|w, n| w.load(register(0), register(0), n * 64, ServedBy::L3));
    assert!(share(|account| account.caches, &cached) > 0.85);
    let chain = rounds(|w, _| w.add(register(0), register(0)));
    assert!(share(|account| account.operations, &chain) > 0.7);
    let wide = rounds(|w, _| w.add(0, register(0)));
    assert!(share(|account| account.dispatch, &wide) > 0.99);
    let branches = rounds(|w, _| w.mispredicted(0));
    assert!(share(|account| account.restart, &branches) > 0.9);
    let stores = rounds(|w, n| w.store(0, n * 64, ServedBy::Memory));
    assert!(share(|account| account.stores, &stores) > 0.9);
}

#[test]
fn overlap_is_the_number_of_misses_at_once() {
    let overlap = |base| {
        let written = rounds(|w, n| w.load(base, register(0), n * 64, ServedBy::Memory));
        account(&far_lanes(), 8, &written)
    };
    let (chain, independent) = (overlap(register(0)), overlap(0));
    assert_eq!((chain.overlap, chain.lines), (1.0, 1000));
    assert!((9.8..=10.0).contains(&independent.overlap), "{}", independent.overlap);
}

/// The line has long arrived: what takes the time is the chain of hits.
#[test]
fn a_hit_on_a_line_that_arrived_is_no_wait_for_memory() {
    let mut written = rounds(|w, _| w.load(register(1), register(1), 64, ServedBy::L1));
    written.window.accesses[0].served = ServedBy::Memory;
    let account = account(&[far(300.0, 0.0)], 0, &written);
    assert!(account.memory <= 300.0 && account.operations >= 999.0 * 5.0, "{account:?}");
}
