//! What a rack is asked to do: messages, sizes, arrivals, captured traces.
//!
//! | module | answers |
//! |---|---|
//! | [`message`] | what is carried: reads, writes, read-modify-writes, flows |
//! | [`source`] | the contract between whoever asks and whoever carries |
#![forbid(unsafe_code)]

pub mod message;
pub mod source;

pub use message::{Kind, Message, MessageId, NodeId};
pub use source::{Outbox, Source};
