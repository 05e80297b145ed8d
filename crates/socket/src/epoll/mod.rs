//! `epoll` of sockets by reference, and of anything else beside them.
//!
//! Other descriptors are registered as the program says, and their events pass untouched. A socket that has an area is
//! registered edge-triggered under a number of this library's, so that the kernel wakes for it; its events are computed here.

mod set;

use crate::bell::{self, Bell};
use crate::kernel::{self, fail};
use crate::memory::{self, Touch};
use crate::{table, wait};
use libc::{EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int, c_void, epoll_event, timespec};
use set::Set;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Descriptors from this one on stay with the kernel.
const MOST: usize = 1 << 16;
/// Sockets of one set that can be carried.
const MOST_SLOTS: usize = 1 << 20;
/// Number of a set's bell among its sockets.
const BELL: usize = MOST_SLOTS - 1;
/// Longest sleep before all is looked at again.
const NAP: Duration = Duration::from_secs(1);
/// Time for which events of other descriptors may wait behind those of carried ones.
const KERNEL_EVERY: Duration = Duration::from_micros(20);

static SETS: [AtomicPtr<Set>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
/// Descriptors of sets.
static LIST: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

fn list() -> std::sync::MutexGuard<'static, Vec<c_int>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the first of the numbers under which carried sockets are registered: addresses that no program has.
fn numbers() -> u64 {
    static NUMBERS: OnceLock<u64> = OnceLock::new();
    *NUMBERS.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new address space that nobody touches.
        unsafe { libc::mmap(null_mut(), MOST_SLOTS, libc::PROT_NONE, flags, -1, 0) as u64 }
    })
}

fn number(slot: usize) -> u64 {
    numbers() + slot as u64
}

fn slot_of(number: u64) -> Option<usize> {
    let slot = number.wrapping_sub(numbers());
    (slot < MOST_SLOTS as u64).then_some(slot as usize)
}

fn get(fd: c_int) -> Option<&'static Set> {
    let found = SETS.get(fd as usize)?.load(Ordering::Acquire);
    // SAFETY: sets are never given back.
    (!found.is_null()).then(|| unsafe { &*found })
}

/// Returns true if a descriptor is a set that this library knows.
pub fn is_set(fd: c_int) -> bool {
    get(fd).is_some()
}

/// Returns true if a descriptor is a set with a carried socket.
pub(crate) fn has_carried(fd: c_int) -> bool {
    get(fd).is_some_and(|set| set.carried() > 0)
}

/// Returns true if a carried socket of a set is ready.
pub(crate) fn any(fd: c_int) -> bool {
    get(fd).is_some_and(Set::any)
}

/// Asks to be woken for all sockets of a set.
pub(crate) fn arm(fd: c_int) {
    if let Some(set) = get(fd) {
        set.arm(bell_of(set, fd));
    }
}

/// Returns the bell of a set, which its waits are woken by.
fn bell_of(set: &Set, fd: c_int) -> Option<Bell> {
    *set.bell.get_or_init(|| {
        let bell = bell::of_set()?;
        let mut real = epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: number(BELL) };
        // SAFETY: an event of our own.
        if unsafe { in_kernel(fd, libc::EPOLL_CTL_ADD, bell.fd, &raw mut real) } != 0 {
            bell::give_back(bell);
            return None;
        }
        Some(bell)
    })
}

/// Changes a set, as `epoll_ctl(2)`.
///
/// # Safety
/// As `epoll_ctl(2)`.
pub unsafe fn control(set_fd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    let is_known = table::has(fd) || get(fd).is_some() || get(set_fd).is_some_and(|set| set.has(fd));
    if !is_known || set_fd as usize >= MOST || set_fd == fd {
        // SAFETY: the caller's own arguments.
        return unsafe { in_kernel(set_fd, operation, fd, event) };
    }
    let is_readable = memory::allows(Touch::Read, event.cast(), size_of::<epoll_event>());
    if !is_readable && operation != EPOLL_CTL_DEL {
        return fail(libc::EFAULT);
    }
    let set = get(set_fd).unwrap_or_else(|| make(set_fd));
    let none = epoll_event { events: 0, u64: 0 };
    // SAFETY: the caller's event; packed.
    let wanted = if !is_readable { none } else { unsafe { event.read_unaligned() } };
    set.change(operation, fd, wanted, |slot| {
        let mut real = match slot {
            Some(slot) => set::registration(number(slot)),
            None => wanted,
        };
        // SAFETY: an event of our own.
        unsafe { in_kernel(set_fd, operation, fd, &raw mut real) }
    })
}

