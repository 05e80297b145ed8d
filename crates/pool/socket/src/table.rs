//! Table of the sockets that this process may carry by reference, by descriptor.
//!
//! A descriptor without an entry goes straight to the kernel. Entries are never given back to the allocator, so that a thread
//! which finds one that is just being replaced may still count in it.

use crate::area::{Direction, End, Head, Map, RING_BYTES, UNIX_BYTES};
use crate::bell;
use crate::description::{self, Description};
use crate::lock::Held;
use libc::c_int;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Descriptors from this one on stay with the kernel.
const MOST: usize = 1 << 16;

static ENTRIES: [AtomicPtr<Entry>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());
/// Highest descriptor that ever had an entry.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// A socket, as this process has it. Descriptors made by `dup` share one.
pub(crate) struct Entry {
    /// Descriptors, and calls under way.
    refs: AtomicU32,
    description: AtomicPtr<Description>,
    /// The mapping; null while there is none.
    area: AtomicPtr<u8>,
    end: AtomicU32,
    /// Nanoseconds that a blocking call spins before it sleeps.
    pub(crate) patience: AtomicU32,
    /// Times that a sender found the ring full: `epoll` reports the room after each as a change.
    pub(crate) was_full: AtomicU32,
    /// 1 if it is a Unix socket; known once it has an area.
    pub(crate) is_unix: AtomicU32,
    /// 1 if other processes may have the socket that this one does not know of.
    pub(crate) is_shared: AtomicU32,
    /// Name of the bell of the other end that was rung last.
    rung: AtomicU64,
    /// 1 once the kernel's Nagle algorithm was turned off.
    pub(crate) prompt: AtomicU32,
    /// Value of `TCP_NODELAY` as the program left it, from then on.
    pub(crate) nodelay: AtomicU32,
}

/// Use of an entry by a call; dropping it ends the use.
pub(crate) struct Use(&'static Entry);

/// A connection's area, as one end sees it.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) head: &'a Head,
    /// Number of this end.
    pub(crate) end: usize,
    description: &'static Description,
    rung: &'a AtomicU64,
    /// The direction that this end sends in.
    pub(crate) out: Direction<'a>,
    /// The direction that this end receives in.
    pub(crate) inward: Direction<'a>,
}

impl Link<'_> {
    /// Takes the lock of this end's sending calls.
    pub(crate) fn lock_send(&self) -> Held<'static> {
        self.description.send.take()
    }

    /// Takes the lock of this end's receiving calls.
    pub(crate) fn lock_recv(&self) -> Held<'static> {
        self.description.recv.take()
    }

    /// Returns the words of this end.
    pub(crate) fn this_end(&self) -> &End {
        &self.head.ends[self.end]
    }

    /// Rings the bell of the other end. Returns false if it has to be woken by a byte.
    pub(crate) fn ring(&self) -> bool {
        bell::ring(&self.head.ends[1 - self.end], self.rung)
    }

    /// Rings the bell of this end, by which other processes of it may be woken.
    pub(crate) fn ring_own(&self) {
        let rung = AtomicU64::new(0);
        bell::ring(self.this_end(), &rung);
        bell::give_up(&rung);
    }

    /// Returns the link, after what the other end asked for was done.
    #[inline]
    pub(crate) fn settled(&self, fd: c_int) -> &Self {
        crate::send::settle(self, fd);
        self
    }
}

impl Deref for Use {
    type Target = Entry;
    fn deref(&self) -> &Entry {
        self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Entry {
    /// Returns the state that is shared with other processes.
    pub(crate) fn description(&self) -> &'static Description {
        // SAFETY: descriptions are never unmapped, and an entry in use has one.
        unsafe { &*self.description.load(Ordering::Relaxed) }
    }

    /// Returns the area, if this process has mapped one.
    #[inline]
    pub(crate) fn link(&self) -> Option<Link<'_>> {
        let base = self.area.load(Ordering::Acquire);
        (!base.is_null()).then(|| self.link_at(base))
    }

