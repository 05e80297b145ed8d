//! Tests of the caches with prefetchers.

use super::*;
use unrack_basis::SplitMix64;

fn with(prefetchers: &str) -> Hierarchy {
    let processor = format!("zen3:l3=4M/16:prefetchers={prefetchers}");
    Hierarchy::new(&processor.parse().unwrap(), 1, &[PagePlacement::AllNear]).unwrap()
}

fn load_at(hierarchy: &mut Hierarchy, instruction: u64, address: u64) -> ServedBy {
    hierarchy.access(&Request { thread: 0, address, kind: Kind::Load, instruction }).served
}

/// Addresses of as many loads, in one order after the other.
fn scan(hierarchy: &mut Hierarchy, addresses: impl Iterator<Item = u64>) -> CacheCounters {
    hierarchy.forget_counts();
    addresses.for_each(|address| _ = load_at(hierarchy, 1, address));
    hierarchy.counters(0)
}

const ALL: &str = "next-line-and-stride-and-streams";

#[test]
fn a_scan_misses_the_first_lines_of_a_page_only() {
    for step in [8, 24, 64] {
        let pages = 4096;
        let addresses = || (0..pages * 4096u64).step_by(step);
        let without = scan(&mut with("none"), addresses());
        assert_eq!(without.misses(), pages * 64, "a step of {step}");
        assert_eq!(without.prefetches, [0; 5]);
        // One load in a page before the next line is asked for; three before there is a stream.
        for (prefetchers, most) in [("next-line", 2), ("stride", 3), ("streams", 3), (ALL, 2)] {
            let counters = scan(&mut with(prefetchers), addresses());
            let misses = counters.misses();
            assert!(misses <= most * pages + 3, "{prefetchers}, a step of {step}: {misses}");
            let from_memory = counters.prefetches[ServedBy::Memory as usize] + misses;
            assert_eq!(from_memory, pages * 64, "{prefetchers}, a step of {step}: every line comes once");
        }
        let descending = scan(&mut with(ALL), (0..pages * 4096u64).rev().step_by(step));
        assert!(descending.misses() <= 3 * pages + 3, "{}", descending.misses());
    }
}

#[test]
fn a_stride_of_three_lines_is_found_by_its_instruction_alone() {
    let lines = 1 << 18;
    let addresses = || (0..lines * 64u64).step_by(192);
    let loads = lines.div_ceil(3);
    assert_eq!(scan(&mut with("next-line-and-streams"), addresses()).misses(), loads);
    let counters = scan(&mut with("stride"), addresses());
    // The first load in each page of 21 is not foreseen from the last.
    assert!(counters.misses() <= lines / 64 + 3, "{} of {loads}", counters.misses());
    assert!(counters.prefetches[ServedBy::Memory as usize] < loads);
}

#[test]
fn a_random_chase_triggers_next_to_nothing() {
    let mut random = SplitMix64::new(5);
    for kib in [128, 2 << 10, 1 << 20] {
        let addresses: Vec<u64> = (0..200_000).map(|_| (random.next_u64() % (kib << 10)) & !63).collect();
        let counters = scan(&mut with(ALL), addresses.into_iter());
        let prefetches: u64 = counters.prefetches.iter().sum();
        assert!(prefetches * 100 < 200_000 * 2, "{prefetches} in {kib} KiB");
    }
}

#[test]
fn a_line_is_in_the_first_level_or_the_second_by_its_prefetcher() {
    let mut hierarchy = with("next-line");
    let served = [0, 1, 2, 3].map(|line| load_at(&mut hierarchy, 1, line * 64));
    assert_eq!(served, [ServedBy::Memory, ServedBy::Memory, ServedBy::L1, ServedBy::L1]);
    let brought = hierarchy.prefetched();
    assert_eq!(brought, [Prefetched { line: 4 * 64, served: ServedBy::Memory, near: 1 }]);
    let mut hierarchy = with("streams");
    let served = [0, 1, 2, 3, 4].map(|line| load_at(&mut hierarchy, 1, line * 64));
    assert_eq!(served, [ServedBy::Memory, ServedBy::Memory, ServedBy::Memory, ServedBy::L2, ServedBy::L2]);
    // A second use of a line asks for nothing more.
    let mut hierarchy = with(ALL);
    [0, 1, 2, 0, 1, 2].iter().for_each(|line| _ = load_at(&mut hierarchy, 1, line * 64));
    assert_eq!(hierarchy.prefetched(), []);
}

#[test]
fn streams_of_stores_are_followed_too() {
    let mut hierarchy = with("streams");
    for line in 0..64 {
        hierarchy.access(&Request { thread: 0, address: line * 64, kind: Kind::Store, instruction: 1 });
    }
    assert_eq!(hierarchy.counters(0).stores, [0, 61, 0, 0, 3]);
}

proptest! {
    /// No line is asked for from another page than that of the access, nor twice while it is there.
    #[test]
    fn prefetchers_stay_in_the_page(
        runs in prop::collection::vec((0u64..64, -300i64..300, 1u64..80, 0u64..4), 1..20),
    ) {
        let mut hierarchy = with(ALL);
        for (page, step, count, instruction) in runs {
            let mut address = (page << 12) + (1 << 20);
            for _ in 0..count {
                load_at(&mut hierarchy, instruction, address);
                for brought in hierarchy.prefetched() {
                    prop_assert_eq!(brought.line >> 12, address >> 12);
                    prop_assert!(brought.served != ServedBy::L1 && brought.line % 64 == 0);
                }
                address = address.wrapping_add_signed(step);
            }
        }
    }
}