/// # Safety
/// As `epoll_ctl(2)`.
unsafe fn in_kernel(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, set, operation, fd, event) as isize }
}

fn make(fd: c_int) -> &'static Set {
    let set: &'static Set = Box::leak(Box::new(Set::new()));
    SETS[fd as usize].store(std::ptr::from_ref(set).cast_mut(), Ordering::Release);
    list().push(fd);
    set
}

/// Registers a socket anew that has an area now, wherever it is registered.
pub(crate) fn joined(fd: c_int) {
    let Ok(sets) = LIST.try_lock() else { return };
    for &set_fd in sets.iter() {
        if let Some(set) = get(set_fd) {
            set.carry(fd, |slot| {
                let mut real = set::registration(number(slot));
                // SAFETY: an event of our own.
                unsafe { in_kernel(set_fd, EPOLL_CTL_MOD, fd, &raw mut real) == 0 }
            });
        }
    }
}

/// Forgets a descriptor that is about to be closed or replaced: a set, or a socket in sets.
pub(crate) fn forget(fd: c_int) {
    if let Some(set) = get(fd) {
        SETS[fd as usize].store(null_mut(), Ordering::Release);
        let mut list = list();
        list.retain(|&one| one != fd);
        let is_last = !list.iter().any(|&other| get(other).is_some_and(|other| std::ptr::eq(other, set)));
        if is_last && let Some(Some(bell)) = set.bell.get() {
            bell::give_back(*bell);
        }
    }
    if let Some(entry) = table::get(fd) {
        let list = list();
        let is_registered = list.iter().any(|&set| get(set).is_some_and(|set| set.has(fd)));
        let other = if is_registered { table::other(&entry, fd) } else { None };
        if other.is_some() && entry.link().is_none() {
            // The kernel's registration cannot be changed any more, so that it has to be the one that reports.
            crate::close::stay(&entry);
        }
        for &set in list.iter() {
            if get(set).is_some_and(|set| set.remove(fd, other)) {
                // The program deleted it, and a copy of the descriptor would keep it in the kernel.
                // SAFETY: no event is needed.
                unsafe { in_kernel(set, EPOLL_CTL_DEL, fd, null_mut()) };
            }
        }
    }
}

/// Leaves all sets to the kernel. No socket in them is carried.
pub(crate) fn forget_all() {
    for fd in std::mem::take(&mut *list()) {
        if let Some(set) = get(fd) {
            if let Some(Some(bell)) = set.bell.get() {
                // SAFETY: no event is needed.
                unsafe { in_kernel(fd, EPOLL_CTL_DEL, bell.fd, null_mut()) };
            }
            SETS[fd as usize].store(null_mut(), Ordering::Release);
        }
    }
}

/// Leaves a descriptor's registrations to the kernel. In between, `change` may have it refer to another socket.
pub(crate) fn release(fd: c_int, change: impl FnOnce()) {
    let sets = list().clone();
    let mut registered = Vec::new();
    for set_fd in sets {
        if let Some(event) = get(set_fd).and_then(|set| set.release(fd)) {
            // SAFETY: no event is needed.
            unsafe { in_kernel(set_fd, EPOLL_CTL_DEL, fd, null_mut()) };
            registered.extend(event.map(|event| (set_fd, event)));
        }
    }
    change();
    for (set_fd, mut event) in registered {
        // SAFETY: an event of our own.
        unsafe { in_kernel(set_fd, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    }
}

/// Forgets sets that are about to be closed.
pub(crate) fn forget_range(first: u32, last: u32) {
    let found: Vec<c_int> =
        list().iter().copied().filter(|&fd| (first..=last).contains(&(fd as u32))).collect();
    found.into_iter().for_each(forget);
}

/// Makes a second descriptor of a set, as `dup` did.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    if let (Some(set), Some(place)) = (get(from), SETS.get(to as usize)) {
        place.store(std::ptr::from_ref(set).cast_mut(), Ordering::Release);
        list().push(to);
    }
}

