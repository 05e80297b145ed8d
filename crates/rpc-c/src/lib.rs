//! Calls by reference for programs in C, and in what can call C: `include/unrack_rpc.h`, which is made from here.
//!
//! | module | idea |
//! |---|---|
//! | [`border`] | what crosses the border: checked pointers in, codes out, panics not at all |
//! | [`error`] | why something went wrong, with its cause and its peer |
//! | [`client`] | connections and calls |
//! | [`server`] | services and what their handlers see |
//! | [`message`] | bytes that a peer may write while they are read |

mod border;
mod client;
mod error;
mod message;
mod server;
mod stream;
