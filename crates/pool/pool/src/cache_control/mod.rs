//! Access to lines that other hosts write or read: the only place through which shared structures reach them.
//!
//! Memory that hosts share need not be cache-coherent (HydraRPC §5.2): a host's stores may stay in its cache, and
//! its loads may return old copies. [`SharedMemory`] names what has to be done about that, and each kind of memory does
//! it:
//!
//! | kind | what it is for | cost |
//! |---|---|---|
//! | [`Coherent`] | processes of one host; hosts whose hardware keeps shared memory coherent | as plain atomics |
//! | [`Incoherent`] | cached mappings of memory that other hosts write: lines are written back and dropped | a memory access a line |
//! | [`Uncached`] | mappings that no cache keeps (MTRR, page attributes) | fences |
//! | [`Model`] | tests: every host has its own stale copies, and loses or writes back lines at random | |
//!
//! Code is generic over `SharedMemory`, so that the coherent instance costs nothing; [`MemoryKind`] names the kinds
//! where they are chosen at run time.
//!
//! # Rules
//!
//! These hold for all shared structures, in all modes:
//!
//! - **A line has one writer.** Other hosts only read it. Writing back a line writes all 64 bytes of it, and so
//!   undoes what another host wrote in the same line. Buffers are therefore aligned to lines and whole lines
//!   long.
//! - **No atomic read-modify-write between hosts.** It would happen in a cache, where other hosts do not see it.
//! - **Write, then publish; refresh, then read.** Data goes before the entry that names it:
//!   ```text
//!   writer: write data, publish(data), store(entry)
//!   reader: load(entry), refresh(data), read data
//!   ```
//! - The contents of a line are arbitrary until its writer first publishes it.

mod any;
mod coherent;
mod incoherent;
mod kind;
mod model;

pub use any::AnyMemory;
pub use coherent::{Coherent, Uncached};
pub use incoherent::{Incoherent, NoFlush};
pub use kind::{MemoryKind, UnknownMode};
pub use model::{Device, DeviceView, Model};

use crate::sync::AtomicU64;

/// Bytes of a cache line: the unit that is written back, dropped, and owned.
pub const LINE: usize = 64;

/// Rounds a number of bytes up to whole lines.
pub const fn whole_lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// Access of one host to memory that it shares.
///
/// Ranges passed to these methods are widened to whole lines.
pub trait SharedMemory: Clone + Send + Sync + 'static {
    /// Makes what this host wrote to the range visible to others, before anything it stores afterwards.
    ///
    /// # Safety
    /// All lines of the range are mapped, and no other host writes them.
    unsafe fn publish(&self, at: *const u8, bytes: usize);

    /// Makes the loads that follow see what others published to the range before now.
    ///
    /// # Safety
    /// All lines of the range are mapped. This host has no unpublished stores in them.
    unsafe fn refresh(&self, at: *const u8, bytes: usize);

    /// Loads an entry that another host may have stored. Data published before the entry was stored can be read
    /// once it is refreshed.
    fn load(&self, entry: &AtomicU64) -> u64;

    /// Stores an entry and makes it visible, after all that was published before.
    fn store(&self, entry: &AtomicU64, value: u64);

    /// Prefetches a line that this host is about to write: a hint.
    fn claim(&self, _line: *const u8) {}

    /// Prefetches a line that this host is about to read: a hint.
    fn expect(&self, _line: *const u8) {}

    /// Copies bytes into shared memory and publishes them. Unlike writing in place, this may bypass the cache.
    ///
    /// # Safety
    /// As [`publish`](SharedMemory::publish); and the target is writable.
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller has the target mapped writable, and nobody else writes it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            self.publish(to, bytes.len());
        }
    }
}

/// Returns the address of the first line of a range, and the number of lines that the range touches.
fn lines(at: *const u8, bytes: usize) -> (*const u8, usize) {
    let before = at as usize % LINE;
    (at.wrapping_sub(before), whole_lines(before + bytes) / LINE)
}

#[cfg(all(test, not(loom)))]
mod tests;
