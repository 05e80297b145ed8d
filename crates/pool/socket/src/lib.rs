//! Stream sockets by reference (DRack §5.1): the bytes of a connection pass through memory that its two ends share, under unmodified
//! programs.
//!
//! `unrack-socket-preload` puts these calls in place of the C library's. A connection remains a kernel connection for its whole life: it
//! keeps its addresses, its line in `ss` and its end of stream, and the kernel does everything that cannot be done by reference. Once both
//! ends have shown that they have this library, the bytes of each direction change over to a ring. After that, only single bytes that wake
//! a sleeping thread pass through the kernel. `docs/decisions/0021-sockets.md` gives the reasons for this design.
//!
//! Each group of modules in this table uses only the groups below it:
//!
//! | module | idea |
//! |---|---|
//! | [`make`], [`close`] | creation, duplication and closing of descriptors |
//! | [`handover`] | sockets that are handed to another program, to another process or to the kernel alone |
//! | [`send`], [`recv`] | sending and receiving of bytes |
//! | [`ask`] | how an end of a connection finds out that the other end shares memory with it |
//! | [`poll`], [`epoll`] | readiness of many sockets; [`ready`]: readiness of one socket |
//! | [`options`], [`zerocopy`] | options of sockets; reports on buffers that were sent with `MSG_ZEROCOPY` |
//! | [`wait`] | sleeping of blocking calls; [`deadline`]: when these calls time out |
//! | [`carried`] | one end of a connection: its state, how it wakes the other end, how a direction changes over |
//! | [`table`] | the sockets of this process, by descriptor |
//! | [`description`] | state of a socket that a process shares with the children that it forks |
//! | [`patience`], [`crowd`] | how long a wait spins; whether a processor is idle, so that spinning costs nothing |
//! | [`wakeup`] | the `eventfd` that wakes a sleeping thread |
//! | [`request`], [`wire`] | requests to the broker; [`silence`]: a broker that does not answer |
//! | [`area`] | memory of a connection: a header, and a ring for each direction |
//! | [`memory`], [`pieces`] | whether the caller's buffers can be accessed; the buffers |
//! | [`uring`] | whether the program uses `io_uring`, whose operations bypass this library |
//! | [`lock`], [`kernel`] | a lock whose owner may be killed; system calls |
//!
//! [`broker`] is the server that answers these requests.

mod area;
mod pieces;
mod sync;

/// Leaves modules that make system calls out of the build for the model checker (`make models`).
macro_rules! with_system {
    ($($item:item)*) => { $(#[cfg(not(loom))] $item)* };
}

with_system! {
    mod ask;
    pub mod broker;
    mod carried;
    pub mod close;
    mod crowd;
    mod deadline;
    mod description;
    pub mod epoll;
    pub mod handover;
    pub mod kernel;
    mod lock;
    pub mod make;
    pub mod memory;
    pub mod options;
    mod patience;
    pub mod poll;
    mod ready;
    pub mod recv;
    mod request;
    pub mod send;
    mod silence;
    mod table;
    mod uring;
    mod wait;
    mod wakeup;
    pub mod wire;
    pub mod zerocopy;

    pub use ask::AFTER_VARIABLE;
    pub use request::{SOCKET_VARIABLE, path};
    pub use table::has;
    pub use wakeup::{all as wakeups, is_ours as is_wakeup, while_still};
}

pub use area::AREA_BYTES;
pub use pieces::Pieces;
