//! One `epoll` set: its sockets that are, or may be, carried by reference.

use super::slot::{Slot, is_valid};
use crate::bell::Bell;
use crate::kernel::fail;
use crate::{table, wait};
use libc::{EPOLL_CTL_DEL, EPOLLET, EPOLLONESHOT, c_int, epoll_event};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Searches of which one looks at all that there is to a socket; the others only see whether bytes came.
const THOROUGH: u32 = 64;

/// Set of sockets.
pub(super) struct Set {
    slots: Mutex<Slots>,
    carried: AtomicUsize,
    /// Number of events in the stash.
    stashed: AtomicUsize,
    /// Changes that may be news to a set in which this one is registered.
    changes: AtomicU64,
    /// Nanoseconds that a wait spins before it sleeps.
    pub(super) patience: AtomicU32,
    /// True if events of other descriptors took all of the room, the last time.
    their_turn: AtomicBool,
    /// True once a thread slept until this set is ready.
    watched: AtomicBool,
    /// Threads that are asleep in a wait, or about to be.
    sleepers: AtomicU32,
    /// Bell, once a wait was about to sleep; nothing if there is none to be had.
    pub(super) bell: OnceLock<Option<Bell>>,
}

struct Slots {
    all: Vec<Option<Slot>>,
    /// Slot at which the next search for events begins.
    next: usize,
    /// Finds of the last search: since when, where, events. Kept for its memory.
    ready: Vec<(u64, usize, u32)>,
    /// Moment of the last look at the kernel's events.
    looked: Instant,
    /// Searches so far.
    searches: u32,
    /// Events of other descriptors that were taken from the kernel to see whether the set is ready: see [`nested`](super::nested).
    stash: Vec<(c_int, epoll_event)>,
}

