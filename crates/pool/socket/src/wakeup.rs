//! Wakeups: `eventfd`s by which one end of a connection wakes a sleeping thread of the other end. This costs a fraction of a byte sent
//! through TCP.
//!
//! Each thread that sleeps in `poll` or in a blocking call has a wakeup, and so does each `epoll` set with carried sockets. The sleeping
//! thread writes the name of its wakeup into the area. A thread of the other end asks the broker once for the wakeup with this name, and
//! keeps it. If there is no wakeup, the other end sends a byte through the kernel's connection instead, because every sleeping thread polls
//! that connection too.
//!
//! The descriptors of wakeups belong to this library: they have high numbers, and the program can neither close nor replace them.

use crate::area::EndpointWords;
use crate::kernel;
use crate::request::{self, Descriptor};
use crate::silence;
use crate::wire::{Reply, Request};
use libc::c_int;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Name that means: wake by bytes through the kernel, because several threads may be asleep.
pub(crate) const BY_BYTES: u64 = u64::MAX;
/// Bit of a name in an area: the wakeup belongs to an `epoll` set, on which a thread may sleep at any time.
const OF_SET: u64 = 1;
/// Lowest descriptor number of a wakeup. Programs rarely use numbers from here on.
const LOWEST: c_int = 900;
/// Descriptor numbers from this one on are not used for wakeups.
const MOST: usize = 4096;
/// Number of wakeups of other processes that can be kept.
const KEPT: usize = 256;
/// Number of places in [`OTHERS`] where the wakeup with a given name may be kept.
const PROBES: usize = 8;

/// A wakeup that this process made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketWakeup {
    pub(crate) fd: c_int,
    name: u64,
}

/// Bitmap of the descriptors that are wakeups.
static OURS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];
/// True once making a wakeup has failed, because there is no broker or no free descriptor.
static NONE_TO_BE_HAD: AtomicBool = AtomicBool::new(false);
/// Wakeups of threads that ended, for reuse by other threads.
static FREE: Mutex<Vec<SocketWakeup>> = Mutex::new(Vec::new());
/// Wakeups of sets that were closed, for reuse by other sets.
static FREE_OF_SETS: Mutex<Vec<SocketWakeup>> = Mutex::new(Vec::new());
/// Descriptors of the wakeups of all threads. The child of a fork closes them.
static OF_THREADS: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// Wakeup of another process, shared by the connections of this process.
struct SharedWakeup {
    name: AtomicU64,
    fd: AtomicI32,
    /// Number of connections that signal this wakeup. All fields change only under [`CHANGE`].
    users: AtomicU32,
}

/// Wakeups of other processes. The name of a wakeup determines [`PROBES`] places where it may be.
static OTHERS: [SharedWakeup; KEPT] =
    [const { SharedWakeup { name: AtomicU64::new(0), fd: AtomicI32::new(-1), users: AtomicU32::new(0) } }; KEPT];
/// Lock for changes of [`OTHERS`].
static CHANGE: Mutex<()> = Mutex::new(());
/// Lock that is held while a wakeup is being made: see [`while_still`].
static MAKING: Mutex<()> = Mutex::new(());
/// Attempts to take a lock before giving up.
const ATTEMPTS: u32 = 1000;

/// Returns whether a descriptor is a wakeup, which the program must not touch.
#[inline]
pub fn is_ours(fd: c_int) -> bool {
    fd >= LOWEST
        && (fd as usize) < MOST
        && OURS[fd as usize / 64].load(Ordering::Relaxed) >> (fd % 64) & 1 != 0
}

/// Returns the descriptors of all wakeups, in ascending order.
pub fn all() -> impl Iterator<Item = u32> {
    (LOWEST..MOST as c_int).filter(|fd| is_ours(*fd)).map(|fd| fd as u32)
}

/// Runs a function that closes descriptors of the program, while no wakeup is being made. Otherwise the function could close a new wakeup
/// that is not yet marked as one.
pub fn while_still<T>(then: impl FnOnce() -> T) -> T {
    let _still = keep_still();
    then()
}

/// Takes the lock on the making of wakeups. Returns `None` after [`ATTEMPTS`] attempts, because the lock's owner may not exist: the child
/// of a fork has only one of the parent's threads.
fn keep_still() -> Option<MutexGuard<'static, ()>> {
    (0..ATTEMPTS).find_map(|_| {
        let taken = MAKING.try_lock().ok();
        if taken.is_none() {
            std::thread::yield_now();
        }
        taken
    })
}

