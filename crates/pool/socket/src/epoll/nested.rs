//! Readiness of an `epoll` set that is registered in another set, or that is polled.
//!
//! The kernel considers a set ready as soon as one of its descriptors is. This descriptor may be only a wakeup, or a carried socket whose
//! kernel connection only woke a thread. Therefore the kernel's events are taken out of such a set and examined. Events of other
//! descriptors that the kernel reports only once (edge-triggered and one-shot ones) are kept for the program's next wait; the kernel
//! reports all others again.

use super::registration::{self, RegisteredDescriptor};
use super::set::{self, Set};
use super::slot::Slot;
use crate::wakeup::SocketWakeup;
use libc::{EPOLLET, EPOLLONESHOT, c_int, epoll_event};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of events that are taken at a time.
const ROOM: usize = 32;

/// True once an event was kept for a later wait.
static USED: AtomicBool = AtomicBool::new(false);

/// Returns whether a descriptor is an `epoll` set, and makes the set known to this library if so.
pub(super) fn found(fd: c_int) -> bool {
    let is_set = registration::is_set(fd);
    if is_set {
        set::find_or_make(fd);
    }
    is_set
}

/// Returns whether an `epoll` set is ready, as `poll(2)` would report it if the kernel carried all sockets.
pub(crate) fn is_ready(fd: c_int) -> bool {
    set::get(fd).is_some_and(|set| take_in(fd, set) || set.any())
}

/// Takes the kernel's events out of an `epoll` set. Returns whether descriptors other than carried sockets have events.
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
    // A thread that sleeps in the set may have been woken for the events that were taken here.
    set.share(fd, None);
    kept > 0
}

/// Keeps the events that the kernel will not report again.
fn put_aside(fd: c_int, set: &Set, events: &[epoll_event]) {
    let registered = registration::registered(fd);
    let once = (EPOLLET | EPOLLONESHOT) as u32;
    for event in events {
        let is_it = |one: &&RegisteredDescriptor| one.data == event.u64 && one.mask & once != 0;
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

/// Returns the events to report now for a slot, which holds a socket or an inner set; zero if there are none.
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

/// Returns a number that changes whenever a slot may have news: see [`Set::stamp`].
pub(super) fn stamp(slot: &Slot) -> u64 {
    if !slot.is_told() {
        return 0;
    }
    set::get(slot.fd).map_or_else(|| slot.stamp_of_socket(), Set::stamp)
}

/// Requests a wakeup for events of a slot.
pub(super) fn arm(slot: &Slot, wakeup: Option<SocketWakeup>) {
    match set::get(slot.fd) {
        Some(_) if slot.carried => set::arm(slot.fd),
        _ => slot.arm_socket(wakeup),
    }
}
