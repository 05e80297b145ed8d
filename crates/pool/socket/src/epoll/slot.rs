//! One socket of a set, or one set: its registration, what holds, and what the program was told.

use crate::area::{Look, Shared};
use crate::carried::{CarriedEnd, Woken};
use crate::kernel;
use crate::ready::{self, READS, Ready, WRITES};
use crate::table;
use crate::wakeup::{self, Wakeup};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN,
    EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, c_int, c_short, epoll_event,
};
use std::sync::atomic::Ordering;

/// Events of a connection that is over.
const OVER: u32 = (EPOLLERR | EPOLLHUP) as u32;

/// A registered socket, or a registered set.
pub(super) struct Slot {
    pub(super) fd: c_int,
    /// The program's own registration.
    pub(super) events: u32,
    pub(super) data: u64,
    /// True if it is registered in the kernel under a number of ours.
    pub(super) carried: bool,
    /// True if the descriptor was closed under which it was registered: as in the kernel, the registration lasts while a copy
    /// is open, which `fd` is then.
    pub(super) is_orphan: bool,
    /// True if the program has deleted it; the kernel still has it.
    pub(super) deleted: bool,
    /// True after the event of a one-shot registration.
    pub(super) disabled: bool,
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

    /// Returns true if the other end wakes this one when it sends.
    fn is_armed(&self) -> bool {
        self.inward().signals.want_data.load(Ordering::SeqCst) != 0 && self.lasts()
    }
}

/// Returns true if the kernel takes a registration of a socket: `EPOLLEXCLUSIVE` goes with a few flags only, and cannot be set
/// later (`epoll_ctl(2)`).
pub(super) fn is_valid(operation: c_int, events: u32) -> bool {
    let with = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLET | EPOLLEXCLUSIVE | libc::EPOLLWAKEUP;
    let is_exclusive = events & EPOLLEXCLUSIVE as u32 != 0;
    !is_exclusive || operation == EPOLL_CTL_ADD && events & !(with as u32) == 0
}

