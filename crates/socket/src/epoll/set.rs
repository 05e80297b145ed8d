//! One `epoll` set: its sockets that are, or may be, carried by reference.

use crate::area::{Look, Shared};
use crate::bell::{self, Bell};
use crate::kernel::fail;
use crate::ready::{self, READS, WRITES};
use crate::table::{self, Entry, Link};
use crate::wait::{self, Woken};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT,
    EPOLLOUT, EPOLLPRI, EPOLLRDHUP, c_int, c_short, epoll_event, pollfd,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Events of a connection that is over.
const OVER: u32 = (EPOLLERR | EPOLLHUP) as u32;

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

/// A registered socket, or a registered set.
pub(super) struct Slot {
    pub(super) fd: c_int,
    /// The program's own registration.
    events: u32,
    data: u64,
    /// True if it is registered in the kernel under a number of ours.
    carried: bool,
    /// True if the descriptor was closed under which it was registered: as in the kernel, the registration lasts while a copy
    /// is open, which `fd` is then.
    is_orphan: bool,
    /// True if the program has deleted it; the kernel still has it.
    deleted: bool,
    /// True after the event of a one-shot registration.
    disabled: bool,
    /// Kernel's events since the program was last told.
    reported: u32,
    /// True if `reported` has something that the program was not told of.
    changed: bool,
    /// True if the kernel reported a registered set since the last look at it.
    edge: bool,
    /// What the kernel reported since the program was last told.
    news: u32,
    /// Counts of the last look, taken before it looked at what holds.
    seen: Seen,
    /// End of the bytes of which the program was told.
    told_tail: u64,
    /// True if the ring carried what the program was told of.
    told_ring: bool,
    /// Calls with `MSG_ZEROCOPY` when the program was last told of a report.
    told_zerocopy: u32,
    /// Times that the ring was full when the program was last told of room; [`u32::MAX`] before.
    told_full: u32,
    /// Set while nothing but bytes in the ring can change what there is to tell.
    quiet: Option<Quiet>,
}

/// Counts that tell news from what the program was told of.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// End of the bytes.
    tail: u64,
    /// Times that the ring was full.
    full: u32,
    /// Calls with `MSG_ZEROCOPY`.
    zerocopy: u32,
    /// True if the next byte to receive comes by the ring.
    ring: bool,
    /// Events that hold.
    now: u32,
}

/// A ring that was empty: a set of hundreds of sockets looks at one word of each.
struct Quiet {
    /// The direction that is received, which stays mapped for as long as the socket is registered here: a descriptor that is
    /// closed is taken out of its sets first.
    inward: *const Shared,
    /// End of the bytes when it was empty.
    tail: u64,
}

// SAFETY: it points to atomic words in shared memory.
unsafe impl Send for Quiet {}

impl Quiet {
    fn inward(&self) -> &Shared {
        // SAFETY: mapped, as the field says.
        unsafe { &*self.inward }
    }

    fn lasts(&self) -> bool {
        self.inward().writer.tail.load(Ordering::Acquire) == self.tail
    }

    /// Returns true if whoever sends wakes this end.
    fn is_armed(&self) -> bool {
        self.inward().signals.want_data.load(Ordering::SeqCst) != 0 && self.lasts()
    }
}

