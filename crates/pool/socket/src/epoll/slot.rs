//! Slot of an `epoll` set: the registration of one socket or of one inner set, its events, and the news that the program has already seen.

use crate::area::{RingReading, DirectionState};
use crate::carried::{CarriedEnd, Woken};
use crate::kernel;
use crate::ready::{self, READS, PollBits, WRITES};
use crate::table;
use crate::wakeup::{self, SocketWakeup};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN,
    EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, c_int, c_short, epoll_event,
};
use std::sync::atomic::Ordering;

/// Events of a connection that is over.
const OVER: u32 = (EPOLLERR | EPOLLHUP) as u32;

/// Registration of a socket, or of a set.
pub(super) struct Slot {
    pub(super) fd: c_int,
    /// The program's own registration.
    pub(super) events: u32,
    pub(super) data: u64,
    /// True if the descriptor is registered in the kernel under a number of this library.
    pub(super) carried: bool,
    /// True if the descriptor under which the socket was registered was closed. As in the kernel, the registration remains while a copy is
    /// open, and `fd` is then that copy.
    pub(super) is_orphan: bool,
    /// True if the program has deleted the registration, although it is still in the kernel.
    pub(super) deleted: bool,
    /// True after the event of a one-shot registration.
    pub(super) disabled: bool,
    /// Events from the kernel that may still hold.
    reported: u32,
    /// True if the registration is new or the inner set has news, so that an edge-triggered registration must report again.
    changed: bool,
    /// True if the kernel reported a registered set since that set was last checked.
    edge: bool,
    /// Events from the kernel since the last report to the program.
    news: u32,
    /// Counters at the last check, read before its events were evaluated.
    seen: SeenCounts,
    /// End of the bytes that were reported to the program.
    told_tail: u64,
    /// True if the ring carried the bytes that were reported to the program.
    told_ring: bool,
    /// Number of calls with `MSG_ZEROCOPY` when a report of such calls was last announced to the program.
    told_zerocopy: u32,
    /// Number of times that the ring was full when room was last reported to the program; [`u32::MAX`] before the first report.
    told_full: u32,
    /// Set while only new bytes in the ring can change the events of this slot.
    quiet: Option<Quiet>,
}

/// Counters that show whether there is news since the last report to the program.
#[derive(Clone, Copy, Default)]
struct SeenCounts {
    /// End of the bytes.
    tail: u64,
    /// Number of times that the ring was full.
    full: u32,
    /// Number of calls with `MSG_ZEROCOPY`.
    zerocopy: u32,
    /// True if the next byte to receive comes through the ring.
    ring: bool,
    /// Events that hold.
    now: u32,
}

/// A ring that was empty at the last check. While it stays so, an `epoll` set of hundreds of sockets has to check only one word of each
/// socket.
struct Quiet {
    /// The receiving direction. It stays mapped for as long as the socket is registered here, because a descriptor is taken out of its sets
    /// before it is closed.
    inward: *const DirectionState,
    /// End of the bytes when the ring was empty.
    tail: u64,
}

// SAFETY: the pointer refers to atomic words in shared memory.
unsafe impl Send for Quiet {}

impl Quiet {
    fn inward(&self) -> &DirectionState {
        // SAFETY: mapped, as the field's comment says.
        unsafe { &*self.inward }
    }

    fn lasts(&self) -> bool {
        self.inward().writer.tail.load(Ordering::Acquire) == self.tail
    }

    /// Returns whether the other end will wake this end when it sends.
    fn is_armed(&self) -> bool {
        self.inward().signals.want_data.load(Ordering::SeqCst) != 0 && self.lasts()
    }
}

