//! Wakeups: `eventfd`s by which the other end wakes a thread that sleeps, at a fraction of what a byte through TCP costs.
//!
//! Each thread that sleeps in `poll` or in a blocking call has one, and each `epoll` set with carried sockets. The sleeper
//! writes the name of its wakeup into the area. A thread of the other end asks the broker for the wakeup of that name, once,
//! and keeps it. Where there is none, the sleeper is woken by a byte through the kernel's connection, which every sleeper
//! watches as well.
//!
//! Descriptors of wakeups belong to this library: they lie at high numbers, and the program can neither close nor replace them.

use crate::area::End;
use crate::kernel;
use crate::request::{self, Descriptor};
use crate::silence;
use crate::wire::{Reply, Request};
use libc::c_int;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Name that says: wake by bytes, since several may sleep.
pub(crate) const BY_BYTES: u64 = u64::MAX;
/// Bit of a name in an area: the wakeup is a set's, on which a thread may sleep at any time.
const OF_SET: u64 = 1;
/// Lowest number of a wakeup's descriptor, above what programs use.
const LOWEST: c_int = 900;
/// Descriptors from this one on are no wakeups.
const MOST: usize = 4096;
/// Wakeups of other processes that are kept.
const KEPT: usize = 256;
/// Places where the wakeup of a name may be kept.
const PROBES: usize = 8;

/// A wakeup of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wakeup {
    pub(crate) fd: c_int,
    name: u64,
}

/// Descriptors of wakeups, a bit each.
static OURS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];
/// True once no wakeup could be made: there is no broker, or there are no descriptors.
static NONE_TO_BE_HAD: AtomicBool = AtomicBool::new(false);
/// Wakeups of threads that ended, for others.
static FREE: Mutex<Vec<Wakeup>> = Mutex::new(Vec::new());
/// Wakeups of sets that were closed, for others.
static FREE_OF_SETS: Mutex<Vec<Wakeup>> = Mutex::new(Vec::new());
/// Descriptors of all wakeups of threads, for the child of a fork to close.
static OF_THREADS: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// Wakeup of another process, which connections of this one share.
struct Kept {
    name: AtomicU64,
    fd: AtomicI32,
    /// Connections that signal it. Changed under [`CHANGE`], as the rest.
    users: AtomicU32,
}

/// Wakeups of other processes, each in one of [`PROBES`] places that its name gives.
static OTHERS: [Kept; KEPT] =
    [const { Kept { name: AtomicU64::new(0), fd: AtomicI32::new(-1), users: AtomicU32::new(0) } }; KEPT];
/// Lock of [`OTHERS`].
static CHANGE: Mutex<()> = Mutex::new(());
/// Lock of wakeups that are being made: see [`while_still`].
static MAKING: Mutex<()> = Mutex::new(());
/// Attempts to take the lock of wakeups that are being made.
const ATTEMPTS: u32 = 1000;

/// Returns true if a descriptor is a wakeup's, which the program must not touch.
#[inline]
pub fn is_ours(fd: c_int) -> bool {
    fd >= LOWEST
        && (fd as usize) < MOST
        && OURS[fd as usize / 64].load(Ordering::Relaxed) >> (fd % 64) & 1 != 0
}

/// Returns the descriptors of all wakeups, in order.
pub fn all() -> impl Iterator<Item = u32> {
    (LOWEST..MOST as c_int).filter(|fd| is_ours(*fd)).map(|fd| fd as u32)
}

/// Runs a function that closes descriptors of the program, while no wakeup is being made: one that is not known yet would be
/// closed as well.
pub fn while_still<T>(then: impl FnOnce() -> T) -> T {
    let _still = keep_still();
    then()
}

/// Takes the lock of wakeups that are being made; none if that lasts, because its owner may not exist: the child of a fork
/// has one thread only.
fn keep_still() -> Option<MutexGuard<'static, ()>> {
    (0..ATTEMPTS).find_map(|_| {
        let taken = MAKING.try_lock().ok();
        if taken.is_none() {
            std::thread::yield_now();
        }
        taken
    })
}

