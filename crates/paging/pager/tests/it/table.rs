//! Random tests of the table of tracked pages against a plain model of it.

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use unrack_pager::sys::PAGE;
use unrack_pager::table::{LEAF_BYTES, LEAF_PAGES, PageList, PageTable, RecordId, State};

#[derive(Debug, Clone)]
enum Op {
    Insert(usize),
    Remove(usize),
    Detach(usize),
    /// Frees the records that were detached.
    Release,
    Rename(usize, usize),
    Set(usize, usize),
    ToFront(usize),
}

/// Draws pages close together, on both sides of a leaf's end, and far away.
fn page() -> impl Strategy<Value = usize> {
    let near = (0usize..40).prop_map(|n| LEAF_BYTES - 20 * PAGE + n * PAGE);
    prop_oneof![4 => near, 1 => (0usize..4).prop_map(|n| 0x7000_0000_0000 + n * LEAF_BYTES * 8191)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => page().prop_map(Op::Insert),
        2 => page().prop_map(Op::Remove),
        1 => page().prop_map(Op::Detach),
        1 => Just(Op::Release),
        1 => (page(), page()).prop_map(|(from, to)| Op::Rename(from, to)),
        6 => (page(), 0usize..STATES.len()).prop_map(|(page, state)| Op::Set(page, state)),
        1 => page().prop_map(Op::ToFront),
    ]
}

const STATES: [State; 5] = [State::Active, State::Inactive, State::Stuck, State::Remote, State::Fetching];

#[derive(Default)]
struct Model {
    pages: BTreeMap<usize, (RecordId, State)>,
    active: VecDeque<RecordId>,
    inactive: VecDeque<RecordId>,
    stuck: VecDeque<RecordId>,
    detached: Vec<RecordId>,
}

impl Model {
    fn set(&mut self, page: usize, state: State) {
        let Some((id, held)) = self.pages.get_mut(&page) else { return };
        *held = state;
        let id = *id;
        self.unlist(id);
        match state {
            State::Active => self.active.push_back(id),
            State::Inactive => self.inactive.push_back(id),
            State::Stuck => self.stuck.push_back(id),
            State::Free | State::Remote | State::Fetching => {}
        }
    }

    fn unlist(&mut self, id: RecordId) {
        for list in [&mut self.active, &mut self.inactive, &mut self.stuck] {
            list.retain(|listed| *listed != id);
        }
    }

    fn check(&self, table: &PageTable) {
        for (queue, list) in [
            (PageList::Active, &self.active),
            (PageList::Inactive, &self.inactive),
            (PageList::Stuck, &self.stuck),
        ] {
            let mut walked = Vec::new();
            let mut next = table.oldest(queue);
            while let Some(id) = next {
                walked.push(id);
                next = table.after(id);
            }
            assert_eq!(walked, Vec::from(list.clone()), "{queue:?}");
            assert_eq!(table.len(queue), list.len());
        }
        let count = |wanted| self.pages.values().filter(|(_, state)| *state == wanted).count();
        assert_eq!(table.remote(), count(State::Remote));
        assert_eq!(table.fetching(), count(State::Fetching));
        let mut found = Vec::new();
        table.tracked_in(0, 1 << 47, &mut found);
        assert_eq!(found, self.pages.values().map(|(id, _)| *id).collect::<Vec<_>>());
        let mut away: Vec<RecordId> = table.away().collect();
        away.sort_unstable();
        let is_away = |state| matches!(state, State::Inactive | State::Remote | State::Fetching);
        let mut expected: Vec<RecordId> =
            self.pages.values().filter(|(_, state)| is_away(*state)).map(|(id, _)| *id).collect();
        expected.sort_unstable();
        assert_eq!(away, expected);
        for (page, (id, state)) in &self.pages {
            assert_eq!(table.find(*page), Some(*id));
            assert_eq!((table.get(*id).address, table.get(*id).state), (*page, *state));
            assert!(!self.detached.contains(id), "a record is used before it was released");
        }
    }
}

