//! Tests of the hierarchy: closed forms, conservation of modified lines, and a slow model of lists.

use super::*;
use crate::processor::{CacheSize, Prefetchers};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a small processor: sizes in lines.
fn small(l1: (u64, u32), l2: (u64, u32), l3: (u64, u32), content: InclusionPolicy) -> Processor {
    let size = |(lines, ways): (u64, u32)| CacheSize { bytes: lines * 64, ways };
    Processor {
        l1: size(l1),
        l2: size(l2),
        l3: size(l3),
        l3_cores: 2,
        l3_content: content,
        prefetchers: Prefetchers::OFF,
        ..Processor::by_name("zen3").unwrap()
    }
}

fn tiny(content: InclusionPolicy) -> Processor {
    small((4, 2), (8, 2), (24, 3), content)
}

fn machine(processor: &Processor, cores: u32) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(processor, cores, &[]).unwrap();
    // Page walks would be loads of their own.
    hierarchy.cores.iter_mut().for_each(|core| core.tlb = Tlb::never_walking());
    hierarchy
}

fn request(thread: u32, line: u64, kind: Kind) -> Request {
    Request { thread, address: line * 64, kind, instruction: 0 }
}

fn load(hierarchy: &mut Hierarchy, line: u64) -> ServedBy {
    hierarchy.access(&request(0, line, Kind::Load)).served
}

mod prefetchers;

#[test]
fn a_scan_misses_once_for_each_line_and_a_working_set_that_fits_never_again() {
    let mut hierarchy = machine(&"zen3:prefetchers=none".parse().unwrap(), 1);
    let lines = (32 << 20) / 64;
    assert!((0..lines).all(|line| load(&mut hierarchy, line) == ServedBy::Memory));
    assert!((0..lines).all(|line| load(&mut hierarchy, line) == ServedBy::L3));
    assert_eq!(hierarchy.counters(0).loads, [0, 0, lines, 0, lines]);
}

#[test]
fn a_cycle_of_more_lines_than_all_caches_misses_always() {
    let mut hierarchy = machine(&small((4, 4), (8, 8), (16, 16), InclusionPolicy::Victims), 1);
    // A victim cache adds its lines to those of the second level.
    for _ in 0..10 {
        assert!((0..25).all(|line| load(&mut hierarchy, line) == ServedBy::Memory));
    }
    let mut hierarchy = machine(&small((4, 4), (8, 8), (16, 16), InclusionPolicy::Victims), 1);
    for line in 0..24 {
        load(&mut hierarchy, line);
    }
    assert!((0..240).all(|line| load(&mut hierarchy, line % 24) == ServedBy::L3));
}

#[test]
fn an_inclusive_last_level_takes_its_victims_from_the_core() {
    let mut hierarchy = machine(&small((4, 4), (8, 8), (8, 8), InclusionPolicy::Inclusive), 1);
    for line in 0..8 {
        load(&mut hierarchy, line);
    }
    // Hits in the core do not reach the last level, where line 0 is the oldest.
    assert_eq!(load(&mut hierarchy, 0), ServedBy::L2);
    assert_eq!(load(&mut hierarchy, 8), ServedBy::Memory);
    assert_eq!(load(&mut hierarchy, 0), ServedBy::Memory);
}

#[test]
fn a_line_that_another_core_modified_comes_from_there() {
    for content in [InclusionPolicy::Victims, InclusionPolicy::Inclusive] {
        let mut hierarchy = machine(&tiny(content), 4);
        for reader in [1, 2] {
            hierarchy.access(&request(0, 1, Kind::Store));
            let read = request(reader, 1, Kind::Load);
            assert_eq!(hierarchy.access(&read).served, ServedBy::Peer, "{content:?}, core {reader}");
            assert_eq!(hierarchy.access(&read).served, ServedBy::L1);
            assert_eq!(
                hierarchy.access(&request(0, 1, Kind::Load)).served,
                ServedBy::L1,
                "the owner keeps it"
            );
            hierarchy.access(&request(0, 1, Kind::Store));
            assert_eq!(hierarchy.access(&read).served, ServedBy::Peer, "a store takes it from all others");
        }
    }
}