impl Set {
    pub(super) fn new() -> Set {
        let slots = Slots {
            all: Vec::new(),
            next: 0,
            ready: Vec::new(),
            looked: Instant::now(),
            searches: 0,
            stash: Vec::new(),
        };
        Set {
            slots: Mutex::new(slots),
            carried: AtomicUsize::new(0),
            stashed: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            patience: AtomicU32::new(wait::FIRST_PATIENCE),
            their_turn: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            bell: OnceLock::new(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of carried sockets.
    pub(super) fn carried(&self) -> usize {
        self.carried.load(Ordering::Acquire)
    }

    /// Returns true if a descriptor is registered here.
    pub(super) fn has(&self, fd: c_int) -> bool {
        self.slots().find(fd).is_some()
    }

    /// Changes a registration. `in_kernel` does it in the kernel: under a number of ours if it is given a slot.
    ///
    /// The kernel's registration of a carried socket is always the same, so it stays while the program registers the socket
    /// anew, or not at all for a time.
    pub(super) fn change(
        &self,
        operation: c_int,
        fd: c_int,
        wanted: epoll_event,
        in_kernel: impl FnOnce(Option<usize>) -> isize,
    ) -> isize {
        let mut slots = self.slots();
        let found = slots.find(fd);
        if let Some(Some(slot)) = found.map(|place| &mut slots.all[place])
            && slot.carried
        {
            let changed = slot.change(operation, wanted);
            self.changes.fetch_add(1, Ordering::Relaxed);
            self.count(&slots);
            return changed.map_or_else(fail, |()| 0);
        }
        let is_carried = super::get(fd).is_some() || table::get(fd).is_some_and(|entry| entry.link().is_some());
        if is_carried && !is_valid(operation, wanted.events) {
            return fail(libc::EINVAL);
        }
        let place = found.unwrap_or_else(|| slots.free());
        let done = in_kernel(is_carried.then_some(place));
        if done == 0 {
            let is_there = operation != EPOLL_CTL_DEL;
            slots.all[place] = is_there.then(|| Slot::new(fd, wanted, is_carried));
            self.count(&slots);
        }
        done
    }

    /// Has a socket that has an area now registered under a number of ours, if it is registered here.
    /// Returns whether it is now. `is_spent` says whether the kernel has told the event of a one-shot registration.
    pub(super) fn carry(
        &self,
        fd: c_int,
        is_spent: impl FnOnce() -> bool,
        in_kernel: impl FnOnce(usize) -> bool,
    ) -> bool {
        let mut slots = self.slots();
        let Some(place) = slots.find(fd) else { return false };
        let Some(slot) = slots.all[place].as_mut().filter(|slot| !slot.carried) else { return false };
        let disabled = slot.is(EPOLLONESHOT) && is_spent();
        let is_carried = in_kernel(place);
        if is_carried {
            *slot = Slot::new(fd, slot.registered(), true);
            slot.disabled = disabled;
        }
        self.count(&slots);
        is_carried
    }

    /// Calls a function with a carried socket and its slot: the one that is given, or any.
    pub(super) fn again(&self, fd: Option<c_int>, then: impl FnOnce(c_int, usize)) {
        let slots = self.slots();
        let is_it = |slot: &Slot| slot.carried && fd.is_none_or(|fd| fd == slot.fd);
        if let Some(place) = slots.all.iter().position(|slot| slot.as_ref().is_some_and(is_it))
            && let Some(slot) = &slots.all[place]
        {
            then(slot.fd, place);
        }
    }

    /// Removes a descriptor that is about to be closed; its registration lasts if there is a copy of it. Returns true if it
    /// has to be deleted in the kernel.
    pub(super) fn remove(&self, fd: c_int, copy: Option<c_int>) -> bool {
        let mut slots = self.slots();
        let mut is_left = false;
        for place in 0..slots.all.len() {
            let Some(slot) = slots.all[place].as_mut().filter(|slot| slot.fd == fd) else { continue };
            is_left |= slot.carried && slot.deleted;
            match copy {
                Some(copy) if slot.carried && !slot.deleted => {
                    (slot.fd, slot.is_orphan, slot.quiet) = (copy, true, None);
                }
                // The kernel has it, under a number that cannot be changed.
                Some(copy) if !slot.deleted => {
                    crate::close::leave(copy);
                    slots.all[place] = None;
                }
                _ => slots.all[place] = None,
            }
        }
        self.count(&slots);
        is_left
    }

    /// Forgets a descriptor, if it is registered here. Returns the program's registration, if it has one.
    pub(super) fn release(&self, fd: c_int) -> Option<Option<epoll_event>> {
        let mut slots = self.slots();
        let slot = slots.find(fd).and_then(|place| slots.all[place].take())?;
        self.count(&slots);
        // Of a one-shot registration after its event, the kernel keeps the flags.
        let mask = if slot.disabled { !0xffff } else { !0 };
        Some((!slot.deleted).then_some(epoll_event { events: slot.events & mask, u64: slot.data }))
    }

    fn count(&self, slots: &Slots) {
        let is_ours = |slot: &&Slot| slot.carried && !slot.deleted;
        self.carried.store(slots.all.iter().flatten().filter(is_ours).count(), Ordering::Release);
    }

    /// Notes an event that the kernel reported of a slot.
    pub(super) fn note(&self, place: usize, events: u32) {
        if let Some(Some(slot)) = self.slots().all.get_mut(place) {
            slot.note(events);
            if slot.is_told_by_kernel() {
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts the caller as asleep until what is returned is dropped.
    pub(super) fn fall_asleep(&self) -> Asleep<'_> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        Asleep(&self.sleepers)
    }

    /// Returns true if a thread is asleep in a wait: it has to learn of what other threads change, or take.
    pub(super) fn has_sleepers(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleepers.load(Ordering::SeqCst) > 0 || self.watched.load(Ordering::SeqCst)
    }

    /// Notes that threads sleep until this set is ready, in a set in which it is registered or in `poll`: from now on one may
    /// at any time.
    pub(super) fn is_watched(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Returns true if an event could be collected.
    pub(super) fn any(&self) -> bool {
        if self.carried() == 0 && self.stashed() == 0 {
            return false;
        }
        let mut slots = self.slots();
        !slots.stash.is_empty()
            || slots.all.iter_mut().flatten().any(|slot| !slot.is_quiet() && slot.events_now() != 0)
    }

    /// Collects events of carried sockets, and of others that were put aside, and returns how many.
    pub(super) fn collect(&self, room: &mut [epoll_event]) -> usize {
        if self.carried() == 0 && self.stashed() == 0 {
            return 0;
        }
        let mut slots = self.slots();
        let aside = slots.stash.len().min(room.len());
        for ((_, event), told) in slots.stash.drain(..aside).zip(room.iter_mut()) {
            *told = event;
        }
        self.stashed.fetch_sub(aside, Ordering::AcqRel);
        slots.search();
        aside + slots.hand_out(&mut room[aside..])
    }

    /// Returns the number of events that were put aside.
    pub(super) fn stashed(&self) -> usize {
        self.stashed.load(Ordering::Acquire)
    }

    /// Puts an event of another descriptor aside.
    pub(super) fn put_aside(&self, fd: c_int, event: epoll_event) {
        let mut slots = self.slots();
        match slots.stash.iter_mut().find(|(other, _)| *other == fd) {
            Some((_, old)) => old.events |= event.events,
            None => {
                slots.stash.push((fd, event));
                self.stashed.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets events of a descriptor that were put aside: it is registered anew, or no longer.
    pub(super) fn drop_aside(&self, fd: c_int) {
        let mut slots = self.slots();
        let before = slots.stash.len();
        slots.stash.retain(|(other, _)| *other != fd);
        self.stashed.fetch_sub(before - slots.stash.len(), Ordering::AcqRel);
    }

    /// Returns a number that changes with all that may be news to a set in which this one is registered.
    pub(super) fn stamp(&self) -> u64 {
        let slots = self.slots();
        let sum = slots.all.iter().flatten().map(Slot::stamp).fold(0, u64::wrapping_add);
        sum.wrapping_add(self.changes.load(Ordering::Relaxed) << 32)
    }

    /// Asks to be woken for all sockets.
    pub(super) fn arm(&self, bell: Option<Bell>) {
        for slot in self.slots().all.iter().flatten() {
            slot.arm(bell);
        }
    }

    /// Asks to be woken for one socket, and returns true if there is something to tell of it.
    pub(super) fn arm_one(&self, fd: c_int, bell: Option<Bell>) -> bool {
        let mut slots = self.slots();
        let Some(place) = slots.find(fd) else { return false };
        slots.all[place].as_mut().is_some_and(|slot| {
            slot.arm(bell);
            fence(Ordering::SeqCst);
            slot.events_now() != 0
        })
    }

    /// Returns true if carried sockets come first, since they had no room the last time.
    pub(super) fn is_their_turn(&self) -> bool {
        self.their_turn.swap(false, Ordering::Relaxed)
    }

    /// Notes whether carried sockets had no room.
    pub(super) fn gives_turn(&self, had_no_room: bool) {
        self.their_turn.store(had_no_room, Ordering::Relaxed);
    }

    /// Returns true if the kernel's events were not looked at for a time; they are looked at now.
    pub(super) fn owes_kernel_a_look(&self, every: Duration) -> bool {
        let (now, mut slots) = (Instant::now(), self.slots());
        let owes = now.saturating_duration_since(slots.looked) >= every;
        if owes {
            slots.looked = now;
        }
        owes
    }
}

/// Returns true if the kernel has told the event of a descriptor's one-shot registration, of which only flags are left then.
pub(super) fn is_spent(set_fd: c_int, fd: c_int) -> bool {
    let flags = (EPOLLONESHOT | EPOLLET) as u32 | PRIVATE;
    super::nested::registered(set_fd).iter().any(|one| one.fd == fd && one.mask & !flags == 0)
}

/// Flags of a registration that are no events: `EPOLLWAKEUP` and `EPOLLEXCLUSIVE`.
const PRIVATE: u32 = 1 << 29 | 1 << 28;

/// A thread that is asleep in a wait.
pub(super) struct Asleep<'a>(&'a AtomicU32);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slots {
    fn find(&self, fd: c_int) -> Option<usize> {
        self.all.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.fd == fd && !slot.is_orphan))
    }

    /// Looks for events of carried sockets.
    fn search(&mut self) {
        let count = self.all.len();
        self.ready.clear();
        self.searches = self.searches.wrapping_add(1);
        let is_thorough = self.searches.is_multiple_of(THOROUGH);
        for place in (0..count).map(|i| (self.next + i) % count) {
            if let Some(slot) = &mut self.all[place]
                && (is_thorough || !slot.is_quiet())
                && let events @ 1.. = slot.events_now()
            {
                self.ready.push((slot.since(), place, events));
            }
        }
    }

    /// Tells the program what was found, as much as there is room for, and returns how much.
    fn hand_out(&mut self, room: &mut [epoll_event]) -> usize {
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

    fn free(&mut self) -> usize {
        self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        })
    }
}
