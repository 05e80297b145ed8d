//! File of recorded windows: written while the program runs, read afterwards.
//!
//! ```text
//! file    = "unracklw" version:u32 record*        little-endian; the first record is the header
//! record  = kind:u8 bytes:u32 crc:u32 payload     crc is that of kind and payload
//! header  = processor placements
//! block   = function instructions                 numbered from 0 in the order of the file
//! window  = thread start lead step* fetch* prefetch* write_back*
//! ```
//!
//! A record is handed to the file in one piece: a process that is killed leaves at most one incomplete record, at the end,
//! and the reader stops before it. A window refers only to blocks that stand before it, and its coding to nothing of the
//! windows before it.
//!
//! Numbers are LEB128 (7 bits a byte, least first). A step and an access are told as differences to what the same block
//! did last in this window ([`history`]): one byte for a step that follows as last time, one for an access that repeats
//! its stride.

mod bytes;
mod check;
mod code;
mod error;
mod history;
mod reader;
mod writer;

pub use error::RecordingError;
pub use reader::{Blocks, Reader};
pub use writer::RecordingWriter;

/// First bytes of each recording.
const MAGIC: &[u8; 8] = b"unracklw";
/// Version of the format.
const VERSION: u32 = 2;
/// Largest payload of a record, in bytes. A window of ten million instructions is smaller.
const LARGEST: usize = 1 << 26;
/// Largest name, in bytes. Longer names of functions are cut.
const LONGEST_NAME: usize = 1 << 10;
/// Largest number of placements: bits of a mask.
const PLACEMENTS: usize = 16;

const HEADER: u8 = 1;
const BLOCK: u8 = 2;
const WINDOW: u8 = 3;

/// Description of a recording, at its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the processor whose caches were simulated.
    pub processor: String,
    /// Names of the placements, at most 16: bit `i` of a mask is that of the `i`-th.
    pub placements: Vec<String>,
}

#[cfg(test)]
mod tests;