#[test]
fn stores_past_the_caches_are_gathered_by_line() {
    let mut hierarchy = machine(&tiny(InclusionPolicy::Victims), 1);
    hierarchy.access(&request(0, 3, Kind::Store));
    let bypass = request(0, 3, Kind::NontemporalStore);
    assert_eq!(hierarchy.access(&bypass).served, ServedBy::Memory);
    assert_eq!(hierarchy.write_backs().len(), 1);
    assert_eq!(hierarchy.access(&bypass).served, ServedBy::L1);
    assert_eq!(hierarchy.write_backs().len(), 0);
    assert_eq!(load(&mut hierarchy, 3), ServedBy::Memory);
}

#[test]
fn a_page_walk_loads_through_the_caches_and_is_no_access() {
    let mut hierarchy = Hierarchy::new(&"zen3:prefetchers=none".parse().unwrap(), 1, &[]).unwrap();
    let first = hierarchy.access(&request(0, 0, Kind::Load));
    assert_eq!(first.walk, WalkLoads { memory: 4, ..WalkLoads::default() });
    let next = hierarchy.access(&request(0, 64, Kind::Load));
    assert_eq!(next.walk, WalkLoads { caches: [1, 0, 0], ..WalkLoads::default() }, "the entry beside it");
    hierarchy.set_huge_pages(&[(1 << 21, 1 << 22)]);
    hierarchy.access(&request(0, 1 << 15, Kind::Load));
    let within = hierarchy.access(&request(0, (1 << 15) + 64, Kind::Load));
    assert_eq!(within.walk, WalkLoads::default());
    let counters = hierarchy.counters(0);
    assert_eq!((counters.accesses(), counters.walks), (4, 3));
}

/// Caches of one core as lists: the most recent first.
struct Lists {
    sizes: [(u64, usize); 3],
    levels: [BTreeMap<u64, Vec<u64>>; 3],
}

impl Lists {
    fn take(&mut self, level: usize, line: u64) -> bool {
        let set = self.levels[level].entry(line % self.sizes[level].0).or_default();
        let before = set.len();
        set.retain(|other| *other != line);
        set.len() < before
    }

    fn put(&mut self, level: usize, line: u64) -> Option<u64> {
        let (sets, ways) = self.sizes[level];
        let set = self.levels[level].entry(line % sets).or_default();
        set.insert(0, line);
        if set.len() > ways { set.pop() } else { None }
    }

    fn access(&mut self, line: u64) -> ServedBy {
        if self.take(0, line) {
            self.put(0, line);
            return ServedBy::L1;
        }
        let served = if self.take(1, line) {
            ServedBy::L2
        } else if self.take(2, line) {
            ServedBy::L3
        } else {
            ServedBy::Memory
        };
        if let Some(victim) = self.put(1, line) {
            self.take(0, victim);
            self.put(2, victim);
        }
        self.put(0, line);
        served
    }
}

/// Returns the lines with a modified copy, and checks what the states promise.
fn modified(hierarchy: &Hierarchy) -> BTreeSet<u64> {
    let mut copies = BTreeMap::<u64, Vec<(usize, u64)>>::new();
    for (number, core) in hierarchy.cores.iter().enumerate() {
        let l2: BTreeMap<u64, u64> = core.l2.lines().map(|line| (line.number, line.flags)).collect();
        assert!(
            core.l1.lines().all(|line| l2.contains_key(&line.number)),
            "the second level contains the first"
        );
        let l1: BTreeMap<u64, u64> = core.l1.lines().map(|line| (line.number, line.flags)).collect();
        for (line, flags) in l2 {
            let flags = flags | l1.get(&line).unwrap_or(&0);
            copies.entry(line).or_default().push((number, flags));
        }
    }
    for (group, last_level) in hierarchy.last_levels.iter().enumerate() {
        for line in last_level.lines() {
            copies.entry(line.number).or_default().push((100 + group, line.flags));
        }
    }
    let mut modified = BTreeSet::new();
    for (line, copies) in copies {
        let is_inclusive = hierarchy.content == InclusionPolicy::Inclusive;
        let owners = copies.iter().filter(|(_, flags)| flags & EXCLUSIVE != 0).count();
        let others = copies.iter().filter(|(place, _)| !is_inclusive || *place < 100).count();
        assert!(owners == 0 || others == 1, "line {line} is exclusive, but here too: {copies:?}");
        let places =
            copies.iter().filter(|(place, flags)| flags & MODIFIED != 0 && (!is_inclusive || *place < 100));
        assert!(places.count() <= 1, "line {line} is modified in two places: {copies:?}");
        if copies.iter().any(|(_, flags)| flags & MODIFIED != 0) {
            modified.insert(line);
        }
    }
    modified
}

