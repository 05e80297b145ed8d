//! EDM's own blocks and messages (§3.1.4, §3.2).
//!
//! | module | |
//! |---|---|
//! | [`layout`] | every bit of the control blocks |
//! | [`message`] | RREQ, WREQ, RMWREQ, RRES as blocks |
//! | [`assemble`] | blocks assembled into messages; malformed messages are counted by kind |
//! | [`mux`] | the blocks of memory and of a frame on one line: pre-emption (§3.2.3) |
//! | [`demux`] | memory blocks and frames separated again |

pub mod assemble;
pub(crate) mod check;
pub mod demux;
pub mod layout;
pub mod message;
pub mod mux;

pub use assemble::{Assembler, Event, Malformed};
pub use demux::Demux;
pub use layout::{ControlFields, Kind, StartFields};
pub use message::{Body, MemoryMessage, RmwOperation};
pub use mux::{Mux, MuxPolicy};
