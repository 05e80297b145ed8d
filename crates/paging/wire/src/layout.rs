//! Sizes, limits and times that both the pager and the memory node know.

use core::time::Duration;

/// Magic number at the start of both greetings.
pub const MAGIC: u64 = u64::from_le_bytes(*b"unrackmn");
/// Version of the protocol.
pub const VERSION: u16 = 2;
pub use unrack_basis::PAGE;
/// Bytes of a client's greeting.
pub const HELLO: usize = 32;
/// Bytes of a node's greeting.
pub const WELCOME: usize = 64;
/// Bytes at the start of a welcome that have the same layout in all versions.
pub const WELCOME_HEAD: usize = 12;
/// Bytes of a message's header.
pub const HEADER: usize = 16;
/// Maximum number of pages in one store or load message.
pub const MOST_PAGES: u32 = 64;
/// Number of page ids, counted from 0: 256 GiB of pages per session.
pub const MOST_IDS: u32 = 1 << 26;
/// Default time for which each end waits while the other end owes an answer and is silent. A machine that restarts its network returns
/// within this time, and TCP gives up a lost peer after the same time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Error for bytes that violate the protocol; the text states the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);
