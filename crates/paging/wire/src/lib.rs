//! Protocol between a pager and a memory node, byte for byte (decision 2). Numbers are little-endian.
//!
//! The pager is a guest in a program: it may not use the C library's allocator, its thread-local storage or its locks. Therefore this crate
//! is `no_std`, without `alloc` or `unsafe`, and contains only numbers and arrays. The protocol is a separate crate because the compiler
//! can enforce this for a whole crate only. Layouts are structs of little-endian integers, whose sizes the compiler checks against the
//! arrays (`zerocopy`, which is `no_std` here as well).
//!
//! ```text
//! hello    magic 8 | version 2 | transport 2 | page bytes 4 | reserved pages 8 | zero 8
//! welcome  magic 8 | version 2 | status 2 | most pages a message 4 | capacity 8 | free 8 | most ids 4
//!          | extent pages 4 | share 8 | silence 4 | identity 8 | zero 4
//! header   verb 1 | zero 1 | count 2 | id 4 | number 4 | detail 4
//! ```
//! | request | body | reply |
//! |---|---|---|
//! | store | `count` pages | the same header; `detail`: how many of them, from the first on, the node now holds |
//! | load | | the same header, then `count` pages |
//! | forget | | none |
//! | grant (shared memory) | | the same header with a descriptor beside it; or `detail` 1: full |
//! | ping | | the same header |
//!
//! Replies come in the order of their requests, and repeat the header with 0x80 added to the verb. Instead of any reply, the node may send
//! *bye*, with the reason in `detail`, and end the session.

#![no_std]
#![forbid(unsafe_code)]

mod greeting;
mod layout;
mod message;

pub use greeting::{GreetingStatus, Hello, PageTransport, Welcome};
pub use layout::{
    HEADER, HELLO, MAGIC, MOST_IDS, MOST_PAGES, Malformed, PAGE, PATIENCE, VERSION, WELCOME, WELCOME_HEAD,
};
pub use message::{EndReason, Header, Verb};
