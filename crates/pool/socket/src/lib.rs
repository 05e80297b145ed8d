//! Stream sockets by reference (DRack §5.1): bytes pass through memory that both ends share, under unmodified programs.
//!
//! `unrack-socket-preload` puts these calls in place of the C library's. A connection is the kernel's from its first moment to
//! its last, so it has its names, its place in `ss` and its end from there, and what cannot be done by reference is done by the
//! kernel. When both ends have shown that they are there, the bytes of each direction change over to a ring; what still goes
//! through the kernel then are single bytes that wake a sleeping thread. `docs/decisions/0021-sockets.md` says why.
//!
//! Each group of modules uses those below it:
//!
//! | module | idea |
//! |---|---|
//! | [`make`], [`close`] | beginnings, copies and ends of descriptors |
//! | [`handover`] | sockets that another program, another process or the kernel alone goes on with |
//! | [`send`], [`recv`] | the bytes |
//! | [`ask`] | how an end finds that the other one shares memory with it |
//! | [`poll`], [`epoll`] | readiness of many sockets; [`ready`]: of one |
//! | [`options`], [`zerocopy`] | options of sockets; reports on buffers that were sent with `MSG_ZEROCOPY` |
//! | [`wait`] | sleeping of blocking calls; [`deadline`]: when they give up |
//! | [`carried`] | one end of a connection: what it knows, how it wakes the other end, how a direction changes over |
//! | [`table`] | the sockets of this process, by descriptor |
//! | [`description`] | state of a socket that forks share |
//! | [`patience`], [`crowd`] | how long a wait spins; whether there is a processor to spare for that |
//! | [`wakeup`] | what wakes a sleeping thread |
//! | [`request`], [`wire`] | requests to the broker; [`silence`]: a broker that does not answer |
//! | [`area`] | memory of a connection: a header, and a ring for each direction |
//! | [`memory`], [`pieces`] | whether the caller's buffers can be reached; the buffers |
//! | [`uring`] | whether the program's calls go past this library |
//! | [`lock`], [`kernel`] | lock of threads that may be killed; system calls |
//!
//! [`broker`] is the other side of the requests.

mod area;
mod pieces;
mod sync;

/// Leaves what needs a system out of the models (`make models`).
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
