//! Access to cache lines that other hosts write or read. Shared structures access such lines only through this module.
//!
//! Memory that hosts share need not be cache-coherent (HydraRPC §5.2): a host's stores may stay in its cache, and its
//! loads may return old copies. [`SharedMemory`] defines the operations that this requires, and each kind of memory
//! implements them:
//!
//! | kind | use | cost |
//! |---|---|---|
//! | [`Coherent`] | processes of one host; hosts whose hardware keeps shared memory coherent | that of plain atomics |
//! | [`Incoherent`] | cached mappings of memory that other hosts write: lines are written back and dropped | a memory access per line |
//! | [`Uncached`] | mappings that no cache keeps (MTRR, page attributes) | fences |
//! | [`Model`] | tests: each host has separate, stale copies, and loses or writes back lines at random | |
//!
//! Code is generic over `SharedMemory`, so that the coherent instance costs nothing. [`MemoryKind`] names the kinds for
//! code that chooses one at run time.
//!
//! # Rules
//!
//! These rules apply to all shared structures, for all kinds of memory:
//!
//! - **A line has one writer.** Other hosts only read the line. Writing a line back writes all its 64 bytes, and would
//!   therefore overwrite data that another host wrote in the same line. For this reason, buffers are aligned to lines
//!   and consist of whole lines.
//! - **No atomic read-modify-write between hosts.** It would happen in a cache, where other hosts do not see it.
//! - **Write, then publish; refresh, then read.** The data must be published before the entry that names it:
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
pub use model::{Device, DeviceView, IncoherentModel};

use crate::sync::AtomicU64;

/// Size of a cache line in bytes. A line is the unit that is written back, dropped, and owned by one writer.
pub const LINE: usize = 64;

/// Rounds a number of bytes up to whole lines.
pub const fn whole_lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// Access of one host to memory that it shares.
///
/// Ranges passed to these methods are widened to whole lines.
pub trait SharedMemory: Clone + Send + Sync + 'static {
    /// Makes this host's stores to the range visible to other hosts, before any store that this host makes afterwards.
    ///
    /// # Safety
    /// All lines of the range are mapped, and no other host writes them.
    unsafe fn publish(&self, at: *const u8, bytes: usize);

    /// Makes later loads of this host see the data that other hosts have published to the range.
    ///
    /// # Safety
    /// All lines of the range are mapped. This host has no unpublished stores in them.
    unsafe fn refresh(&self, at: *const u8, bytes: usize);

    /// Loads an entry that another host may have stored. Data that was published before the entry was stored can be
    /// read after it is refreshed.
    fn load(&self, entry: &AtomicU64) -> u64;

    /// Stores an entry and makes it visible to other hosts, after all data that was published before.
    fn store(&self, entry: &AtomicU64, value: u64);

    /// Prefetches a line that this host is about to write; only a hint.
    fn claim(&self, _line: *const u8) {}

    /// Prefetches a line that this host is about to read; only a hint.
    fn expect(&self, _line: *const u8) {}

    /// Copies bytes into shared memory and publishes them. Unlike writing in place, this may bypass the cache.
    ///
    /// # Safety
    /// As [`publish`](SharedMemory::publish); and the target is writable.
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller guarantees that the target is mapped writable and that no other host writes it.
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