impl Slot {
    pub(super) fn new(fd: c_int, wanted: epoll_event, carried: bool) -> Slot {
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
    pub(super) fn registered(&self) -> epoll_event {
        epoll_event { events: self.events, u64: self.data }
    }

    /// Changes the program's registration of a carried socket.
    pub(super) fn change(&mut self, operation: c_int, wanted: epoll_event) -> Result<(), c_int> {
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

    pub(super) fn is(&self, flag: c_int) -> bool {
        self.events & flag as u32 != 0
    }

    /// Returns true if this library tells of the registration's events, and there may be some.
    pub(super) fn is_told(&self) -> bool {
        self.carried && !self.deleted && !self.disabled
    }

    /// Has another descriptor of the same socket, because the one under which it was registered is about to be closed.
    pub(super) fn orphan(&mut self, copy: c_int) {
        (self.fd, self.is_orphan, self.quiet) = (copy, true, None);
    }

    /// Returns the events to tell now of a registered socket, zero if none.
    pub(super) fn events_of_socket(&mut self) -> u32 {
        let Some(socket) = table::get(self.fd) else { return 0 };
        let Some(carried) = socket.carried() else { return 0 };
        // Before what holds: what comes in between is told twice, and not never.
        self.seen = Seen {
            tail: carried.inward.tail(),
            full: socket.was_full.load(Ordering::Relaxed),
            zerocopy: socket.description().zerocopy.by_ring(),
            ring: carried.receives_by_ring(),
            now: 0,
        };
        let now = self.level(&carried);
        self.seen.now = now;
        self.quiet = (now == 0).then(|| self.to_quiet(&carried)).flatten();
        if now == 0 || self.is(EPOLLET) && !self.is_news(&carried) { 0 } else { now }
    }

    /// Returns the events to tell now of a registered set. `stamp` is that of the set, `take_in` takes the kernel's events out of
    /// it and returns whether there are some of other descriptors than carried sockets, and `any` returns whether carried ones
    /// have events.
    pub(super) fn events_of_set(
        &mut self,
        stamp: u64,
        take_in: impl FnOnce() -> bool,
        any: impl FnOnce() -> bool,
    ) -> u32 {
        self.seen = Seen { tail: stamp, ..Seen::default() };
        let has_others = self.reported != 0 && take_in();
        if self.reported != 0 && !has_others {
            self.reported = 0;
        }
        self.changed |= std::mem::take(&mut self.edge) && has_others;
        let is_ready = self.is(EPOLLIN) && (has_others || any());
        let is_news = !self.is(EPOLLET) || self.changed || self.seen.tail != self.told_tail;
        if is_ready && is_news { EPOLLIN as u32 } else { 0 }
    }

    /// Notes an event that the kernel reported.
    pub(super) fn note(&mut self, events: u32) {
        self.reported |= events;
        self.quiet = None;
        self.edge = true;
        self.news |= events;
    }

    /// Returns true if what the kernel reported is more than a wake byte.
    pub(super) fn is_told_by_kernel(&self) -> bool {
        let is_ring = table::get(self.fd).is_some_and(|socket| {
            let carried = socket.carried();
            carried.is_some_and(|carried| carried.receives_by_ring())
        });
        !is_ring || self.reported & (OVER | EPOLLRDHUP as u32) != 0
    }

    /// Returns a number that changes with all that may be news of a registered socket.
    pub(super) fn stamp_of_socket(&self) -> u64 {
        let Some(socket) = table::get(self.fd) else { return 0 };
        let Some(carried) = socket.carried() else { return 0 };
        let has_room = self.is(EPOLLOUT) && carried.out.is_writable();
        carried.inward.tail().wrapping_mul(2).wrapping_add(has_room.into())
    }

    /// Returns true if nothing can have changed since the last look.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.as_ref().is_some_and(Quiet::lasts)
    }

    /// Returns what to look at from now on, if that is only whether bytes come.
    fn to_quiet(&self, carried: &CarriedEnd<'_>) -> Option<Quiet> {
        let is_more = self.is(EPOLLOUT) || self.reported & (OVER | EPOLLRDHUP as u32) != 0;
        let tail = carried.inward.writer().tail.load(Ordering::Acquire);
        let is_empty = carried.receives_by_ring() && carried.inward.look() == Look::Empty;
        (is_empty && !is_more && !carried.entry.description().zerocopy.is_on())
            .then(|| Quiet { inward: carried.inward.shared(), tail })
    }

    /// Returns the moment since which there are bytes to receive in the ring, 0 if there are none.
    pub(super) fn since(&self) -> u64 {
        let Some(socket) = table::get(self.fd) else { return 0 };
        let Some(carried) = socket.carried() else { return 0 };
        if carried.inward.look() == Look::Empty { 0 } else { carried.inward.since() }
    }

    /// Returns the events that hold.
    fn level(&mut self, carried: &CarriedEnd<'_>) -> u32 {
        let asked = (self.events & 0xffff) as c_short;
        if self.reported & OVER != 0 {
            // A call may have reported the error meanwhile.
            self.reported = self.reported & !OVER | self.ask(0) & OVER;
        }
        if self.reported & OVER != 0 {
            let told = (EPOLLIN | EPOLLOUT | EPOLLRDHUP) as u32;
            let reset = ready::reset(carried, self.reported as c_short) as u16 as u32;
            return self.reported & OVER | reset | self.events & told;
        }
        let mut now = self.reported & self.events & EPOLLRDHUP as u32;
        if self.takes_wakes(carried) {
            now |= self.events & (EPOLLIN | EPOLLOUT) as u32;
        }
        // After wake bytes were taken in: what they announce is seen here.
        let ready = Ready::of(carried, asked);
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
    pub(super) fn ask(&self, events: c_short) -> u32 {
        kernel::events(self.fd, events) as u16 as u32
    }

    /// Takes in wake bytes, if that is due. Returns true if the connection has ended, and all that it carried was received.
    fn takes_wakes(&mut self, carried: &CarriedEnd<'_>) -> bool {
        let is_empty = carried.receives_by_ring() && carried.inward.look() == Look::Empty;
        if !is_empty || self.reported & (EPOLLIN | EPOLLRDHUP) as u32 == 0 {
            return false;
        }
        if self.reported & EPOLLRDHUP as u32 != 0 {
            return matches!(carried.look_at_kernel(), Some(Woken::End));
        }
        self.reported &= !(EPOLLIN as u32);
        // Left in the kernel they would not be acknowledged for 40 ms, and the other end can send no more than a few.
        carried.drain();
        false
    }

    /// Returns true if something is ready of which the program was not told.
    fn is_news(&self, carried: &CarriedEnd<'_>) -> bool {
        let tail = carried.inward.tail();
        // A program may have taken what the kernel had for all that there is, though the ring has more.
        let is_other = carried.receives_by_ring() && !self.told_ring;
        let has_bytes =
            matches!(carried.inward.look(), Look::Bytes(_)) && (tail != self.told_tail || is_other);
        // Also if the kernel carries meanwhile, whose buffers were never full.
        let full = carried.entry.was_full.load(Ordering::Relaxed);
        let has_room = self.seen.now & EPOLLOUT as u32 != 0 && full != self.told_full;
        let calls = &carried.entry.description().zerocopy;
        let has_report = calls.has_report() && calls.by_ring() != self.told_zerocopy;
        has_bytes || has_room || has_report || self.changed || self.news & !self.wakes(carried) != 0
    }

    /// Returns the kernel's events that are no news: it reports them when it wakes for a ring.
    fn wakes(&self, carried: &CarriedEnd<'_>) -> u32 {
        let reads = if carried.receives_by_ring() { EPOLLIN } else { 0 };
        let writes = if carried.out.is_ring() { EPOLLOUT } else { 0 };
        (reads | writes) as u32
    }

    /// Notes that the program is told of all that holds.
    pub(super) fn tell(&mut self) {
        (self.changed, self.news) = (false, 0);
        self.disabled = self.is(EPOLLONESHOT);
        (self.told_tail, self.told_zerocopy) = (self.seen.tail, self.seen.zerocopy);
        self.told_ring = self.seen.ring;
        if self.seen.now & EPOLLOUT as u32 != 0 {
            self.told_full = self.seen.full;
        }
    }

    /// Asks to be woken for a registered socket.
    pub(super) fn arm_socket(&self, wakeup: Option<Wakeup>) {
        if !self.carried || self.disabled || self.deleted || self.quiet.as_ref().is_some_and(Quiet::is_armed) {
            return;
        }
        if let Some(socket) = table::get(self.fd)
            && let Some(carried) = socket.carried()
        {
            wakeup::state(carried.this_end(), wakeup, true, false);
            let asked = (self.events & 0xffff) as c_short;
            Ready::of(&carried, asked).arm(&carried, asked);
            if asked & READS != 0 && carried.receives_by_ring() {
                // Bytes that the program was told of may still be there: further ones are news to an edge-triggered set, and
                // another thread may take those that are there before a thread that sleeps here is woken.
                carried.inward.request_data();
            }
        }
    }
}
