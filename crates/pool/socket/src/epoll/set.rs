//! `epoll` sets of this process, by descriptor. Each set has the sockets that are, or may be, carried by reference.

use super::nested;
use super::registration::{self, slot_of};
use super::slot::{Slot, is_valid};
use super::slots::RegistrationSlots;
use crate::kernel::{self, fail};
use crate::patience::SpinTime;
use crate::table;
use crate::wakeup::SocketWakeup;
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLONESHOT, c_int, epoll_event};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Descriptors from this number on stay with the kernel.
pub(super) const MOST: usize = 1 << 16;
/// Longest wait for the lock of the list of sets. Other threads hold it only for moments.
const PATIENCE: Duration = Duration::from_secs(1);

static SETS: [AtomicPtr<Set>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
/// Descriptors of sets.
static LIST: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// Returns the set of a descriptor.
pub(super) fn get(fd: c_int) -> Option<&'static Set> {
    let found = SETS.get(fd as usize)?.load(Ordering::Acquire);
    // SAFETY: sets are never freed.
    (!found.is_null()).then(|| unsafe { &*found })
}

/// Makes a descriptor refer to a set, or to no set.
pub(super) fn put(fd: c_int, set: Option<&'static Set>) {
    if let Some(place) = SETS.get(fd as usize) {
        let set = set.map_or(null_mut(), |set| std::ptr::from_ref(set).cast_mut());
        place.store(set, Ordering::Release);
    }
}

/// Returns the `epoll` set of a descriptor, which this library knows from now on; `None` if the descriptor is too high.
pub(super) fn find_or_make(fd: c_int) -> Option<&'static Set> {
    if fd as usize >= MOST {
        return None;
    }
    get(fd).or_else(|| {
        let set: &'static Set = Box::leak(Box::new(Set::new()));
        put(fd, Some(set));
        list().push(fd);
        Some(set)
    })
}