/// Marks a descriptor as a wakeup, or removes the mark.
fn mark(fd: c_int, is_wakeup: bool) {
    let (word, bit) = (&OURS[fd as usize / 64], 1 << (fd % 64));
    if is_wakeup {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}

/// Moves a descriptor to a high number that programs do not use, and closes the original.
fn hide(fd: Descriptor) -> Option<c_int> {
    let _hiding = keep_still();
    // SAFETY: only plain numbers are passed.
    let hidden = unsafe { libc::syscall(libc::SYS_fcntl, fd.0, libc::F_DUPFD_CLOEXEC, LOWEST) };
    let hidden = (hidden >= 0).then_some(hidden as c_int)?;
    if hidden as usize >= MOST {
        kernel::close(hidden);
        return None;
    }
    mark(hidden, true);
    Some(hidden)
}

/// Makes a wakeup, to which the broker gives a name.
fn make() -> Option<SocketWakeup> {
    if NONE_TO_BE_HAD.load(Ordering::Relaxed) {
        return None;
    }
    let made = make_named();
    if made.is_none() && !silence::lasts() {
        NONE_TO_BE_HAD.store(true, Ordering::Relaxed);
    }
    made
}

fn make_named() -> Option<SocketWakeup> {
    let made = eventfd()?;
    let (reply, _) = request::send(Request::Name, made.0)?;
    let Reply::Named(name) = reply else { return None };
    Some(SocketWakeup { fd: hide(made)?, name })
}

fn eventfd() -> Option<Descriptor> {
    // SAFETY: only plain numbers are passed.
    let made = unsafe { libc::syscall(libc::SYS_eventfd2, 0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    (made >= 0).then_some(Descriptor(made as c_int))
}

fn close(fd: c_int) {
    mark(fd, false);
    kernel::close(fd);
}

impl SocketWakeup {
    /// Returns this thread's wakeup, and makes one if necessary; `None` if none can be made.
    pub(crate) fn of_thread() -> Option<SocketWakeup> {
        OWN.try_with(|own| {
            if own.0.get().is_none() {
                // Do not wait for the lock: this thread may hold it itself, if this is a signal handler.
                let free = FREE.try_lock().ok()?.pop();
                own.0.set(free.or_else(make_for_thread));
            }
            own.0.get()
        })
        .ok()?
    }

    /// Returns a wakeup for an `epoll` set; `None` if none can be made.
    pub(crate) fn of_set() -> Option<SocketWakeup> {
        // Do not wait for the lock: this thread may hold it itself, if this is a signal handler.
        let free = FREE_OF_SETS.try_lock().ok().and_then(|mut free| free.pop());
        free.or_else(make)
    }

    /// Keeps the wakeup of a closed set for reuse, because the broker names only a limited number of wakeups for a process.
    pub(crate) fn give_back(self) {
        match FREE_OF_SETS.try_lock() {
            Ok(mut free) => free.push(self),
            Err(_) => close(self.fd),
        }
    }

    /// Wakes the threads that sleep on this wakeup.
    pub(crate) fn signal(self) {
        signal(self.fd);
    }

    /// Consumes the signals that have arrived.
    pub(crate) fn clear(self) {
        let mut count = 0_u64;
        // SAFETY: a local variable of eight bytes.
        unsafe { libc::syscall(libc::SYS_read, self.fd, &raw mut count, 8) };
    }
}

/// Signals an `eventfd`. If its counter is full, the signal is not needed, because earlier ones are still there.
fn signal(fd: c_int) {
    let one = 1_u64;
    // SAFETY: a local variable of eight bytes.
    unsafe { libc::syscall(libc::SYS_write, fd, &raw const one, 8) };
}

/// Wakeup of a thread. When the thread ends, the wakeup becomes free for another thread.
struct ThreadWakeup(Cell<Option<SocketWakeup>>);

impl Drop for ThreadWakeup {
    fn drop(&mut self) {
        if let (Some(wakeup), Ok(mut free)) = (self.0.get(), FREE.try_lock()) {
            free.push(wakeup);
        }
    }
}

thread_local! {
    static OWN: ThreadWakeup = const { ThreadWakeup(Cell::new(None)) };
}

fn make_for_thread() -> Option<SocketWakeup> {
    let mut all = OF_THREADS.try_lock().ok()?;
    let wakeup = make()?;
    all.push(wakeup.fd);
    Some(wakeup)
}

/// Forgets and closes the wakeups of threads, in the child of a fork, because they are the parent's.
pub(crate) fn in_child() {
    let _ = OWN.try_with(|own| own.0.set(None));
    match FREE.try_lock() {
        Ok(mut free) => free.clear(),
        Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {
            NONE_TO_BE_HAD.store(true, Ordering::Relaxed)
        }
    }
    let Ok(mut all) = OF_THREADS.try_lock() else { return };
    let of_sets = FREE_OF_SETS.try_lock().map(|mut free| std::mem::take(&mut *free)).unwrap_or_default();
    all.drain(..).chain(of_sets.into_iter().map(|wakeup| wakeup.fd)).for_each(close);
}

/// States in the shared area which wakeup wakes this end of a connection, before the wakeup is requested. `alone` means that no other
/// thread of this end sleeps.
pub(crate) fn state(end: &EndpointWords, wakeup: Option<SocketWakeup>, is_set: bool, alone: bool) {
    let name = wakeup.map_or(BY_BYTES, |wakeup| wakeup.name | if is_set { OF_SET } else { 0 });
    let stated = end.wakeup.load(Ordering::SeqCst);
    if stated == name || stated == BY_BYTES {
        return;
    }
    let may_replace = stated == 0 || alone && stated & OF_SET == 0;
    let next = if may_replace { name } else { BY_BYTES };
    if end.wakeup.compare_exchange(stated, next, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        end.wakeup.store(BY_BYTES, Ordering::SeqCst);
    }
}

/// Returns whether a wake byte may be meant for several sleeping threads, only one of which receives it.
pub(crate) fn may_wake_several(end: &EndpointWords) -> bool {
    // This bit is also set in `BY_BYTES`, whose bits are all set.
    end.wakeup.load(Ordering::SeqCst) & OF_SET != 0
}

/// Signals the wakeup that the other end of a connection has stated in the area. Returns false if that end has to be woken by a byte
/// instead. `signalled` is the name of the wakeup that this connection signalled last; that wakeup stays open until the connection signals
/// another.
pub(crate) fn signal_stated(end: &EndpointWords, signalled: &AtomicU64) -> bool {
    let stated = end.wakeup.load(Ordering::SeqCst);
    if stated == 0 || stated == BY_BYTES {
        return false;
    }
    let name = stated & !OF_SET;
    if signalled.load(Ordering::Acquire) != name {
        match change(signalled, name) {
            FetchedWakeup::Kept => {}
            FetchedWakeup::NotNow => return false,
            FetchedWakeup::Never => {
                let by_bytes = (Ordering::SeqCst, Ordering::Relaxed);
                let _ = end.wakeup.compare_exchange(stated, BY_BYTES, by_bytes.0, by_bytes.1);
                return false;
            }
        }
    }
    let Some(kept) = find(name) else { return false };
    signal(kept.fd.load(Ordering::Acquire));
    true
}

/// Releases the wakeup that a connection signalled, because the connection is over and no call uses the wakeup any more.
pub(crate) fn give_up(signalled: &AtomicU64) {
    if signalled.load(Ordering::Acquire) != 0 && change(signalled, 0) == FetchedWakeup::NotNow {
        // The wakeup stays open. This only costs a descriptor.
        signalled.store(0, Ordering::Release);
    }
}

fn places(name: u64) -> impl Iterator<Item = &'static SharedWakeup> {
    let first = (name >> 1) as usize;
    (0..PROBES).map(move |i| &OTHERS[(first + i) % KEPT])
}

fn find(name: u64) -> Option<&'static SharedWakeup> {
    places(name).find(|kept| kept.name.load(Ordering::Acquire) == name)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchedWakeup {
    Kept,
    /// Another thread is changing the kept wakeups.
    NotNow,
    /// The broker knows no wakeup with this name, or no descriptor or place is free for it.
    Never,
}

/// Makes a connection signal the wakeup named `name` instead of its previous one. The broker is asked for the wakeup unless another
/// connection already signals it. A name of zero means none.
#[cold]
fn change(signalled: &AtomicU64, name: u64) -> FetchedWakeup {
    let mut attempts = (0..ATTEMPTS).map(|_| CHANGE.try_lock().inspect_err(|_| std::thread::yield_now()));
    let Some(Ok(_changing)) = attempts.find(Result::is_ok) else { return FetchedWakeup::NotNow };
    let before = kernel::errno();
    let is_kept = name == 0 || find(name).is_some() || ask(name).is_some_and(|fd| keep(name, fd));
    if is_kept {
        let old = signalled.swap(name, Ordering::AcqRel);
        if let Some(kept) = find(name).filter(|_| name != 0) {
            kept.users.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(kept) = find(old).filter(|_| old != 0)
            && kept.users.fetch_sub(1, Ordering::Relaxed) == 1
        {
            kept.name.store(0, Ordering::Release);
            close(kept.fd.swap(-1, Ordering::AcqRel));
        }
    }
    kernel::fail(before);
    if is_kept { FetchedWakeup::Kept } else { FetchedWakeup::Never }
}

fn ask(name: u64) -> Option<Descriptor> {
    // Every request must carry a descriptor, so send an unused one.
    let beside = eventfd()?;
    match request::send(Request::Wakeup(name), beside.0)? {
        (Reply::Wakeup, Some(fd)) => Some(fd),
        _ => None,
    }
}

/// Keeps a wakeup of another process. Returns false if no place or descriptor is free.
fn keep(name: u64, fd: Descriptor) -> bool {
    let Some(place) = places(name).find(|kept| kept.name.load(Ordering::Relaxed) == 0) else { return false };
    let Some(fd) = hide(fd) else { return false };
    place.fd.store(fd, Ordering::Release);
    place.name.store(name, Ordering::Release);
    true
}
