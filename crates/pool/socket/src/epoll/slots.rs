//! Slots of a set: which descriptors are registered in it, which have events, and in which order these are told.

use super::slot::Slot;
use libc::{c_int, epoll_event};
use std::time::Instant;

/// Searches of which one looks at all that there is to a socket; the others only see whether bytes came.
const THOROUGH: u32 = 64;

/// Registered descriptors of a set.
pub(super) struct Slots {
    pub(super) all: Vec<Option<Slot>>,
    /// Slot at which the next search for events begins.
    next: usize,
    /// Finds of the last search: since when, where, events. Kept for its memory.
    ready: Vec<(u64, usize, u32)>,
    /// Moment of the last look at the kernel's events.
    pub(super) looked: Instant,
    /// Searches so far.
    searches: u32,
    /// Events of other descriptors that were taken from the kernel to see whether the set is ready: see [`nested`](super::nested).
    pub(super) stash: Vec<(c_int, epoll_event)>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots {
            all: Vec::new(),
            next: 0,
            ready: Vec::new(),
            looked: Instant::now(),
            searches: 0,
            stash: Vec::new(),
        }
    }

    /// Returns the place of a descriptor that is registered.
    pub(super) fn find(&self, fd: c_int) -> Option<usize> {
        self.all.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.fd == fd && !slot.is_orphan))
    }

    /// Returns a free place.
    pub(super) fn free(&mut self) -> usize {
        self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        })
    }

    /// Looks for events of carried sockets.
    pub(super) fn search(&mut self, events_now: impl Fn(&mut Slot) -> u32) {
        let count = self.all.len();
        self.ready.clear();
        self.searches = self.searches.wrapping_add(1);
        let is_thorough = self.searches.is_multiple_of(THOROUGH);
        for place in (0..count).map(|i| (self.next + i) % count) {
            if let Some(slot) = &mut self.all[place]
                && (is_thorough || !slot.is_quiet())
                && let events @ 1.. = events_now(slot)
            {
                self.ready.push((slot.since(), place, events));
            }
        }
    }

    /// Tells the program what was found, as much as there is room for, and returns how much.
    pub(super) fn hand_out(&mut self, room: &mut [epoll_event]) -> usize {
        // In the order in which it came, as the kernel does: a program may have sent on one connection and then, having
        // waited for nothing, on another. Where not all fit, each has its turn.
        if self.ready.len() <= room.len() {
            self.ready.sort_by_key(|&(since, ..)| since);
        }
        let found = self.ready.len().min(room.len());
        for (&(_, place, events), told) in self.ready.iter().zip(room) {
            if let Some(slot) = &mut self.all[place] {
                slot.tell();
                *told = epoll_event { events, u64: slot.data };
                self.next = place + 1;
            }
        }
        found
    }
}
