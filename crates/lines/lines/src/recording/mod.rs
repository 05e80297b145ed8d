//! Recording: file of recorded windows, which is written while a program runs and read afterwards.
//!
//! ```text
//! file    = "unracklw" version:u32 record*        little-endian; the first record is the header
//! record  = kind:u8 bytes:u32 crc:u32 payload     crc covers kind and payload
//! header  = processor placements
//! block   = function instructions                 numbered from 0 in the order of the file
//! window  = thread start lead step* fetch* prefetch* write_back*
//! ```
//!
//! The writer writes each record to the file in one piece. A process that is killed therefore leaves at most one
//! incomplete record, at the end of the file, and the reader stops before this record. A window refers only to blocks
//! that precede it in the file. The encoding of a window does not depend on earlier windows.
//!
//! Numbers are encoded as LEB128 (7 bits per byte, least significant first). A step or an access is encoded as its
//! difference from a prediction, which is based on the last execution of the same block in this window ([`history`]).
//! Therefore a step takes one byte if its block is the predicted one, and an access takes one byte if it repeats its
//! stride.

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

/// First bytes of every recording.
const MAGIC: &[u8; 8] = b"unracklw";
/// Version of the format.
const VERSION: u32 = 2;
/// Maximum payload of a record, in bytes. The record of a window of ten million instructions is smaller.
const LARGEST: usize = 1 << 26;
/// Maximum length of a name of a processor, placement or function, in bytes. Longer function names are truncated.
const LONGEST_NAME: usize = 1 << 10;
/// Maximum number of placements. It is the number of bits of a near mask, which has one bit for each placement.
const PLACEMENTS: usize = 16;

const HEADER: u8 = 1;
const BLOCK: u8 = 2;
const WINDOW: u8 = 3;

/// Header of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the processor whose caches were simulated.
    pub processor: String,
    /// Names of the placements, at most 16. The name with index `i` belongs to bit `i` of a near mask.
    pub placements: Vec<String>,
}

#[cfg(test)]
mod tests;
