//! The one place through which lines that others write, or read, are reached.
//!
//! Memory that hosts share need not be cache-coherent (HydraRPC §5.2): what a host stores may stay in its
//! cache, and what it loads may be an old copy. [`Memory`] says what has to be done about that, and each
//! kind of memory does it:
//!
//! | kind | what it is for | cost |
//! |---|---|---|
//! | [`Coherent`] | processes of one host; hosts whose hardware keeps shared memory coherent | that of plain atomics |
//! | [`Incoherent`] | cached mappings of memory that other hosts write: lines are written back and dropped | a memory access a line |
//! | [`Uncached`] | mappings that no cache keeps (MTRR, page attributes) | fences |
//! | [`Model`] | tests: every host has its own stale copies, and loses or writes back lines when it likes | |
//!
//! Code is generic over `Memory`, so that the coherent instance costs nothing; [`Mode`] names the kinds
//! where they are chosen at run time.
//!
//! # Rules
//!
//! These hold for all shared structures, in all modes:
//!
//! - **A line has one writer.** Other hosts only read it. Writing back a line writes all 64 bytes of it, and so
//!   undoes what somebody else wrote beside. Buffers are therefore aligned to lines and whole lines long.
//! - **No atomic read-modify-write between hosts.** It happens in a cache, which others do not see.
//! - **Written first, then published; refreshed first, then read.** Data before the entry that names it:
//!   ```text
//!   writer: write data, publish(data), store(entry)
//!   reader: load(entry), refresh(data), read data
//!   ```
//! - What a line holds before its writer first published it is anything.

mod any;
mod coherent;
mod incoherent;
mod model;

pub use any::AnyMemory;
pub use coherent::{Coherent, Uncached};
pub use incoherent::{Incoherent, NoFlush};
pub use model::{Device, Model, View};

use crate::sync::AtomicU64;
use unrack_units::nearest;

/// Bytes of a cache line: what is written back, dropped, and owned as a whole.
pub const LINE: usize = 64;

/// Rounds up to whole lines.
pub const fn whole_lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// How one host reaches memory that it shares.
///
/// Ranges given to it are widened to whole lines.
pub trait Memory: Clone + Send + Sync + 'static {
    /// Makes what this host wrote to the range visible to others, before anything it stores afterwards.
    ///
    /// # Safety
    /// All lines of the range are mapped, and nobody else writes them.
    unsafe fn publish(&self, at: *const u8, bytes: usize);

    /// Makes loads that follow see what others published to the range before now.
    ///
    /// # Safety
    /// All lines of the range are mapped. This host has nothing in them that is written and not published.
    unsafe fn refresh(&self, at: *const u8, bytes: usize);

    /// Loads an entry that another host may have stored. What was published before it was stored can be read
    /// once it was refreshed.
    fn load(&self, entry: &AtomicU64) -> u64;

    /// Stores an entry and makes it visible, after everything that was published before.
    fn store(&self, entry: &AtomicU64, value: u64);

    /// This host is going to write the line: a hint, to have it as its own by then.
    fn claim(&self, _line: *const u8) {}

    /// This host is going to read the line: a hint, to have it near by then.
    fn expect(&self, _line: *const u8) {}

    /// Copies bytes into shared memory and publishes them. Unlike writing in place, this may go around the
    /// cache.
    ///
    /// # Safety
    /// As [`publish`](Memory::publish); and the target is writable.
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller has the target mapped writable, and nobody else writes it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            self.publish(to, bytes.len());
        }
    }
}

/// The kinds of memory, to choose among at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    Coherent,
    Incoherent,
    Uncached,
    Model,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Mode::Coherent => "coherent",
            Mode::Incoherent => "incoherent",
            Mode::Uncached => "uncached",
            Mode::Model => "model",
        })
    }
}

impl std::str::FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Mode, UnknownMode> {
        match text {
            "coherent" => Ok(Mode::Coherent),
            "incoherent" => Ok(Mode::Incoherent),
            "uncached" => Ok(Mode::Uncached),
            "model" => Ok(Mode::Model),
            _ => Err(UnknownMode(nearest::hint(text, &["coherent", "incoherent", "uncached", "model"]))),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("memory is not reached in this way{0}")]
pub struct UnknownMode(String);

/// The first byte of the first line of a range, and how many lines it touches.
fn lines(at: *const u8, bytes: usize) -> (*const u8, usize) {
    let before = at as usize % LINE;
    (at.wrapping_sub(before), whole_lines(before + bytes) / LINE)
}

#[cfg(all(test, not(loom)))]
mod tests;
