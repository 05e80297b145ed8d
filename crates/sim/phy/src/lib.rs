//! Model of EDM in the Ethernet PHY, block by block ("EDM: An Ultra-Low Latency Ethernet Fabric for Memory Disaggregation", ASPLOS 2025).
//! It is based on the 64b/66b code of IEEE 802.3.
//!
//! | module | between | and |
//! |---|---|---|
//! | [`mac`] | frames | columns of the media-independent interface: preamble, FCS, gaps |
//! | [`pcs`] | columns | 66-bit blocks, scrambled blocks, bits (clause 49) |
//! | [`port`] | frames | scrambled blocks: both steps at once, many blocks at a time |
//! | [`edm`] | memory messages | blocks, on one line with those of frames |
//! | [`stack`] | requests of applications | blocks that nodes and a switch send, cycle by cycle |
//! | [`text`] | lines that people write and read | all of these |
//!
//! The crate performs no I/O: its functions take a block, a column or a cycle as input, and return the output. The command `unrack phy`
//! (`docs/phy.md`) prints these outputs.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod block;
pub mod edm;
pub mod mac;
pub mod pcs;
pub mod port;
pub mod stack;
pub mod text;

pub use block::{Block, CONTROL, DATA};
