//! Physical coding sublayer of 10GBASE-R and 25GBASE-R (IEEE 802.3 clauses 49 and 107).
//!
//! | module | |
//! |---|---|
//! | [`mod@column`] | eight characters of the media-independent interface |
//! | [`code`] | columns to blocks and back, each independently of the others (figure 49-7) |
//! | [`state`] | the same, with checks of the order of blocks (figures 49-16, 49-17) |
//! | [`scramble`] | x^58 + x^39 + 1 over payloads |
//! | [`bits`] | blocks to the bits of the line |
//! | [`lock`] | bits to blocks: search for block boundaries (figure 49-14) |

pub mod bits;
pub mod code;
pub mod column;
pub mod lock;
pub mod scramble;
pub mod state;

pub use bits::Line;
pub use column::{Column, ColumnSink};
pub use lock::BlockSync;
pub use scramble::{Descrambler, Scrambler};
pub use state::{BlockDecoder, Encoder};