/// Returns whether the kernel would accept such a registration of a socket: `EPOLLEXCLUSIVE` permits only a few other flags, and cannot be
/// set later (`epoll_ctl(2)`).
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
            // Events of a carried socket that depend on the kernel may already hold, so assume them and ask the kernel.
            reported: if carried { (EPOLLIN | EPOLLOUT) as u32 } else { 0 },
            changed: carried,
            edge: false,
            news: 0,
            seen: SeenCounts::default(),
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

    /// Returns whether this library has to report the events of this registration, and the registration may have events now.
    pub(super) fn is_told(&self) -> bool {
        self.carried && !self.deleted && !self.disabled
    }

    /// Continues under another descriptor of the same socket, because the registered one is about to be closed.
    pub(super) fn orphan(&mut self, copy: c_int) {
        (self.fd, self.is_orphan, self.quiet) = (copy, true, None);
    }

    /// Returns the events to report now for a registered socket; zero if there are none.
    pub(super) fn events_of_socket(&mut self) -> u32 {
        let Some(socket) = table::get(self.fd) else { return 0 };
        let Some(carried) = socket.carried() else { return 0 };
        // Read these before the events, so that a change in between is reported twice rather than never.
        self.seen = SeenCounts {
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

    /// Returns the events to report now for a registered set; zero if there are none. `stamp` is the set's stamp. `take_in` takes the
    /// kernel's events out of the set, and returns whether descriptors other than carried sockets have events. `any` returns whether
    /// carried sockets have events.
    pub(super) fn events_of_set(
        &mut self,
        stamp: u64,
        take_in: impl FnOnce() -> bool,
        any: impl FnOnce() -> bool,
    ) -> u32 {
        self.seen = SeenCounts { tail: stamp, ..SeenCounts::default() };
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

    /// Returns whether an event that the kernel reported means more than a wake byte.
    pub(super) fn is_told_by_kernel(&self) -> bool {
        let is_ring = table::get(self.fd).is_some_and(|socket| {
            let carried = socket.carried();
            carried.is_some_and(|carried| carried.receives_by_ring())
        });
        !is_ring || self.reported & (OVER | EPOLLRDHUP as u32) != 0
    }

    /// Returns a number that changes whenever a registered socket may have news.
    pub(super) fn stamp_of_socket(&self) -> u64 {
        let Some(socket) = table::get(self.fd) else { return 0 };
        let Some(carried) = socket.carried() else { return 0 };
        let has_room = self.is(EPOLLOUT) && carried.out.is_writable();
        carried.inward.tail().wrapping_mul(2).wrapping_add(has_room.into())
    }

    /// Returns whether no events can have changed since the last check.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.as_ref().is_some_and(Quiet::lasts)
    }

    /// Returns the state to watch from now on; `None` unless only the arrival of bytes matters.
    fn to_quiet(&self, carried: &CarriedEnd<'_>) -> Option<Quiet> {
        let is_more = self.is(EPOLLOUT) || self.reported & (OVER | EPOLLRDHUP as u32) != 0;
        let tail = carried.inward.writer().tail.load(Ordering::Acquire);
        let is_empty = carried.receives_by_ring() && carried.inward.look() == RingReading::Empty;
        (is_empty && !is_more && !carried.entry.description().zerocopy.is_on())
            .then(|| Quiet { inward: carried.inward.shared(), tail })
    }

    /// Returns the time since which there have been bytes in the ring; 0 if the ring is empty.
    pub(super) fn since(&self) -> u64 {
        let Some(socket) = table::get(self.fd) else { return 0 };
        let Some(carried) = socket.carried() else { return 0 };
        if carried.inward.look() == RingReading::Empty { 0 } else { carried.inward.since() }
    }

    /// Returns the events that hold now.
    fn level(&mut self, carried: &CarriedEnd<'_>) -> u32 {
        let asked = (self.events & 0xffff) as c_short;
        if self.reported & OVER != 0 {
            // A call may have consumed the error meanwhile.
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
        // Evaluate this after wake bytes were received, so that the bytes which they announce are seen.
        let ready = PollBits::of(carried, asked);
        now |= ready.now as u16 as u32;
        // Events that depend on the kernel hold for as long as the kernel says so.
        let ask = ready.kernel & (READS | WRITES | libc::POLLPRI);
        if ask != 0 && self.reported & ask as u16 as u32 != 0 {
            let holds = self.ask(ready.kernel);
            self.reported &= !(ask as u16 as u32) | holds;
            now |= holds & (self.events | OVER);
        }
        now
    }

    /// Returns the events that the kernel reports now.
    pub(super) fn ask(&self, events: c_short) -> u32 {
        kernel::events(self.fd, events) as u16 as u32
    }

    /// Receives wake bytes if necessary. Returns whether the connection has ended and all of its bytes were received.
    fn takes_wakes(&mut self, carried: &CarriedEnd<'_>) -> bool {
        let is_empty = carried.receives_by_ring() && carried.inward.look() == RingReading::Empty;
        if !is_empty || self.reported & (EPOLLIN | EPOLLRDHUP) as u32 == 0 {
            return false;
        }
        if self.reported & EPOLLRDHUP as u32 != 0 {
            return matches!(carried.look_at_kernel(), Some(Woken::End));
        }
        self.reported &= !(EPOLLIN as u32);
        // Receive these bytes now. Left in the kernel they would not be acknowledged for 40 ms, and the other end can send only a few of
        // them.
        carried.drain();
        false
    }

    /// Returns whether there is something ready that was not reported to the program.
    fn is_news(&self, carried: &CarriedEnd<'_>) -> bool {
        let tail = carried.inward.tail();
        // The program may have taken the kernel's bytes for all that there are, although the ring has more.
        let is_other = carried.receives_by_ring() && !self.told_ring;
        let has_bytes =
            matches!(carried.inward.look(), RingReading::Bytes(_)) && (tail != self.told_tail || is_other);
        // This also applies after the kernel took over, because its buffers were never full.
        let full = carried.entry.was_full.load(Ordering::Relaxed);
        let has_room = self.seen.now & EPOLLOUT as u32 != 0 && full != self.told_full;
        let calls = &carried.entry.description().zerocopy;
        let has_report = calls.has_report() && calls.by_ring() != self.told_zerocopy;
        has_bytes || has_room || has_report || self.changed || self.news & !self.wakes(carried) != 0
    }

    /// Returns the kernel's events that are not news to the program. While a ring carries a direction, the kernel reports them only because
    /// of a wakeup.
    fn wakes(&self, carried: &CarriedEnd<'_>) -> u32 {
        let reads = if carried.receives_by_ring() { EPOLLIN } else { 0 };
        let writes = if carried.out.is_ring() { EPOLLOUT } else { 0 };
        (reads | writes) as u32
    }

    /// Notes that all events that hold were reported to the program.
    pub(super) fn tell(&mut self) {
        (self.changed, self.news) = (false, 0);
        self.disabled = self.is(EPOLLONESHOT);
        (self.told_tail, self.told_zerocopy) = (self.seen.tail, self.seen.zerocopy);
        self.told_ring = self.seen.ring;
        if self.seen.now & EPOLLOUT as u32 != 0 {
            self.told_full = self.seen.full;
        }
    }

    /// Requests wakeups for a registered socket.
    pub(super) fn arm_socket(&self, wakeup: Option<SocketWakeup>) {
        if !self.carried || self.disabled || self.deleted || self.quiet.as_ref().is_some_and(Quiet::is_armed) {
            return;
        }
        if let Some(socket) = table::get(self.fd)
            && let Some(carried) = socket.carried()
        {
            wakeup::state(carried.this_end(), wakeup, true, false);
            let asked = (self.events & 0xffff) as c_short;
            PollBits::of(&carried, asked).arm(&carried, asked);
            if asked & READS != 0 && carried.receives_by_ring() {
                // Request this even if bytes that were reported are still there: further bytes are news to an edge-triggered set, and
                // another thread may receive the present ones before a thread that sleeps here is woken.
                carried.inward.request_data();
            }
        }
    }
}