/// Marks a descriptor as a wakeup's, or no longer.
fn mark(fd: c_int, is_wakeup: bool) {
    let (word, bit) = (&OURS[fd as usize / 64], 1 << (fd % 64));
    if is_wakeup {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}

/// Moves a descriptor out of the program's way. The first one is closed.
fn hide(fd: Descriptor) -> Option<c_int> {
    let _hiding = keep_still();
    // SAFETY: plain numbers.
    let hidden = unsafe { libc::syscall(libc::SYS_fcntl, fd.0, libc::F_DUPFD_CLOEXEC, LOWEST) };
    let hidden = (hidden >= 0).then_some(hidden as c_int)?;
    if hidden as usize >= MOST {
        kernel::close(hidden);
        return None;
    }
    mark(hidden, true);
    Some(hidden)
}

/// Makes a wakeup, which the broker gives a name.
fn make() -> Option<Wakeup> {
    if NONE_TO_BE_HAD.load(Ordering::Relaxed) {
        return None;
    }
    let made = make_named();
    if made.is_none() && !silence::lasts() {
        NONE_TO_BE_HAD.store(true, Ordering::Relaxed);
    }
    made
}

fn make_named() -> Option<Wakeup> {
    let made = eventfd()?;
    let (reply, _) = request::send(Request::Name, made.0)?;
    let Reply::Named(name) = reply else { return None };
    Some(Wakeup { fd: hide(made)?, name })
}

fn eventfd() -> Option<Descriptor> {
    // SAFETY: plain numbers.
    let made = unsafe { libc::syscall(libc::SYS_eventfd2, 0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    (made >= 0).then_some(Descriptor(made as c_int))
}

fn close(fd: c_int) {
    mark(fd, false);
    kernel::close(fd);
}

impl Wakeup {
    /// Returns this thread's wakeup, if it can have one.
    pub(crate) fn of_thread() -> Option<Wakeup> {
        OWN.try_with(|own| {
            if own.0.get().is_none() {
                // A lock that is held may be this thread's own, which a signal interrupted.
                let free = FREE.try_lock().ok()?.pop();
                own.0.set(free.or_else(make_for_thread));
            }
            own.0.get()
        })
        .ok()?
    }

    /// Returns a wakeup for a set, if there is one to be had.
    pub(crate) fn of_set() -> Option<Wakeup> {
        // A lock that is held may be this thread's own, which a signal interrupted.
        let free = FREE_OF_SETS.try_lock().ok().and_then(|mut free| free.pop());
        free.or_else(make)
    }

    /// Gives back the wakeup of a set that is closed: the broker names only so many for a process.
    pub(crate) fn give_back(self) {
        match FREE_OF_SETS.try_lock() {
            Ok(mut free) => free.push(self),
            Err(_) => close(self.fd),
        }
    }

    /// Wakes the threads that sleep on it.
    pub(crate) fn signal(self) {
        signal(self.fd);
    }

    /// Takes in the signals that came.
    pub(crate) fn clear(self) {
        let mut count = 0_u64;
        // SAFETY: eight bytes of our own.
        unsafe { libc::syscall(libc::SYS_read, self.fd, &raw mut count, 8) };
    }
}

/// Signals an `eventfd`. One whose count is full has signals already.
fn signal(fd: c_int) {
    let one = 1_u64;
    // SAFETY: eight bytes of our own.
    unsafe { libc::syscall(libc::SYS_write, fd, &raw const one, 8) };
}

/// Wakeup of a thread, which another thread has after it.
struct OfThread(Cell<Option<Wakeup>>);

impl Drop for OfThread {
    fn drop(&mut self) {
        if let (Some(wakeup), Ok(mut free)) = (self.0.get(), FREE.try_lock()) {
            free.push(wakeup);
        }
    }
}

thread_local! {
    static OWN: OfThread = const { OfThread(Cell::new(None)) };
}

fn make_for_thread() -> Option<Wakeup> {
    let mut all = OF_THREADS.try_lock().ok()?;
    let wakeup = make()?;
    all.push(wakeup.fd);
    Some(wakeup)
}

/// Forgets wakeups of threads, in the child of a fork: they are the parent's.
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

/// States by which wakeup an end is woken, before a request to be woken. `alone` says that no other thread of the end sleeps.
pub(crate) fn state(end: &End, wakeup: Option<Wakeup>, is_set: bool, alone: bool) {
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

/// Returns true if wake bytes may be meant for several sleepers, of which one takes them in.
pub(crate) fn may_wake_several(end: &End) -> bool {
    // All bits of `BY_BYTES` are set.
    end.wakeup.load(Ordering::SeqCst) & OF_SET != 0
}

/// Signals the wakeup that an end stated. `signalled` is the name of the one that this connection signalled before, which stays
/// open until then. Returns false if the end has to be woken by a byte.
pub(crate) fn signal_stated(end: &End, signalled: &AtomicU64) -> bool {
    let stated = end.wakeup.load(Ordering::SeqCst);
    if stated == 0 || stated == BY_BYTES {
        return false;
    }
    let name = stated & !OF_SET;
    if signalled.load(Ordering::Acquire) != name {
        match change(signalled, name) {
            Fetched::Kept => {}
            Fetched::NotNow => return false,
            Fetched::Never => {
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

/// Gives up the wakeup that a connection signalled: the connection is over, and no call uses it any more.
pub(crate) fn give_up(signalled: &AtomicU64) {
    if signalled.load(Ordering::Acquire) != 0 && change(signalled, 0) == Fetched::NotNow {
        // Kept open: that costs a descriptor, and no more.
        signalled.store(0, Ordering::Release);
    }
}

fn places(name: u64) -> impl Iterator<Item = &'static Kept> {
    let first = (name >> 1) as usize;
    (0..PROBES).map(move |i| &OTHERS[(first + i) % KEPT])
}

fn find(name: u64) -> Option<&'static Kept> {
    places(name).find(|kept| kept.name.load(Ordering::Acquire) == name)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetched {
    Kept,
    /// Another thread changes the kept wakeups.
    NotNow,
    /// The broker knows no such wakeup, or there is no descriptor for it.
    Never,
}

/// Makes a connection signal another wakeup than before, which the broker is asked for if no connection signals it; zero for
/// none.
#[cold]
fn change(signalled: &AtomicU64, name: u64) -> Fetched {
    let mut attempts = (0..ATTEMPTS).map(|_| CHANGE.try_lock().inspect_err(|_| std::thread::yield_now()));
    let Some(Ok(_changing)) = attempts.find(Result::is_ok) else { return Fetched::NotNow };
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
    if is_kept { Fetched::Kept } else { Fetched::Never }
}

fn ask(name: u64) -> Option<Descriptor> {
    // A request has a descriptor beside it; any will do.
    let beside = eventfd()?;
    match request::send(Request::Wakeup(name), beside.0)? {
        (Reply::Wakeup, Some(fd)) => Some(fd),
        _ => None,
    }
}

/// Keeps a wakeup, if there is a place.
fn keep(name: u64, fd: Descriptor) -> bool {
    let Some(place) = places(name).find(|kept| kept.name.load(Ordering::Relaxed) == 0) else { return false };
    let Some(fd) = hide(fd) else { return false };
    place.fd.store(fd, Ordering::Release);
    place.name.store(name, Ordering::Release);
    true
}
