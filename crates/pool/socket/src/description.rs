//! State of a connected socket that all processes which inherit it share: an open file description's, in the kernel's words.
//!
//! It lies in memory that a fork does not copy. It counts the bytes that pass through the kernel, by which both ends know
//! where the ring begins.

use crate::kernel;
use crate::lock::{Lock, thread_number};
use crate::zerocopy::calls::Calls;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that are mapped at a time.
const SLAB_BYTES: usize = 64 << 10;

/// Shared state of a socket.
#[repr(C, align(128))]
pub(crate) struct Description {
    /// Descriptors of it, in all processes.
    pub(crate) holders: AtomicU32,
    /// 1 if calls do not wait (`O_NONBLOCK`), as far as this library saw.
    pub(crate) nonblocking: AtomicU32,
    /// 1 once it is known to stay with the kernel.
    pub(crate) never: AtomicU32,
    /// 1 once a process has joined a ring for it: others must as well, before they go on.
    pub(crate) joined: AtomicU32,
    /// 1 once the program was told that the connection was reset.
    pub(crate) reset: AtomicU32,
    /// Calls so far, to tell connections that last.
    pub(crate) calls: AtomicU32,
    /// Number of calls at which the broker is asked.
    pub(crate) ask_at: AtomicU32,
    /// Thread of the relay that receives for another program; 0 if none. Other processes wait for what it puts back.
    pub(crate) lent: AtomicU32,
    /// Bytes sent and received through the kernel before the ring.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Gates of the calls that are in the kernel for these bytes.
    pub(crate) sending: Gate,
    pub(crate) receiving: Gate,
    /// Locks of this end's calls on the rings: not in the area, where the other end could hold them.
    pub(crate) send: Lock,
    pub(crate) recv: Lock,
    pub(crate) zerocopy: Calls,
    /// 1 if the program asked how many bytes are left after each message (`TCP_INQ`).
    pub(crate) inq: AtomicU32,
}

/// Count of calls that are under way, which one of them can close while it is the only one.
#[repr(transparent)]
pub(crate) struct Gate(AtomicU32);

const CLOSED: u32 = 1 << 31;
/// Count of holders of a description that one process has taken for another socket.
const RECYCLED: u32 = 1 << 30;

/// A call that is under way; dropping it ends it.
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    /// Enters, waiting while the gate is closed, which lasts a few instructions.
    pub(crate) fn enter(&self) -> Inside<'_> {
        while self.0.fetch_add(1, Ordering::SeqCst) & CLOSED != 0 {
            self.0.fetch_sub(1, Ordering::SeqCst);
            std::hint::spin_loop();
        }
        Inside(self)
    }
}

impl Inside<'_> {
    /// Runs a function while no other call is under way; returns false if one is.
    pub(crate) fn alone(&self, then: impl FnOnce()) -> bool {
        let closed = self.0.0.compare_exchange(1, 1 | CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        if closed.is_ok() {
            then();
            self.0.0.fetch_and(!CLOSED, Ordering::SeqCst);
        }
        closed.is_ok()
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Description {
    /// Returns true if a relay receives what comes, and puts back what its program leaves unread.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        let relay = self.lent.load(Ordering::Acquire);
        relay != 0 && self.is_lent_to_another(relay)
    }

    /// Gives up one holder. Returns true if it was the last.
    pub(crate) fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Makes the description free for another socket if no process holds it. No call of this process uses it any more.
    pub(crate) fn recycle(&'static self) {
        let taken = self.holders.compare_exchange(0, RECYCLED, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }

    /// Returns true if calls do not wait (`O_NONBLOCK`).
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn is_lent_to_another(&self, relay: u32) -> bool {
        if relay == thread_number() {
            return false;
        }
        if kernel::is_gone(relay) {
            let _ = self.lent.compare_exchange(relay, 0, Ordering::AcqRel, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Descriptions that are free, all of them of this process's own slabs.
static FREE: Mutex<Vec<&'static Description>> = Mutex::new(Vec::new());

/// Returns a description with one holder.
pub(crate) fn make(nonblocking: bool, ask_at: u32) -> Option<&'static Description> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.is_empty() {
        free.extend(slab()?);
    }
    let made = free.pop()?;
    for word in [&made.never, &made.joined, &made.reset, &made.calls, &made.lent] {
        word.store(0, Ordering::Relaxed);
    }
    made.nonblocking.store(u32::from(nonblocking), Ordering::Relaxed);
    made.ask_at.store(ask_at, Ordering::Relaxed);
    made.sent.store(0, Ordering::Relaxed);
    made.received.store(0, Ordering::Relaxed);
    made.inq.store(0, Ordering::Relaxed);
    made.zerocopy.reset();
    made.send.reset();
    made.recv.reset();
    made.sending.0.store(0, Ordering::Relaxed);
    made.receiving.0.store(0, Ordering::Relaxed);
    made.holders.store(1, Ordering::Release);
    Some(made)
}

fn slab() -> Option<impl Iterator<Item = &'static Description>> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let made = unsafe { libc::mmap(std::ptr::null_mut(), SLAB_BYTES, access, flags, -1, 0) };
    if made == libc::MAP_FAILED {
        return None;
    }
    let first = made.cast::<Description>();
    let count = SLAB_BYTES / size_of::<Description>();
    // SAFETY: never unmapped; zeros are atomic words.
    Some((0..count).map(move |i| unsafe { &*first.add(i) }))
}

/// Forgets free descriptions, in the child of a fork: the parent has the same.
pub(crate) fn forget_free() {
    match FREE.try_lock() {
        Ok(mut free) => *free = Vec::new(),
        // Another thread of the parent was at it, and is not here: what it did is half done.
        Err(_) => FREE.clear_poison(),
    }
}

const _: () = assert!(size_of::<Description>() == 128);
