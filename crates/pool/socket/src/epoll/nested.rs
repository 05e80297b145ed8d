//! Sets that are registered in sets, or polled: is one ready?
//!
//! The kernel calls a set ready as soon as one of its descriptors is, and that may be a wakeup, or a carried socket that only
//! wakes. So the kernel's events are taken out of such a set and looked at. Events of other descriptors that the kernel reports
//! once only (edge-triggered and one-shot ones) are put aside for the program's next wait; it reports the others again.

use super::registration::{self, Registered};
use super::set::{self, Set};
use super::slot::Slot;
use crate::wakeup::Wakeup;
use libc::{EPOLLET, EPOLLONESHOT, c_int, epoll_event};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most events that are taken at a time.
const ROOM: usize = 32;

/// True once an event was put aside.
static USED: AtomicBool = AtomicBool::new(false);

/// Returns true if a descriptor is a set, which is known from now on.
pub(super) fn found(fd: c_int) -> bool {
    let is_set = registration::is_set(fd);
    if is_set {
        set::find_or_make(fd);
    }
    is_set
}

/// Returns true if a set is ready: as `poll(2)` would say if the kernel carried all sockets.
pub(crate) fn is_ready(fd: c_int) -> bool {
    set::get(fd).is_some_and(|set| take_in(fd, set) || set.any())
}

/// Takes the kernel's events out of a set. Returns true if there are some of other descriptors than carried sockets.
fn take_in(fd: c_int, set: &Set) -> bool {
    let mut room = [epoll_event { events: 0, u64: 0 }; ROOM];
    let got = registration::take(fd, &mut room);
    if got <= 0 {
        return false;
    }
    let (kept, _) = set.note_all(&mut room, got as usize);
    if kept > 0 {
        put_aside(fd, set, &room[..kept]);
    }
    // A thread that is asleep in the set may have been woken for what was taken.
    set.share(fd, None);
    kept > 0
}

/// Puts aside what the kernel will not report again.
fn put_aside(fd: c_int, set: &Set, events: &[epoll_event]) {
    let registered = registration::registered(fd);
    let once = (EPOLLET | EPOLLONESHOT) as u32;
    for event in events {
        let is_it = |one: &&Registered| one.data == event.u64 && one.mask & once != 0;
        if let Some(one) = registered.iter().find(is_it) {
            USED.store(true, Ordering::Relaxed);
            set.put_aside(one.fd, *event);
        }
    }
}

/// Forgets events of a descriptor that is about to be closed.
pub(super) fn forget(fd: c_int) {
    if USED.load(Ordering::Relaxed) {
        let sets = set::list();
        sets.iter()
            .filter_map(|&set| set::get(set))
            .filter(|set| set.stashed() > 0)
            .for_each(|set| set.drop_aside(fd));
    }
}

/// Returns the events to tell now of a slot, which has a socket or a set; zero if none.
pub(super) fn events_now(slot: &mut Slot) -> u32 {
    if !slot.is_told() {
        return 0;
    }
    let fd = slot.fd;
    match set::get(fd) {
        Some(inner) => slot.events_of_set(inner.stamp(), || take_in(fd, inner), || inner.any()),
        None => slot.events_of_socket(),
    }
}

/// Returns a number that changes with all that may be news of a slot: see [`Set::stamp`].
pub(super) fn stamp(slot: &Slot) -> u64 {
    if !slot.is_told() {
        return 0;
    }
    set::get(slot.fd).map_or_else(|| slot.stamp_of_socket(), Set::stamp)
}

/// Asks to be woken for a slot.
pub(super) fn arm(slot: &Slot, wakeup: Option<Wakeup>) {
    match set::get(slot.fd) {
        Some(_) if slot.carried => set::arm(slot.fd),
        _ => slot.arm_socket(wakeup),
    }
}