/// Returns the kernel's registration of a carried socket.
pub(super) fn registration(number: u64) -> epoll_event {
    epoll_event { events: (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET) as u32, u64: number }
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
            *slot = Slot { disabled, ..Slot::new(fd, slot.registered(), true) };
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

/// Returns true if the kernel takes a registration of a socket: `EPOLLEXCLUSIVE` goes with a few flags only, and cannot be set
/// later (`epoll_ctl(2)`).
fn is_valid(operation: c_int, events: u32) -> bool {
    let with = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLET | EPOLLEXCLUSIVE | libc::EPOLLWAKEUP;
    let is_exclusive = events & EPOLLEXCLUSIVE as u32 != 0;
    !is_exclusive || operation == EPOLL_CTL_ADD && events & !(with as u32) == 0
}

impl Slot {
    fn new(fd: c_int, wanted: epoll_event, carried: bool) -> Slot {
        Slot {
            fd,
            events: wanted.events,
            data: wanted.u64,
            carried,
            is_orphan: false,
            deleted: false,
            disabled: false,
            // Of a carried socket, whatever the kernel carries may be ready already: it is asked.
            reported: if carried { (EPOLLIN | EPOLLOUT) as u32 } else { 0 },
            changed: carried,
            edge: false,
            news: 0,
            seen: Seen::default(),
            told_tail: u64::MAX,
            told_ring: false,
            told_zerocopy: 0,
            told_full: u32::MAX,
            quiet: None,
        }
    }

    /// Returns the program's registration.
    fn registered(&self) -> epoll_event {
        epoll_event { events: self.events, u64: self.data }
    }

    /// Changes the program's registration of a carried socket.
    fn change(&mut self, operation: c_int, wanted: epoll_event) -> Result<(), c_int> {
        match operation {
            EPOLL_CTL_ADD | EPOLL_CTL_MOD if !is_valid(operation, wanted.events) => Err(libc::EINVAL),
            EPOLL_CTL_MOD if !self.deleted && self.is(EPOLLEXCLUSIVE) => Err(libc::EINVAL),
            EPOLL_CTL_ADD | EPOLL_CTL_MOD | EPOLL_CTL_DEL => self.change_valid(operation, wanted),
            _ => Err(libc::EINVAL),
        }
    }

    fn change_valid(&mut self, operation: c_int, wanted: epoll_event) -> Result<(), c_int> {
        match operation {
            EPOLL_CTL_ADD if !self.deleted => Err(libc::EEXIST),
            EPOLL_CTL_MOD | EPOLL_CTL_DEL if self.deleted => Err(libc::ENOENT),
            EPOLL_CTL_DEL => {
                self.deleted = true;
                Ok(())
            }
            _ => {
                let new = Slot::new(self.fd, wanted, true);
                *self = Slot { reported: self.reported | new.reported, ..new };
                Ok(())
            }
        }
    }

    fn is(&self, flag: c_int) -> bool {
        self.events & flag as u32 != 0
    }

    /// Returns the events to tell now, zero if none.
    fn events_now(&mut self) -> u32 {
        if self.disabled || self.deleted {
            return 0;
        }
        if !self.carried {
            return 0;
        }
        if let Some(inner) = super::get(self.fd) {
            return self.events_of_set(inner);
        }
        let Some(entry) = table::get(self.fd) else { return 0 };
        let Some(link) = entry.link() else { return 0 };
        // Before what holds: what comes in between is told twice, and not never.
        self.seen = Seen {
            tail: link.inward.writer().tail.load(Ordering::Acquire),
            full: entry.was_full.load(Ordering::Relaxed),
            zerocopy: entry.description().zerocopy.by_ring(),
            ring: ready::carries_in(&entry, &link),
            now: 0,
        };
        let now = self.level(&entry, &link);
        self.seen.now = now;
        self.quiet = (now == 0).then(|| self.to_quiet(&entry, &link)).flatten();
        if now == 0 || self.is(EPOLLET) && !self.is_news(&entry, &link) { 0 } else { now }
    }

    /// Returns the events to tell now of a registered set.
    fn events_of_set(&mut self, inner: &Set) -> u32 {
        self.seen = Seen { tail: inner.stamp(), ..Seen::default() };
        let has_others = self.reported != 0 && super::nested::take_in(self.fd, inner);
        if self.reported != 0 && !has_others {
            self.reported = 0;
        }
        self.changed |= std::mem::take(&mut self.edge) && has_others;
        let is_ready = self.is(EPOLLIN) && (has_others || inner.any());
        let is_news = !self.is(EPOLLET) || self.changed || self.seen.tail != self.told_tail;
        if is_ready && is_news { EPOLLIN as u32 } else { 0 }
    }

    /// Notes an event that the kernel reported.
    fn note(&mut self, events: u32) {
        self.reported |= events;
        self.quiet = None;
        self.edge = true;
        self.news |= events;
    }

    /// Returns true if what the kernel reported is more than a wake byte.
    fn is_told_by_kernel(&self) -> bool {
        let is_ring = table::get(self.fd)
            .is_some_and(|entry| entry.link().is_some_and(|link| ready::carries_in(&entry, &link)));
        !is_ring || self.reported & (OVER | EPOLLRDHUP as u32) != 0
    }

    /// Returns a number that changes with all that may be news: see [`Set::stamp`].
    fn stamp(&self) -> u64 {
        if !self.carried || self.deleted || self.disabled {
            return 0;
        }
        if let Some(inner) = super::get(self.fd) {
            return inner.stamp();
        }
        let Some(entry) = table::get(self.fd) else { return 0 };
        let Some(link) = entry.link() else { return 0 };
        let has_room = self.is(EPOLLOUT) && link.out.is_writable();
        link.inward.writer().tail.load(Ordering::Acquire).wrapping_mul(2).wrapping_add(has_room.into())
    }

    /// Returns true if nothing can have changed since the last look.
    fn is_quiet(&self) -> bool {
        self.quiet.as_ref().is_some_and(Quiet::lasts)
    }

    /// Returns what to look at from now on, if that is only whether bytes come.
    fn to_quiet(&self, entry: &Entry, link: &Link<'_>) -> Option<Quiet> {
        let is_more = self.is(EPOLLOUT) || self.reported & (OVER | EPOLLRDHUP as u32) != 0;
        let tail = link.inward.writer().tail.load(Ordering::Acquire);
        let is_empty = ready::carries_in(entry, link) && link.inward.look() == Look::Empty;
        (is_empty && !is_more && !entry.description().zerocopy.is_on())
            .then(|| Quiet { inward: link.inward.shared(), tail })
    }

    /// Returns the moment since which there are bytes to receive in the ring, 0 if there are none.
    fn since(&self) -> u64 {
        let Some(entry) = table::get(self.fd) else { return 0 };
        let Some(link) = entry.link() else { return 0 };
        if link.inward.look() == Look::Empty { 0 } else { link.inward.since() }
    }

    /// Returns the events that hold.
    fn level(&mut self, entry: &Entry, link: &Link<'_>) -> u32 {
        let asked = (self.events & 0xffff) as c_short;
        if self.reported & OVER != 0 {
            // A call may have reported the error meanwhile.
            self.reported = self.reported & !OVER | self.ask(0) & OVER;
        }
        if self.reported & OVER != 0 {
            let told = (EPOLLIN | EPOLLOUT | EPOLLRDHUP) as u32;
            let reset = ready::reset(entry, link, self.reported as c_short) as u16 as u32;
            return self.reported & OVER | reset | self.events & told;
        }
        let mut now = self.reported & self.events & EPOLLRDHUP as u32;
        if self.takes_wakes(entry, link) {
            now |= self.events & (EPOLLIN | EPOLLOUT) as u32;
        }
        // After wake bytes were taken in: what they announce is seen here.
        let ready = ready::of(entry, link, self.fd, asked);
        now |= ready.now as u16 as u32;
        // What the kernel carries holds for as long as it says so.
        let ask = ready.kernel & (READS | WRITES | libc::POLLPRI);
        if ask != 0 && self.reported & ask as u16 as u32 != 0 {
            let holds = self.ask(ready.kernel);
            self.reported &= !(ask as u16 as u32) | holds;
            now |= holds & (self.events | OVER);
        }
        now
    }

    /// Returns what the kernel says now.
    fn ask(&self, events: c_short) -> u32 {
        let mut one = [pollfd { fd: self.fd, events, revents: 0 }];
        // SAFETY: no mask.
        unsafe { crate::kernel::poll(&mut one, Some(Duration::ZERO), std::ptr::null()) };
        one[0].revents as u16 as u32
    }

    /// Takes in wake bytes, if that is due. Returns true if the connection has ended, and all that it carried was received.
    fn takes_wakes(&mut self, entry: &Entry, link: &Link<'_>) -> bool {
        let is_empty = ready::carries_in(entry, link) && link.inward.look() == Look::Empty;
        if !is_empty || self.reported & (EPOLLIN | EPOLLRDHUP) as u32 == 0 {
            return false;
        }
        if self.reported & EPOLLRDHUP as u32 != 0 {
            return matches!(wait::look_at_kernel(link, self.fd), Some(Woken::End));
        }
        self.reported &= !(EPOLLIN as u32);
        // Left in the kernel they would not be acknowledged for 40 ms, and the other end can send no more than a few.
        wait::drain(link, self.fd);
        false
    }

    /// Returns true if something is ready of which the program was not told.
    fn is_news(&self, entry: &Entry, link: &Link<'_>) -> bool {
        let tail = link.inward.writer().tail.load(Ordering::Acquire);
        // A program may have taken what the kernel had for all that there is, though the ring has more.
        let is_other = ready::carries_in(entry, link) && !self.told_ring;
        let has_bytes =
            matches!(link.inward.look(), Look::Bytes(_)) && (tail != self.told_tail || is_other);
        // Also if the kernel carries meanwhile, whose buffers were never full.
        let full = entry.was_full.load(Ordering::Relaxed);
        let has_room = self.seen.now & EPOLLOUT as u32 != 0 && full != self.told_full;
        let calls = &entry.description().zerocopy;
        let has_report = calls.has_report() && calls.by_ring() != self.told_zerocopy;
        has_bytes || has_room || has_report || self.changed || self.news & !self.wakes(entry, link) != 0
    }

    /// Returns the kernel's events that are no news: it reports them when it wakes for a ring.
    fn wakes(&self, entry: &Entry, link: &Link<'_>) -> u32 {
        let reads = if ready::carries_in(entry, link) { EPOLLIN } else { 0 };
        let writes = if link.out.is_ring() { EPOLLOUT } else { 0 };
        (reads | writes) as u32
    }

    /// Notes that the program is told of all that holds.
    fn tell(&mut self) {
        (self.changed, self.news) = (false, 0);
        self.disabled = self.is(EPOLLONESHOT);
        (self.told_tail, self.told_zerocopy) = (self.seen.tail, self.seen.zerocopy);
        self.told_ring = self.seen.ring;
        if self.seen.now & EPOLLOUT as u32 != 0 {
            self.told_full = self.seen.full;
        }
    }

    fn arm(&self, bell: Option<Bell>) {
        if self.carried && super::get(self.fd).is_some() {
            return super::arm(self.fd);
        }
        if !self.carried || self.disabled || self.deleted || self.quiet.as_ref().is_some_and(Quiet::is_armed) {
            return;
        }
        if let Some(entry) = table::get(self.fd)
            && let Some(link) = entry.link()
        {
            bell::state(link.this_end(), bell, true, false);
            let asked = (self.events & 0xffff) as c_short;
            ready::arm(&entry, &link, &ready::of(&entry, &link, self.fd, asked), asked);
            if asked & READS != 0 && ready::carries_in(&entry, &link) {
                // Bytes that the program was told of may still be there: further ones are news to an edge-triggered set, and
                // another thread may take those that are there before a thread that sleeps here is woken.
                link.inward.request_data();
            }
        }
    }
}
