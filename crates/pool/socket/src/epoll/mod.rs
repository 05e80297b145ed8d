//! `epoll` of sockets by reference, and of anything else beside them.
//!
//! Other descriptors are registered as the program says, and their events pass untouched. A socket that has an area is
//! registered edge-triggered under a number of this library's, so that the kernel wakes for it; its events are computed here.

mod nested;
mod set;
mod slot;

use crate::bell::{self, Bell};
use crate::kernel::{self, fail};
use crate::memory::{self, Touch};
use crate::{table, wait};
use libc::{EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int, c_void, epoll_event, timespec};
use set::Set;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Descriptors from this one on stay with the kernel.
const MOST: usize = 1 << 16;
/// Sockets of one set that can be carried.
const MOST_SLOTS: usize = 1 << 20;
/// Flag that a set which is registered in another cannot have.
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Number of a set's bell among its sockets.
const BELL: usize = MOST_SLOTS - 1;
/// Longest wait for the lock of the list of sets, which other threads hold for moments.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest sleep before all is looked at again.
const NAP: Duration = Duration::from_secs(1);
/// Time for which events of other descriptors may wait behind those of carried ones.
const KERNEL_EVERY: Duration = Duration::from_micros(20);

/// Descriptors that may be registered in a set, a bit each.
static TRACKED: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

fn track(fd: c_int) {
    if let Some(word) = TRACKED.get(fd as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::AcqRel);
    }
}

/// Returns true if a descriptor may be registered in a set, which then forgets it.
fn ends_tracking(fd: c_int) -> bool {
    let Some(word) = TRACKED.get(fd as usize / 64) else { return false };
    let bit = 1 << (fd % 64);
    word.load(Ordering::Acquire) & bit != 0 && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
}

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

/// Returns true if a set is ready, of which the kernel says so: it may only have been woken.
pub(crate) fn is_ready(fd: c_int) -> bool {
    nested::is_ready(fd)
}

/// Asks to be woken for all sockets of a set.
pub(crate) fn arm(fd: c_int) {
    if let Some(set) = get(fd) {
        set.is_watched();
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
    let known = get(set_fd);
    if let Some(set) = known.filter(|set| set.stashed() > 0) {
        set.drop_aside(fd);
    }
    let is_known = table::has(fd)
        || get(fd).is_some()
        || known.is_some_and(|set| set.has(fd))
        || operation == libc::EPOLL_CTL_ADD && (may_be_connected(fd) || nested::found(fd));
    if !is_known || set_fd as usize >= MOST || set_fd == fd {
        // SAFETY: the caller's own arguments.
        return unsafe { in_kernel(set_fd, operation, fd, event) };
    }
    let is_readable = memory::allows(Touch::Read, event.cast(), size_of::<epoll_event>());
    if !is_readable && operation != EPOLL_CTL_DEL {
        return fail(libc::EFAULT);
    }
    if known.is_none() && !nested::is_set(set_fd) {
        // The kernel refuses it.
        // SAFETY: the caller's own arguments.
        return unsafe { in_kernel(set_fd, operation, fd, event) };
    }
    // SAFETY: the caller's event; packed.
    if get(fd).is_some() && is_readable && unsafe { event.read_unaligned() }.events & EXCLUSIVE != 0 {
        return fail(libc::EINVAL);
    }
    let set = known.or_else(|| get(set_fd)).unwrap_or_else(|| make(set_fd));
    let none = epoll_event { events: 0, u64: 0 };
    // SAFETY: the caller's event; packed.
    let wanted = if !is_readable { none } else { unsafe { event.read_unaligned() } };
    let done = set.change(operation, fd, wanted, |slot| {
        let mut real = match slot {
            Some(slot) => slot::registration(number(slot)),
            None => wanted,
        };
        // SAFETY: an event of our own.
        unsafe { in_kernel(set_fd, operation, fd, &raw mut real) }
    });
    if done == 0 && operation != EPOLL_CTL_DEL {
        track(fd);
        share(set, set_fd, Some(fd));
    }
    done
}

/// Returns true if a descriptor is a stream socket that may be connected later: a program may register it before.
fn may_be_connected(fd: c_int) -> bool {
    let before = kernel::errno();
    let is_stream = kernel::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && kernel::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0);
    kernel::fail(before);
    is_stream
}