    fn link_at(&self, base: *mut u8) -> Link<'_> {
        // SAFETY: mapped until no call uses the entry any more.
        let map = unsafe { Map::at(base) };
        // SAFETY: mapped until no call uses the entry any more; made of atomic words.
        let head = unsafe { &*base.cast::<Head>() };
        let end = self.end.load(Ordering::Relaxed) as usize & 1;
        let limit = if self.is_unix.load(Ordering::Relaxed) != 0 { UNIX_BYTES } else { RING_BYTES };
        // SAFETY: each ring is behind its header, mapped twice, for as long.
        let direction =
            |i: usize| unsafe { Direction::new(&head.directions[i], &head.journals[i], map.ring(i), limit) };
        Link {
            head,
            end,
            description: self.description(),
            rung: &self.rung,
            out: direction(end),
            inward: direction(1 - end),
        }
    }

    /// Gives the entry its area. Unmaps it if another thread was first.
    pub(crate) fn join(&self, map: Map, end: usize, is_unix: bool) {
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

    /// Counts one use more, unless there is none.
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

    /// Ends the entry: no descriptor and no call has it any more.
    fn retire(&'static self) {
        bell::give_up(&self.rung);
        let base = self.area.swap(null_mut(), Ordering::AcqRel);
        if !base.is_null() {
            // SAFETY: mapped by `join`, and nobody uses it any more.
            unsafe { Map::at(base) }.unmap();
        }
        description::recycle(self.description());
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// Returns the entry of a descriptor.
#[inline]
pub(crate) fn get(fd: c_int) -> Option<Use> {
    let place = ENTRIES.get(fd as usize)?;
    loop {
        let found = place.load(Ordering::Acquire);
        if found.is_null() {
            return None;
        }
        // SAFETY: entries are never given back.
        let entry = unsafe { &*found };
        if entry.hold() {
            let used = Use(entry);
            if std::ptr::eq(place.load(Ordering::Acquire), found) {
                return Some(used);
            }
        } else if std::ptr::eq(place.load(Ordering::Acquire), found) {
            // Between its last use and its removal.
            return None;
        }
    }
}

/// Returns true if a descriptor has an entry.
#[inline]
pub fn has(fd: c_int) -> bool {
    ENTRIES.get(fd as usize).is_some_and(|place| !place.load(Ordering::Relaxed).is_null())
}

/// Makes an entry for a connected socket.
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
    entry.patience.store(crate::wait::FIRST_PATIENCE, Ordering::Relaxed);
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
            patience: AtomicU32::new(0),
            was_full: AtomicU32::new(0),
            is_unix: AtomicU32::new(0),
            is_shared: AtomicU32::new(0),
            rung: AtomicU64::new(0),
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
    // SAFETY: entries are never given back. One use is that of the descriptor itself.
    if unsafe { (*found).refs.load(Ordering::Acquire) } < 2 {
        return None;
    }
    let is_copy = |other: &c_int| *other != fd && ENTRIES[*other as usize].load(Ordering::Acquire) == found;
    (0..=HIGHEST.load(Ordering::Relaxed)).find(is_copy)
}

/// Makes a second descriptor of an entry, as `dup` did.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    remove(to);
    let (Some(entry), Some(place)) = (get(from), ENTRIES.get(to as usize)) else { return };
    entry.description().holders.fetch_add(1, Ordering::AcqRel);
    entry.hold();
    HIGHEST.fetch_max(to, Ordering::Relaxed);
    place.store(std::ptr::from_ref(entry.0).cast_mut(), Ordering::Release);
}

/// Removes a descriptor's entry, whose socket goes on with the kernel or is closed. Returns true if no process has another
/// descriptor of it.
pub(crate) fn remove(fd: c_int) -> bool {
    let Some(place) = ENTRIES.get(fd as usize) else { return false };
    let found = place.swap(null_mut(), Ordering::AcqRel);
    if found.is_null() {
        return false;
    }
    // SAFETY: entries are never given back.
    let entry: &'static Entry = unsafe { &*found };
    let is_last = description::release(entry.description());
    entry.release();
    is_last
}

/// Calls a function for each descriptor that has an entry.
pub(crate) fn for_each(mut then: impl FnMut(c_int, &Use)) {
    for fd in 0..=HIGHEST.load(Ordering::Relaxed) {
        if has(fd)
            && let Some(entry) = get(fd)
        {
            then(fd, &entry);
        }
    }
}

/// Returns this process's descriptors of a socket.
pub(crate) fn same(entry: &Entry) -> Vec<c_int> {
    let mut found = Vec::new();
    for_each(|fd, other| {
        if std::ptr::eq(entry, &raw const **other) {
            found.push(fd);
        }
    });
    found
}

/// Counts all descriptors once more, before a fork; or once less, when it failed.
pub(crate) fn count_for_child(made: bool) {
    for_each(|_, entry| {
        let holders = &entry.description().holders;
        if made {
            holders.fetch_add(1, Ordering::AcqRel)
        } else {
            holders.fetch_sub(1, Ordering::AcqRel)
        };
    });
}
