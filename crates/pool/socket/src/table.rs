//! Table of the sockets that this process may carry by reference, indexed by descriptor.
//!
//! Calls on a descriptor without an entry go straight to the kernel. Entries are never freed, so a thread that finds an entry which is just
//! being replaced can still safely change its counters.

use crate::area::AreaMapping;
use crate::description::{self, Description};
use crate::patience::SpinTime;
use crate::wakeup;
use libc::c_int;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Descriptors from this number on stay with the kernel.
const MOST: usize = 1 << 16;

static ENTRIES: [AtomicPtr<Entry>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());
/// Highest descriptor that ever had an entry.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// State of a socket in this process. Descriptors made by `dup` share one entry.
pub(crate) struct Entry {
    /// Number of descriptors and of calls in progress.
    refs: AtomicU32,
    description: AtomicPtr<Description>,
    /// Address of the mapped area; null if there is none.
    area: AtomicPtr<u8>,
    /// Number of this end of the connection (0 or 1).
    end: AtomicU32,
    /// Patience of blocking calls.
    pub(crate) patience: SpinTime,
    /// Number of times that a sender found the ring full. Room that becomes free after such a time is news to an edge-triggered `epoll`
    /// set.
    pub(crate) was_full: AtomicU32,
    /// 1 if it is a Unix socket. Set when the socket gets its area.
    is_unix: AtomicU32,
    /// 1 if other processes that this process does not know of may have the socket.
    pub(crate) is_shared: AtomicU32,
    /// Name of the wakeup of the other end that was signalled last.
    pub(crate) signalled: AtomicU64,
    /// 1 once this library has turned off Nagle's algorithm in the kernel.
    pub(crate) prompt: AtomicU32,
    /// Value of `TCP_NODELAY` as the program set it, once `prompt` is 1.
    pub(crate) nodelay: AtomicU32,
}

/// A socket in use by a call, through one of its descriptors. Dropping it ends the use.
pub(crate) struct Socket {
    pub(crate) fd: c_int,
    entry: &'static Entry,
}

impl Deref for Socket {
    type Target = Entry;
    fn deref(&self) -> &Entry {
        self.entry
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.entry.release();
    }
}

impl Socket {
    /// Returns the descriptors of the socket in this process.
    pub(crate) fn descriptors(&self) -> Vec<c_int> {
        all(|other| std::ptr::eq(self.entry, other.entry))
    }
}

impl Entry {
    /// Returns the state that is shared with other processes.
    pub(crate) fn description(&self) -> &'static Description {
        // SAFETY: descriptions are never unmapped, and an entry in use has one.
        unsafe { &*self.description.load(Ordering::Relaxed) }
    }

    /// Returns the area and the number of this end of the connection, if this process has mapped the area.
    #[inline]
    pub(crate) fn area(&self) -> Option<(AreaMapping, usize)> {
        let base = self.area.load(Ordering::Acquire);
        // SAFETY: the area stays mapped until no call uses the entry any more.
        (!base.is_null()).then(|| (unsafe { AreaMapping::at(base) }, self.end.load(Ordering::Relaxed) as usize & 1))
    }

    /// Returns whether the socket has an area, so that rings may carry its bytes.
    #[inline]
    pub(crate) fn has_area(&self) -> bool {
        !self.area.load(Ordering::Acquire).is_null()
    }

    /// Returns whether the socket is a Unix socket that has an area.
    pub(crate) fn is_unix(&self) -> bool {
        self.is_unix.load(Ordering::Relaxed) != 0
    }

    /// Gives the entry its area. If another thread did so first, `map` is unmapped.
    pub(crate) fn join(&self, map: AreaMapping, end: usize, is_unix: bool) {
        self.end.store(end as u32, Ordering::Relaxed);
        self.is_unix.store(u32::from(is_unix), Ordering::Relaxed);
        let set = self.area.compare_exchange(null_mut(), map.base(), Ordering::AcqRel, Ordering::Acquire);
        match set {
            Ok(_) => {
                self.description().joined.store(1, Ordering::Release);
                map.head().ends[end].joined.store(1, Ordering::Release);
            }
            Err(_) => map.unmap(),
        }
    }

    /// Notes that the socket stays with the kernel, or returns to it, for good.
    pub(crate) fn stay(&self) {
        self.description().never.store(1, Ordering::Release);
        self.description().ask_at.store(u32::MAX, Ordering::Relaxed);
    }

    /// Returns whether no process has a descriptor of the socket, apart from `own` descriptors of this process.
    pub(crate) fn is_last(&self, own: usize) -> bool {
        self.description().holders.load(Ordering::Acquire) as usize <= own
            && self.is_shared.load(Ordering::Relaxed) == 0
    }

    /// Counts one more use of the entry. Returns false if the entry is not in use at all.
    fn hold(&self) -> bool {
        let mut refs = self.refs.load(Ordering::Relaxed);
        while refs != 0 {
            match self.refs.compare_exchange_weak(refs, refs + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => refs = now,
            }
        }
        false
    }

    fn release(&'static self) {
        if self.refs.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.retire();
        }
    }

    /// Frees the entry, because no descriptor and no call uses it any more.
    fn retire(&'static self) {
        wakeup::give_up(&self.signalled);
        let base = self.area.swap(null_mut(), Ordering::AcqRel);
        if !base.is_null() {
            // SAFETY: the area was mapped by `join`, and no call uses it any more.
            unsafe { AreaMapping::at(base) }.unmap();
        }
        self.description().recycle();
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// Returns the socket of a descriptor, if it has an entry.
#[inline]
pub(crate) fn get(fd: c_int) -> Option<Socket> {
    let place = ENTRIES.get(fd as usize)?;
    loop {
        let found = place.load(Ordering::Acquire);
        if found.is_null() {
            return None;
        }
        // SAFETY: entries are never freed.
        let entry = unsafe { &*found };
        if entry.hold() {
            let socket = Socket { fd, entry };
            if std::ptr::eq(place.load(Ordering::Acquire), found) {
                return Some(socket);
            }
        } else if std::ptr::eq(place.load(Ordering::Acquire), found) {
            // The entry's last use has ended, but it has not been removed yet.
            return None;
        }
    }
}

/// Returns whether a descriptor has an entry.
#[inline]
pub fn has(fd: c_int) -> bool {
    ENTRIES.get(fd as usize).is_some_and(|place| !place.load(Ordering::Relaxed).is_null())
}

/// Returns whether a descriptor is a socket that has an area.
pub(crate) fn is_carried(fd: c_int) -> bool {
    has(fd) && get(fd).is_some_and(|socket| socket.has_area())
}

/// Makes an entry for a connected socket, in place of any earlier entry of the descriptor.
pub(crate) fn insert(fd: c_int, nonblocking: bool, ask_at: u32) {
    if fd as usize >= MOST {
        return;
    }
    remove(fd);
    let Some(description) = description::make(nonblocking, ask_at) else { return };
    let entry = fresh();
    entry.description.store(std::ptr::from_ref(description).cast_mut(), Ordering::Relaxed);
    for word in [&entry.was_full, &entry.prompt, &entry.is_shared] {
        word.store(0, Ordering::Relaxed);
    }
    entry.patience.reset();
    entry.refs.store(1, Ordering::Release);
    HIGHEST.fetch_max(fd, Ordering::Relaxed);
    ENTRIES[fd as usize].store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
}

fn fresh() -> &'static Entry {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    free.unwrap_or_else(|| {
        Box::leak(Box::new(Entry {
            refs: AtomicU32::new(0),
            description: AtomicPtr::new(null_mut()),
            area: AtomicPtr::new(null_mut()),
            end: AtomicU32::new(0),
            patience: SpinTime::new(),
            was_full: AtomicU32::new(0),
            is_unix: AtomicU32::new(0),
            is_shared: AtomicU32::new(0),
            signalled: AtomicU64::new(0),
            prompt: AtomicU32::new(0),
            nodelay: AtomicU32::new(0),
        }))
    })
}