/// Has threads that are asleep in a set learn of what this one did: registered a socket anew, or took events and did not take
/// others. Looks at one socket only, if it is given.
fn share(set: &Set, set_fd: c_int, changed: Option<c_int>) {
    if !set.has_sleepers() || set.carried() == 0 {
        return;
    }
    let before = kernel::errno();
    let bell = bell_of(set, set_fd);
    let is_ready = match changed {
        Some(fd) => set.arm_one(fd, bell),
        None => {
            set.arm(bell);
            fence(Ordering::SeqCst);
            set.any()
        }
    };
    if is_ready {
        wake(set, set_fd, bell, changed);
    }
    kernel::fail(before);
}

/// Wakes a thread that is asleep in a set: by the set's bell; or, if there is none, by registering a socket anew in the kernel,
/// which wakes since the kernel's connection can be written to.
fn wake(set: &Set, set_fd: c_int, bell: Option<Bell>, changed: Option<c_int>) {
    if let Some(bell) = bell {
        return bell::strike(bell);
    }
    set.again(changed, |fd, slot| {
        let mut real = slot::registration(number(slot));
        // SAFETY: an event of our own.
        unsafe { in_kernel(set_fd, EPOLL_CTL_MOD, fd, &raw mut real) };
    });
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

/// Returns the descriptors of sets; nothing if the list's lock is not to be had, since this thread may have it, which a signal
/// interrupted.
fn soon() -> Option<Vec<c_int>> {
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

/// Registers a socket anew that has an area now, wherever it is registered.
pub(crate) fn joined(fd: c_int) {
    // Not under the lock: a bell is asked of the broker meanwhile, and other threads that join would give up.
    for set_fd in soon().unwrap_or_default() {
        if let Some(set) = get(set_fd) {
            let is_spent = || set::is_spent(set_fd, fd);
            let is_carried = set.carry(fd, is_spent, |slot| {
                let mut real = slot::registration(number(slot));
                let mut change = |operation| {
                    // SAFETY: an event of our own.
                    unsafe { in_kernel(set_fd, operation, fd, &raw mut real) == 0 }
                };
                // A registration with `EPOLLEXCLUSIVE` cannot be changed, so another takes its place.
                change(EPOLL_CTL_MOD) || change(EPOLL_CTL_DEL) && change(libc::EPOLL_CTL_ADD)
            });
            if is_carried {
                share(set, set_fd, Some(fd));
            }
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
    nested::forget(fd);
    if ends_tracking(fd) {
        let copy = table::copy_of(fd);
        if let Some(copy) = copy {
            track(copy);
        }
        for &set in list().iter() {
            if get(set).is_some_and(|set| set.remove(fd, copy)) {
                // The program deleted it, and a copy of the descriptor would keep it in the kernel.
                // SAFETY: no event is needed.
                unsafe { in_kernel(set, EPOLL_CTL_DEL, fd, null_mut()) };
            }
        }
    }
}

/// Leaves all sets to the kernel. No socket in them is carried; a set within a set is registered as the program says again.
pub(crate) fn forget_all() {
    let all = list().clone();
    for &fd in &all {
        release(fd, || {});
    }
    list().clear();
    for fd in all {
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

/// Forgets sets, and registered descriptors, that are about to be closed.
pub(crate) fn forget_range(first: u32, last: u32) {
    let found: Vec<c_int> =
        list().iter().copied().filter(|&fd| (first..=last).contains(&(fd as u32))).collect();
    found.into_iter().for_each(forget);
    let last = last.min(MOST as u32 - 1);
    let is_tracked = |fd: &u32| TRACKED[*fd as usize / 64].load(Ordering::Acquire) >> (fd % 64) & 1 != 0;
    (first..=last).filter(is_tracked).for_each(|fd| forget(fd as c_int));
}

/// Makes a second descriptor of a set, as `dup` did.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    if get(from).is_none() && !table::has(from) {
        // A set that is not known may be once a carried socket is registered, and its copies must be then.
        nested::found(from);
    }
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
    if !memory::allows(Touch::Write, events.cast(), size_of::<epoll_event>()) {
        // SAFETY: the caller's promise.
        return unsafe { wait_in_vain(set_fd, events, most, timeout, mask) };
    }
    // SAFETY: the caller has room for so many.
    let room = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    if timeout == Some(Duration::ZERO) {
        // SAFETY: all of the room.
        return unsafe { look(set, set_fd, room) };
    }
    loop {
        if set.any() && set.owes_kernel_a_look(KERNEL_EVERY) {
            // Before what is told: the kernel may have more to say of the same socket.
            // SAFETY: all of the room.
            let found = unsafe { look(set, set_fd, room) };
            if found != 0 {
                return found;
            }
        }
        let found = set.collect(room);
        if found > 0 {
            share(set, set_fd, None);
            return found as isize;
        }
        let begin = Instant::now();
        if set.carried() > 0 && wait::spin(&set.patience, || set.any()) {
            continue;
        }
        // Before the look that follows: whoever changes something later sees it.
        let asleep = set.fall_asleep();
        if set.carried() > 0 {
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
        drop(asleep);
        wait::learn(&set.patience, begin.elapsed());
        if got < 0 {
            return got;
        }
        let (kept, before) = translate(set, room, got as usize);
        let found = kept + set.collect(&mut room[kept..]);
        // At the place of what woke for them.
        room[before..found].rotate_left(kept - before);
        if found > 0 {
            share(set, set_fd, None);
        }
        if found > 0 || deadline.is_some_and(|end| Instant::now() >= end) {
            return found as isize;
        }
    }
}

/// Waits without room for an event: as the kernel, it fails once there is one, or at once if a program cannot have the address.
///
/// # Safety
/// As [`wait`], but for the room.
unsafe fn wait_in_vain(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    // SAFETY: the kernel checks the address.
    let got = unsafe { in_kernel_wait(set_fd, events, most, Some(Duration::ZERO), std::ptr::null()) };
    if got < 0 {
        return got;
    }
    let mut one = [libc::pollfd { fd: set_fd, events: libc::POLLIN, revents: 0 }];
    // SAFETY: the caller's mask.
    match unsafe { crate::poll::poll(&mut one, timeout, mask) } {
        1.. => fail(libc::EFAULT),
        other => other,
    }
}

/// Ends a wait that began before this library knew the set: a thread may have registered a carried socket meanwhile, whose
/// events have a number of this library's. `got` is what the kernel reported, `begin` when the wait began.
///
/// # Safety
/// As [`wait`].
pub unsafe fn finish(
    set_fd: c_int,
    events: *mut epoll_event,
    (most, got): (c_int, c_int),
    (begin, timeout): (Instant, Option<Duration>),
    mask: *const c_void,
) -> isize {
    let Some(set) = get(set_fd).filter(|_| got > 0) else { return got as isize };
    // SAFETY: the caller has room for so many.
    let room = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let (kept, _) = translate(set, room, got as usize);
    let found = kept + set.collect(&mut room[kept..]);
    if found > 0 {
        return found as isize;
    }
    let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
    // SAFETY: the caller's promise.
    unsafe { wait(set_fd, events, most, left, mask) }
}

/// Looks at all events, without waiting.
///
/// # Safety
/// As [`wait`].
unsafe fn look(set: &Set, fd: c_int, room: &mut [epoll_event]) -> isize {
    // Where events of other descriptors took all of the room, carried sockets come first the next time.
    let first = if set.is_their_turn() { set.collect(room) } else { 0 };
    let rest = &mut room[first..];
    if rest.is_empty() {
        return first as isize;
    }
    // SAFETY: room that is left.
    let got = unsafe {
        in_kernel_wait(fd, rest.as_mut_ptr(), rest.len() as c_int, Some(Duration::ZERO), std::ptr::null())
    };
    if got < 0 {
        return if first > 0 { first as isize } else { got };
    }
    let (kept, _) = translate(set, rest, got as usize);
    set.gives_turn(kept == rest.len());
    let found = first + kept + if first > 0 { 0 } else { set.collect(&mut rest[kept..]) };
    if found > 0 {
        share(set, fd, None);
    }
    found as isize
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
