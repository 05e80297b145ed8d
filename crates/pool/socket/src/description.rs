//! State of a connected socket that is shared by all processes which inherit the socket. It corresponds to an open file description of the
//! kernel.
//!
//! It lies in memory that a fork does not copy. It counts the bytes that pass through the kernel, because both ends derive from these
//! counts where the ring begins.

use crate::kernel;
use crate::lock::{Lock, thread_number};
use crate::zerocopy::calls::ZerocopyCounts;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that are mapped at a time, for many descriptions.
const SLAB_BYTES: usize = 64 << 10;

/// Shared state of a socket.
#[repr(C, align(128))]
pub(crate) struct Description {
    /// Descriptors of the socket, in all processes.
    pub(crate) holders: AtomicU32,
    /// 1 if calls do not wait (`O_NONBLOCK`), as far as this library has seen.
    pub(crate) nonblocking: AtomicU32,
    /// 1 once the socket stays with the kernel for good.
    pub(crate) never: AtomicU32,
    /// 1 once a process has mapped the shared area of this socket. Other processes that have the socket must map the area too, before their
    /// next call.
    pub(crate) joined: AtomicU32,
    /// 1 once the program has received `ECONNRESET` for this connection.
    pub(crate) reset: AtomicU32,
    /// Calls so far. The broker is asked only after some calls, because short connections are not worth it.
    pub(crate) calls: AtomicU32,
    /// Number of calls at which the broker is asked.
    pub(crate) ask_at: AtomicU32,
    /// Thread number of the relay that receives on this socket for another program; 0 if there is none. Other processes wait until the
    /// relay has put back the bytes that the program left unread.
    pub(crate) lent: AtomicU32,
    /// Bytes that were sent, and received, through the kernel before the ring.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Gates of the calls that are sending, and receiving, these bytes in the kernel.
    pub(crate) sending: Gate,
    pub(crate) receiving: Gate,
    /// Locks for this end's calls on the rings. They are not in the area, because there the other end could hold them.
    pub(crate) send: Lock,
    pub(crate) recv: Lock,
    pub(crate) zerocopy: ZerocopyCounts,
    /// 1 if the program asked to be informed how many bytes are left after each message (`TCP_INQ`).
    pub(crate) inq: AtomicU32,
}

/// Counter of calls in progress. A call can close the gate while it is the only one inside.
#[repr(transparent)]
pub(crate) struct Gate(AtomicU32);

const CLOSED: u32 = 1 << 31;
/// Value of `holders` for a description that one process has claimed in order to reuse it for another socket.
const RECYCLED: u32 = 1 << 30;

/// A call in progress. Dropping this value ends it.
pub(crate) struct CallInProgress<'a>(&'a Gate);

impl Gate {
    /// Enters the gate. Spins while the gate is closed, which lasts a few instructions.
    pub(crate) fn enter(&self) -> CallInProgress<'_> {
        while self.0.fetch_add(1, Ordering::SeqCst) & CLOSED != 0 {
            self.0.fetch_sub(1, Ordering::SeqCst);
            std::hint::spin_loop();
        }
        CallInProgress(self)
    }
}

impl CallInProgress<'_> {
    /// Runs a function if no other call is in progress, and keeps others out meanwhile. Returns false without running it otherwise.
    pub(crate) fn alone(&self, then: impl FnOnce()) -> bool {
        let closed = self.0.0.compare_exchange(1, 1 | CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        if closed.is_ok() {
            then();
            self.0.0.fetch_and(!CLOSED, Ordering::SeqCst);
        }
        closed.is_ok()
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Description {
    /// Returns whether a relay is receiving on this socket for another program, and will put back the bytes that the program leaves unread.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        let relay = self.lent.load(Ordering::Acquire);
        relay != 0 && self.is_lent_to_another(relay)
    }

    /// Releases one descriptor of the socket. Returns whether it was the last.
    pub(crate) fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Makes the description free for another socket, unless a process still holds it. No call of this process uses it any more.
    pub(crate) fn recycle(&'static self) {
        let taken = self.holders.compare_exchange(0, RECYCLED, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }

    /// Returns whether calls on the socket do not wait (`O_NONBLOCK`).
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

/// Free descriptions. All of them are in slabs that this process mapped.
static FREE: Mutex<Vec<&'static Description>> = Mutex::new(Vec::new());

/// Returns a description with one holder; `None` if no memory can be mapped.
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
    // SAFETY: the kernel chooses new memory.
    let made = unsafe { libc::mmap(std::ptr::null_mut(), SLAB_BYTES, access, flags, -1, 0) };
    if made == libc::MAP_FAILED {
        return None;
    }
    let first = made.cast::<Description>();
    let count = SLAB_BYTES / size_of::<Description>();
    // SAFETY: the memory is never unmapped, and zeros are valid atomic words.
    Some((0..count).map(move |i| unsafe { &*first.add(i) }))
}

/// Forgets the free descriptions, in the child of a fork, because the parent reuses the same ones.
pub(crate) fn forget_free() {
    match FREE.try_lock() {
        Ok(mut free) => *free = Vec::new(),
        // A thread of the parent was changing the list. This thread does not exist here, so the list may be inconsistent.
        Err(_) => FREE.clear_poison(),
    }
}

const _: () = assert!(size_of::<Description>() == 128);
