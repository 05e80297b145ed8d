//! MAC frames on the media-independent interface: preamble, padding, FCS, gaps (IEEE 802.3 clauses 3, 4, 46).

mod deframer;
mod framer;

pub use deframer::{Deframer, FrameError};
pub use framer::Framer;

/// Length of the shortest frame in bytes, without its FCS. A MAC pads shorter frames to this length (§4.2.3.3).
pub const MIN_FRAME: usize = 60;
/// Length of the longest accepted frame in bytes, without its FCS: the usual jumbo frame with 9000 B of payload, plus
/// its header and tags.
pub const MAX_FRAME: usize = 9022;
/// Length of the frame check sequence in bytes.
pub const FCS: usize = 4;
/// Average number of characters in the gap between two frames, including the character that ends the first frame (§46.3.1.4).
pub const GAP: usize = 12;