/// Returns another descriptor of the same entry, if there is one.
pub(crate) fn copy_of(fd: c_int) -> Option<c_int> {
    let found = ENTRIES.get(fd as usize)?.load(Ordering::Acquire);
    if found.is_null() {
        return None;
    }
    // SAFETY: entries are never freed. The descriptor itself accounts for one use.
    if unsafe { (*found).refs.load(Ordering::Acquire) } < 2 {
        return None;
    }
    let is_copy = |other: &c_int| *other != fd && ENTRIES[*other as usize].load(Ordering::Acquire) == found;
    (0..=HIGHEST.load(Ordering::Relaxed)).find(is_copy)
}

/// Gives the descriptor `to` the entry of `from`, after a `dup`.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    remove(to);
    let (Some(socket), Some(place)) = (get(from), ENTRIES.get(to as usize)) else { return };
    socket.description().holders.fetch_add(1, Ordering::AcqRel);
    socket.hold();
    HIGHEST.fetch_max(to, Ordering::Relaxed);
    place.store(std::ptr::from_ref(socket.entry).cast_mut(), Ordering::Release);
}

/// Removes a descriptor's entry, because its socket is closed or stays with the kernel.
pub(crate) fn remove(fd: c_int) {
    let Some(place) = ENTRIES.get(fd as usize) else { return };
    let found = place.swap(null_mut(), Ordering::AcqRel);
    if found.is_null() {
        return;
    }
    // SAFETY: entries are never freed.
    let entry: &'static Entry = unsafe { &*found };
    entry.description().release();
    entry.release();
}

/// Calls a function for each descriptor that has an entry.
pub(crate) fn for_each(mut then: impl FnMut(&Socket)) {
    for fd in 0..=HIGHEST.load(Ordering::Relaxed) {
        if has(fd)
            && let Some(socket) = get(fd)
        {
            then(&socket);
        }
    }
}

/// Returns the descriptors that have an entry and whose sockets satisfy a condition.
pub(crate) fn all(holds: impl Fn(&Socket) -> bool) -> Vec<c_int> {
    let mut found = Vec::new();
    for_each(|socket| {
        if holds(socket) {
            found.push(socket.fd);
        }
    });
    found
}

/// Counts every descriptor once more before a fork, or once less if the fork failed.
pub(crate) fn count_for_child(made: bool) {
    for_each(|socket| {
        let holders = &socket.description().holders;
        if made {
            holders.fetch_add(1, Ordering::AcqRel)
        } else {
            holders.fetch_sub(1, Ordering::AcqRel)
        };
    });
}