/// Waits for events, as `epoll_pwait2(2)`; without a timeout it waits for ever.
///
/// # Safety
/// As `epoll_pwait2(2)`: room for `most` events, and a mask that is null or of the kernel's size.
pub unsafe fn wait(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    let Some(set) = get(set_fd).filter(|_| most > 0 && !events.is_null()) else {
        // SAFETY: the caller's promise.
        return unsafe { in_kernel_wait(set_fd, events, most, timeout, mask) };
    };
    // SAFETY: the caller has room for so many.
    let room = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    if !memory::allows(Touch::Write, events.cast(), size_of::<epoll_event>()) {
        return fail(libc::EFAULT);
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    if timeout == Some(Duration::ZERO) {
        // SAFETY: all of the room.
        return unsafe { look(set, set_fd, room) };
    }
    loop {
        let found = set.collect(room);
        if found > 0 && !set.owes_kernel_a_look(KERNEL_EVERY) {
            return found as isize;
        }
        if found > 0 {
            // SAFETY: room that is left.
            return unsafe { add_kernel(set, set_fd, room, found) };
        }
        let begin = Instant::now();
        if set.carried() > 0 {
            if wait::spin(&set.patience, || set.any()) {
                continue;
            }
            set.arm(bell_of(set, set_fd));
            fence(Ordering::SeqCst);
            if set.any() {
                continue;
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let nap =
            left.unwrap_or(NAP).min(if set.carried() > 0 { NAP } else { left.unwrap_or(Duration::MAX) });
        let nap = if set.carried() == 0 && left.is_none() { None } else { Some(nap) };
        // SAFETY: the caller's promise.
        let got = unsafe { in_kernel_wait(set_fd, events, most, nap, mask) };
        wait::learn(&set.patience, begin.elapsed());
        if got < 0 {
            return got;
        }
        let (kept, before) = translate(set, room, got as usize);
        let found = kept + set.collect(&mut room[kept..]);
        // At the place of what woke for them.
        room[before..found].rotate_left(kept - before);
        if found > 0 || deadline.is_some_and(|end| Instant::now() >= end) {
            return found as isize;
        }
    }
}

/// Looks at all events, without waiting.
///
/// # Safety
/// As [`wait`].
unsafe fn look(set: &Set, fd: c_int, room: &mut [epoll_event]) -> isize {
    // SAFETY: all of the room.
    let got = unsafe {
        in_kernel_wait(fd, room.as_mut_ptr(), room.len() as c_int, Some(Duration::ZERO), std::ptr::null())
    };
    if got < 0 {
        return got;
    }
    let (kept, _) = translate(set, room, got as usize);
    (kept + set.collect(&mut room[kept..])) as isize
}

/// Adds events of other descriptors to those of carried sockets that were found.
///
/// # Safety
/// As [`wait`].
unsafe fn add_kernel(set: &Set, fd: c_int, room: &mut [epoll_event], found: usize) -> isize {
    let rest = &mut room[found..];
    if rest.is_empty() {
        return found as isize;
    }
    // SAFETY: room that is left.
    let got = unsafe {
        in_kernel_wait(fd, rest.as_mut_ptr(), rest.len() as c_int, Some(Duration::ZERO), std::ptr::null())
    };
    let all = found + translate(set, rest, got.max(0) as usize).0;
    all as isize
}

/// Takes the events of carried sockets out of what the kernel reported, and notes them. Returns how many others remain, and
/// how many of these came before the first.
fn translate(set: &Set, events: &mut [epoll_event], got: usize) -> (usize, usize) {
    let (mut kept, mut before) = (0, None);
    for i in 0..got {
        let event = events[i];
        match slot_of(event.u64) {
            Some(slot) => {
                before.get_or_insert(kept);
                set.note(slot, event.events);
            }
            None => {
                events[kept] = event;
                kept += 1;
            }
        }
    }
    (kept, before.unwrap_or(kept))
}

/// # Safety
/// As `epoll_pwait2(2)`.
unsafe fn in_kernel_wait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    let time = timeout.map(kernel::to_timespec);
    let time = time.as_ref().map_or(std::ptr::null(), |time| time as *const timespec);
    // SAFETY: the caller's promise.
    let got =
        unsafe { libc::syscall(libc::SYS_epoll_pwait2, set, events, most, time, mask, kernel::SIGSET_BYTES) };
    if got >= 0 || kernel::errno() != libc::ENOSYS {
        return got as isize;
    }
    // Before Linux 5.11: milliseconds, rounded up, as the C library does.
    let most_ms =
        timeout.map_or(-1, |time| time.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as c_int);
    // SAFETY: the caller's room and mask.
    unsafe {
        libc::syscall(libc::SYS_epoll_pwait, set, events, most, most_ms, mask, kernel::SIGSET_BYTES) as isize
    }
}