proptest! {
    #[test]
    fn the_table_is_what_a_plain_model_says(ops in prop::collection::vec(op(), 1..120)) {
        let (mut table, mut model) = (PageTable::new(), Model::default());
        for op in ops {
            match op {
                Op::Insert(page) if table.find(page).is_none() => {
                    let id = table.insert(page);
                    table.set_state(id, State::Active);
                    model.pages.insert(page, (id, State::Active));
                    model.active.push_back(id);
                }
                Op::Remove(page) | Op::Detach(page) => {
                    let Some(id) = table.find(page) else { continue };
                    model.pages.remove(&page);
                    model.unlist(id);
                    if let Op::Remove(_) = op {
                        table.remove(id);
                    } else {
                        table.detach(id);
                        model.detached.push(id);
                    }
                }
                Op::Release => model.detached.drain(..).for_each(|id| table.release(id)),
                Op::Rename(from, to) if table.find(to).is_none() => {
                    let Some(id) = table.find(from) else { continue };
                    table.rename(id, to);
                    let entry = model.pages.remove(&from).unwrap();
                    model.pages.insert(to, entry);
                }
                Op::Set(page, state) => {
                    let Some(id) = table.find(page) else { continue };
                    table.set_state(id, STATES[state]);
                    model.set(page, STATES[state]);
                }
                Op::ToFront(page) => {
                    let Some(id) = table.find(page) else { continue };
                    if table.get(id).state == State::Active {
                        table.to_front(id);
                        model.unlist(id);
                        model.active.push_front(id);
                    }
                }
                Op::Insert(_) | Op::Rename(..) => {}
            }
            model.check(&table);
        }
    }

    #[test]
    fn ranges_are_half_open_and_marks_keep_to_them(
        start in 0usize..1500, len in 1usize..700, probe in 0usize..2300,
    ) {
        let mut table = PageTable::new();
        let at = |page: usize| LEAF_BYTES + page * PAGE;
        table.set_registered(at(start), at(start + len), true);
        prop_assert_eq!(table.is_registered(at(probe)), (start..start + len).contains(&probe));
        table.set_registered(at(start), at(start + len), false);
        prop_assert!(!table.is_registered(at(probe)));
        let id = table.insert(at(probe));
        let mut found = Vec::new();
        table.tracked_in(at(start), at(start + len), &mut found);
        let expected = if (start..start + len).contains(&probe) { vec![id] } else { vec![] };
        prop_assert_eq!(found, expected);
    }

    /// Compares with a flag per page: what is registered moves with its mapping, and a scan looks at all that is not,
    /// or, everywhere, at all but what is registered in a leaf with dropped contents.
    #[test]
    fn what_is_registered_moves_and_scans_look_at_the_rest(
        marks in proptest::collection::vec((0usize..1200, 1usize..400), 1..6),
        (from, to, len) in (0usize..600, 1200usize..1500, 1usize..300),
        dropped in 0usize..1200,
    ) {
        let mut table = PageTable::new();
        let mut flags = vec![false; 2048];
        let at = |page: usize| LEAF_BYTES + page * PAGE;
        for (start, pages) in marks {
            table.set_registered(at(start), at(start + pages), true);
            flags[start..start + pages].fill(true);
        }
        table.move_registered(at(from), at(to), len * PAGE);
        let moved = flags[from..from + len].to_vec();
        flags[from..from + len].fill(false);
        flags[to..to + len].copy_from_slice(&moved);
        table.insert(at(dropped));
        table.set_removed(at(dropped), at(dropped + 1));
        let leaf = dropped / LEAF_PAGES;
        for (all, is_seen) in [(false, None), (true, Some(leaf))] {
            let found = table.unreported(at(0), at(2048), all);
            for (page, registered) in flags.iter().enumerate() {
                let is_there = found.iter().any(|(start, end)| (*start..*end).contains(&at(page)));
                let expected = !registered || all && is_seen != Some(page / LEAF_PAGES);
                prop_assert_eq!(is_there, expected, "page {}, everywhere: {}", page, all);
            }
        }
    }
}

/// A mapping of 64 TiB costs what was touched in it.
#[test]
fn a_sparse_mapping_costs_what_was_touched_in_it() {
    const TIB: usize = 1 << 40;
    let (start, end) = (TIB, 65 * TIB);
    let mut table = PageTable::new();
    table.set_registered(start, end, true);
    let pages: Vec<usize> = (0..64).map(|n| start + n * TIB + 12 * PAGE).collect();
    for page in &pages {
        table.insert(*page);
    }
    assert!(table.is_all_registered(start, end) && table.unreported(start, end, false).is_empty());
    assert_eq!(table.unreported(start, end, true), [(start, end)]);
    table.set_removed(start, end);
    let skipped: usize = pages.len() * LEAF_BYTES;
    let rest: usize = table.unreported(start, end, true).iter().map(|(start, end)| end - start).sum();
    assert_eq!(rest + skipped, end - start);
    let mut found = Vec::new();
    table.tracked_in(start, end, &mut found);
    assert_eq!(found.len(), pages.len());
    table.move_registered(start, start - TIB / 2, end - start);
    assert!(table.is_registered(start - TIB / 2) && !table.is_registered(end - PAGE));
}
