//! Slots of an `epoll` set: which descriptors are registered in it, which of them have events, and in which order the events are reported.

use super::slot::Slot;
use libc::{c_int, epoll_event};
use std::time::Instant;

/// One search among this many checks the complete state of each socket; the other searches only check whether bytes arrived.
const THOROUGH: u32 = 64;

/// Registered descriptors of a set.
pub(super) struct RegistrationSlots {
    pub(super) all: Vec<Option<Slot>>,
    /// Slot at which the next search for events begins.
    next: usize,
    /// Results of the last search: since when, in which slot, which events. It is a field in order to reuse its memory.
    ready: Vec<(u64, usize, u32)>,
    /// Time at which the kernel's events were last checked.
    pub(super) looked: Instant,
    /// Number of searches so far.
    searches: u32,
    /// Events of descriptors other than carried sockets that are kept for the program. They were taken from the kernel to determine whether
    /// the set is ready: see [`nested`](super::nested).
    pub(super) stash: Vec<(c_int, epoll_event)>,
}

impl RegistrationSlots {
    pub(super) fn new() -> RegistrationSlots {
        RegistrationSlots {
            all: Vec::new(),
            next: 0,
            ready: Vec::new(),
            looked: Instant::now(),
            searches: 0,
            stash: Vec::new(),
        }
    }

    /// Returns the slot number of a registered descriptor.
    pub(super) fn find(&self, fd: c_int) -> Option<usize> {
        self.all.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.fd == fd && !slot.is_orphan))
    }

    /// Returns the number of a free slot.
    pub(super) fn free(&mut self) -> usize {
        self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        })
    }

    /// Searches for events of carried sockets.
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

    /// Reports the events of the last search to the program, as far as there is room, and returns their number.
    pub(super) fn hand_out(&mut self, room: &mut [epoll_event]) -> usize {
        // Report sockets in the order in which their bytes arrived, as the kernel does, because a program may have sent on one connection
        // and right afterwards on another. If not all of them fit, take turns instead.
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
