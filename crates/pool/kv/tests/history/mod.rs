//! History of the operations on one key, and a check for linearizability: whether one order explains all results
//! (Herlihy and Wing, "Linearizability", TOPLAS 1990; the search is Wing and Gong's).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operation with its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Done {
    Put(u64),
    Get(Option<u64>),
    /// True if there was a value.
    Delete(bool),
    /// Value that was read, and the one written in the same step.
    Swap(Option<u64>, u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub begun: u64,
    pub ended: u64,
    pub done: Done,
}

#[derive(Default)]
pub(crate) struct History {
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl History {
    pub(crate) fn record(&self, act: impl FnOnce() -> Done) {
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let done = act();
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        self.events.lock().unwrap().push(Event { begun, ended, done });
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }
}

/// Returns the value after an event. `None` if the event's result is impossible with this value before it.
fn after(value: Option<u64>, done: Done) -> Option<Option<u64>> {
    match done {
        Done::Put(new) => Some(Some(new)),
        Done::Get(seen) => (seen == value).then_some(value),
        Done::Delete(any) => (any == value.is_some()).then_some(None),
        Done::Swap(seen, new) => (seen == value).then_some(Some(new)),
    }
}

/// True if an order of the events, starting without a value, agrees with their times and results.
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    fn search(
        events: &[Event],
        taken: u32,
        value: Option<u64>,
        seen: &mut HashSet<(u32, Option<u64>)>,
    ) -> bool {
        if taken.count_ones() as usize == events.len() {
            return true;
        }
        if !seen.insert((taken, value)) {
            return false;
        }
        let left = || (0..events.len()).filter(|at| taken & (1 << at) == 0);
        // An event that began after another ended cannot come before it.
        let first_end = left().map(|at| events[at].ended).min().expect("some are left");
        left().filter(|&at| events[at].begun < first_end).any(|at| {
            after(value, events[at].done).is_some_and(|value| search(events, taken | (1 << at), value, seen))
        })
    }
    search(events, 0, None, &mut HashSet::new())
}