/// Returns the list of the descriptors of sets, locked.
pub(super) fn list() -> MutexGuard<'static, Vec<c_int>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the descriptors of sets, or `None` if the lock of the list stays taken. In that case this thread may hold the lock itself,
/// because a signal handler interrupted it.
pub(super) fn list_soon() -> Option<Vec<c_int>> {
    let begin = Instant::now();
    loop {
        match LIST.try_lock() {
            Ok(list) => return Some(list.clone()),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner().clone()),
            Err(TryLockError::WouldBlock) if begin.elapsed() >= PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// Returns whether a descriptor is a set with a carried socket.
pub(crate) fn has_carried(fd: c_int) -> bool {
    get(fd).is_some_and(|set| set.carried() > 0)
}

/// Returns whether a carried socket of a set is ready.
pub(crate) fn any(fd: c_int) -> bool {
    get(fd).is_some_and(Set::any)
}

/// Requests wakeups for all sockets of a set.
pub(crate) fn arm(fd: c_int) {
    if let Some(set) = get(fd) {
        set.is_watched();
        set.arm(set.wakeup(fd));
    }
}

/// `epoll` set with the sockets that this library watches.
pub(super) struct Set {
    slots: Mutex<RegistrationSlots>,
    carried: AtomicUsize,
    /// Number of events in the stash.
    stashed: AtomicUsize,
    /// Number of changes in this set that may be news to an outer set in which this one is registered.
    changes: AtomicU64,
    /// Patience of waits.
    pub(super) patience: SpinTime,
    /// True if events of descriptors other than carried sockets used all of the room in the last wait.
    their_turn: AtomicBool,
    /// True once a thread has slept until this set is ready.
    watched: AtomicBool,
    /// Number of threads that are asleep in a wait, or about to be.
    sleepers: AtomicU32,
    /// Wakeup of this `epoll` set. It is made when a wait is about to sleep; the inner `None` means that none could be made.
    wakeup: OnceLock<Option<SocketWakeup>>,
}

/// A thread that is asleep in a wait. Dropping it ends the sleep.
pub(super) struct Asleep<'a>(&'a AtomicU32);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Set {
    fn new() -> Set {
        Set {
            slots: Mutex::new(RegistrationSlots::new()),
            carried: AtomicUsize::new(0),
            stashed: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            patience: SpinTime::new(),
            their_turn: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            wakeup: OnceLock::new(),
        }
    }

    /// Returns the wakeup that wakes the waits of a set.
    pub(super) fn wakeup(&self, fd: c_int) -> Option<SocketWakeup> {
        *self.wakeup.get_or_init(|| {
            let wakeup = SocketWakeup::of_set()?;
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            let real = epoll_event { events, u64: registration::number(registration::WAKEUP) };
            if registration::register(fd, EPOLL_CTL_ADD, wakeup.fd, real) != 0 {
                wakeup.give_back();
                return None;
            }
            Some(wakeup)
        })
    }

    /// Returns the wakeup of a set that is about to be forgotten.
    pub(super) fn last_wakeup(&self) -> Option<SocketWakeup> {
        self.wakeup.get().copied().flatten()
    }

    /// Wakes threads that sleep in this `epoll` set if there are events for them, after this thread registered a socket, or took some
    /// events and left others. If `changed` is given, only that socket is checked.
    pub(super) fn share(&self, set_fd: c_int, changed: Option<c_int>) {
        if !self.has_sleepers() || self.carried() == 0 {
            return;
        }
        let before = kernel::errno();
        let wakeup = self.wakeup(set_fd);
        let is_ready = match changed {
            Some(fd) => self.arm_one(fd, wakeup),
            None => {
                self.arm(wakeup);
                fence(Ordering::SeqCst);
                self.any()
            }
        };
        if is_ready {
            self.wake(set_fd, wakeup, changed);
        }
        kernel::fail(before);
    }

    /// Wakes a thread that sleeps in an `epoll` set, through the set's wakeup. Without a wakeup, it registers a socket in the kernel again,
    /// which wakes the thread because the kernel's connection is writable. The socket is `fd`, or any carried one.
    fn wake(&self, set_fd: c_int, wakeup: Option<SocketWakeup>, fd: Option<c_int>) {
        if let Some(wakeup) = wakeup {
            return wakeup.signal();
        }
        let slots = self.slots();
        let is_it = |slot: &Slot| slot.carried && fd.is_none_or(|fd| fd == slot.fd);
        if let Some(place) = slots.all.iter().position(|slot| slot.as_ref().is_some_and(is_it))
            && let Some(slot) = &slots.all[place]
        {
            registration::register(set_fd, EPOLL_CTL_MOD, slot.fd, registration::carried(place));
        }
    }

    fn slots(&self) -> MutexGuard<'_, RegistrationSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of carried sockets.
    pub(super) fn carried(&self) -> usize {
        self.carried.load(Ordering::Acquire)
    }

    /// Returns whether a descriptor is registered here.
    pub(super) fn has(&self, fd: c_int) -> bool {
        self.slots().find(fd).is_some()
    }

    /// Changes a registration. `in_kernel` makes the change in the kernel; if it is given a slot, it registers the descriptor under this
    /// library's number for the slot.
    ///
    /// The kernel's registration of a carried socket is always the same. Therefore it stays in place while the program registers the socket
    /// again, or deletes its registration for a time.
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
        let is_carried = get(fd).is_some() || table::is_carried(fd);
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

    /// Registers a socket that now has an area under a number of this library, if the socket is in this `epoll` set. Returns whether it
    /// did. `is_spent` returns whether the kernel has reported the event of a one-shot registration.
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

    /// Removes a descriptor that is about to be closed from this `epoll` set. The registration remains if there is a copy of the
    /// descriptor. Returns whether the registration has to be deleted in the kernel.
    pub(super) fn remove(&self, fd: c_int, copy: Option<c_int>) -> bool {
        let mut slots = self.slots();
        let mut is_left = false;
        for place in 0..slots.all.len() {
            let Some(slot) = slots.all[place].as_mut().filter(|slot| slot.fd == fd) else { continue };
            is_left |= slot.carried && slot.deleted;
            match copy {
                Some(copy) if slot.carried && !slot.deleted => slot.orphan(copy),
                // The kernel keeps this registration under the closed descriptor, whose registration cannot be changed any more.
                Some(copy) if !slot.deleted => {
                    if let Some(socket) = table::get(copy) {
                        socket.leave();
                    }
                    slots.all[place] = None;
                }
                _ => slots.all[place] = None,
            }
        }
        self.count(&slots);
        is_left
    }

    /// Forgets a descriptor, if it is registered in this set; `None` if it is not. The inner value is the program's registration, unless
    /// the program has deleted it.
    pub(super) fn release(&self, fd: c_int) -> Option<Option<epoll_event>> {
        let mut slots = self.slots();
        let slot = slots.find(fd).and_then(|place| slots.all[place].take())?;
        self.count(&slots);
        // After the event of a one-shot registration, the kernel keeps only the flags.
        let mask = if slot.disabled { !0xffff } else { !0 };
        Some((!slot.deleted).then_some(epoll_event { events: slot.events & mask, u64: slot.data }))
    }

    fn count(&self, slots: &RegistrationSlots) {
        let is_ours = |slot: &&Slot| slot.carried && !slot.deleted;
        self.carried.store(slots.all.iter().flatten().filter(is_ours).count(), Ordering::Release);
    }

    /// Notes an event that the kernel reported for a slot.
    fn note(&self, place: usize, events: u32) {
        if let Some(Some(slot)) = self.slots().all.get_mut(place) {
            slot.note(events);
            if slot.is_told_by_kernel() {
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes the events of carried sockets out of the events that the kernel reported, and notes them. Returns how many other events
    /// remain, and how many of those came before the first event of a carried socket.
    pub(super) fn note_all(&self, events: &mut [epoll_event], got: usize) -> (usize, usize) {
        let (mut kept, mut before) = (0, None);
        for i in 0..got {
            let event = events[i];
            match slot_of(event.u64) {
                Some(slot) => {
                    before.get_or_insert(kept);
                    self.note(slot, event.events);
                }
                None => {
                    events[kept] = event;
                    kept += 1;
                }
            }
        }
        (kept, before.unwrap_or(kept))
    }

    /// Counts the caller as asleep until the returned value is dropped.
    pub(super) fn fall_asleep(&self) -> Asleep<'_> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        Asleep(&self.sleepers)
    }

    /// Returns whether a thread is asleep until this set has events, so that it has to be informed of changes by other threads.
    pub(super) fn has_sleepers(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleepers.load(Ordering::SeqCst) > 0 || self.watched.load(Ordering::SeqCst)
    }

    /// Notes that threads sleep until this set is ready, either in `poll` or in another set that contains this one. From now on, a thread
    /// may sleep so at any time.
    pub(super) fn is_watched(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Returns whether an event could be collected.
    pub(super) fn any(&self) -> bool {
        if self.carried() == 0 && self.stashed() == 0 {
            return false;
        }
        let mut slots = self.slots();
        !slots.stash.is_empty()
            || slots.all.iter_mut().flatten().any(|slot| !slot.is_quiet() && nested::events_now(slot) != 0)
    }

    /// Collects events of carried sockets, and kept events of other descriptors. Returns their number.
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
        slots.search(nested::events_now);
        aside + slots.hand_out(&mut room[aside..])
    }

    /// Returns the number of kept events of other descriptors.
    pub(super) fn stashed(&self) -> usize {
        self.stashed.load(Ordering::Acquire)
    }

    /// Keeps an event of another descriptor.
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

    /// Forgets the events that were kept for a descriptor, because the descriptor is registered again or no longer registered.
    pub(super) fn drop_aside(&self, fd: c_int) {
        let mut slots = self.slots();
        let before = slots.stash.len();
        slots.stash.retain(|(other, _)| *other != fd);
        self.stashed.fetch_sub(before - slots.stash.len(), Ordering::AcqRel);
    }

    /// Returns a number that changes whenever there may be news for an outer set in which this one is registered.
    pub(super) fn stamp(&self) -> u64 {
        let slots = self.slots();
        let sum = slots.all.iter().flatten().map(nested::stamp).fold(0, u64::wrapping_add);
        sum.wrapping_add(self.changes.load(Ordering::Relaxed) << 32)
    }

    /// Requests wakeups for all sockets.
    pub(super) fn arm(&self, wakeup: Option<SocketWakeup>) {
        for slot in self.slots().all.iter().flatten() {
            nested::arm(slot, wakeup);
        }
    }

    /// Requests a wakeup for one socket, and returns whether it has events to report.
    fn arm_one(&self, fd: c_int, wakeup: Option<SocketWakeup>) -> bool {
        let mut slots = self.slots();
        let Some(place) = slots.find(fd) else { return false };
        slots.all[place].as_mut().is_some_and(|slot| {
            nested::arm(slot, wakeup);
            fence(Ordering::SeqCst);
            nested::events_now(slot) != 0
        })
    }

    /// Returns whether events of carried sockets are to be reported first this time, because there was no room for them the last time.
    /// Clears the mark.
    pub(super) fn is_their_turn(&self) -> bool {
        self.their_turn.swap(false, Ordering::Relaxed)
    }

    /// Notes whether carried sockets had no room.
    pub(super) fn gives_turn(&self, had_no_room: bool) {
        self.their_turn.store(had_no_room, Ordering::Relaxed);
    }

    /// Returns whether the kernel's events have not been checked for the time `every`. If so, the caller must check them, and they count as
    /// checked now.
    pub(super) fn owes_kernel_a_look(&self, every: Duration) -> bool {
        let (now, mut slots) = (Instant::now(), self.slots());
        let owes = now.saturating_duration_since(slots.looked) >= every;
        if owes {
            slots.looked = now;
        }
        owes
    }
}