proptest! {
    /// One core against lists, whatever the geometry.
    #[test]
    fn one_core_is_three_lists(
        (bits, ways) in (prop::array::uniform3(0u32..3), prop::array::uniform3(1u32..4)),
        accesses in prop::collection::vec((0u64..64, any::<bool>()), 1..600),
    ) {
        let size = |level: usize| (u64::from(ways[level]) << bits[level], ways[level]);
        let mut hierarchy = machine(&small(size(0), size(1), (u64::from(ways[2]), ways[2]), InclusionPolicy::Victims), 1);
        let sets = [1 << bits[0], 1 << bits[1], 1];
        let mut lists = Lists { sizes: [0, 1, 2].map(|level| (sets[level], ways[level] as usize)), levels: Default::default() };
        for (line, is_store) in accesses {
            let kind = if is_store { Kind::Store } else { Kind::Load };
            prop_assert_eq!(hierarchy.access(&request(0, line, kind)).served, lists.access(line));
        }
    }

    /// Each store is written back once, or still modified in exactly one place.
    #[test]
    fn modified_lines_are_neither_lost_nor_written_twice(
        is_inclusive in any::<bool>(),
        cores in 1u32..5,
        has_prefetchers in any::<bool>(),
        accesses in prop::collection::vec((0u32..6, 0u64..48, 0u8..10), 1..600),
    ) {
        let content = if is_inclusive { InclusionPolicy::Inclusive } else { InclusionPolicy::Victims };
        let prefetchers = if has_prefetchers { Prefetchers::ON } else { Prefetchers::OFF };
        let mut hierarchy = machine(&Processor { prefetchers, ..tiny(content) }, cores);
        let mut stored = BTreeSet::new();
        let mut accessed = [[0; 2]; 6];
        let mut written = 0;
        for (thread, line, kind) in accesses {
            let kind = match kind { 0 => Kind::NontemporalStore, 1..4 => Kind::Store, _ => Kind::Load };
            if kind == Kind::Store {
                stored.insert(line);
            }
            let outcome = hierarchy.access(&request(thread, line, kind));
            accessed[thread as usize][usize::from(kind != Kind::Load)] += 1;
            written += hierarchy.write_backs().len() as u64;
            if kind == Kind::NontemporalStore {
                if outcome.served == ServedBy::Memory {
                    stored.remove(&line);
                }
            } else {
                for moved in hierarchy.write_backs() {
                    prop_assert!(stored.remove(&(moved.line / 64)), "{:#x} was written back unmodified", moved.line);
                }
            }
            prop_assert_eq!(&modified(&hierarchy), &stored);
        }
        let counters: Vec<CacheCounters> = (0..6).map(|thread| hierarchy.counters(thread)).collect();
        let counted = |c: &CacheCounters| [c.loads.iter().sum::<u64>(), c.stores.iter().sum()];
        prop_assert_eq!(counters.iter().map(counted).collect::<Vec<_>>(), accessed);
        prop_assert_eq!(counters.iter().map(|c| c.write_backs).sum::<u64>(), written);
    }
}

#[test]
fn code_is_fetched_once_while_it_fits_and_takes_room_in_the_second_level() {
    let mut hierarchy = machine(&"zen3:prefetchers=none".parse().unwrap(), 1);
    let lines = CODE.bytes / 64;
    let fetched = |hierarchy: &mut Hierarchy, line: u64| {
        hierarchy.fetch_code(0, line * 64).map(|found| (found.line, found.served))
    };
    assert!((0..lines).all(|line| fetched(&mut hierarchy, line) == Some((line * 64, ServedBy::Memory))));
    assert!((0..lines).all(|line| fetched(&mut hierarchy, line).is_none()));
    assert_eq!(load(&mut hierarchy, 0), ServedBy::L2, "the second level has it");
    // Another line of the same set takes the place of the oldest.
    assert_eq!(fetched(&mut hierarchy, lines).unwrap().1, ServedBy::Memory);
    assert_eq!(fetched(&mut hierarchy, 0), Some((0, ServedBy::L2)));
    let counted = hierarchy.counters(0);
    assert_eq!(counted.fetches, [0, 1, 0, 0, lines + 1]);
    assert_eq!(counted.accesses(), 1, "fetches are no accesses");
}
