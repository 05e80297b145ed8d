//! Calls and buffers by reference for C, and for any language that can call C. `include/unrack_rpc.h` is generated from this crate.
//!
//! | module | idea |
//! |---|---|
//! | [`border`] | conversions at the C boundary: checked pointers in, error codes out, no panics |
//! | [`error`] | kind, cause and peer of an error |
//! | [`client`] | connections and calls |
//! | [`server`] | services, and the calls that their handlers see |
//! | [`lend`] | buffers that are passed by reference without a call |
//! | [`message`] | copying bytes that a peer may write while they are read |

mod border;
mod client;
mod error;
mod lend;
mod message;
mod server;
mod stream;
