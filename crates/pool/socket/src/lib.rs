//! Stream sockets by reference (DRack §5.1): bytes pass through memory that both ends share, under unmodified programs.
//!
//! `unrack-socket-preload` puts these calls in place of the C library's. A connection is the kernel's from its first moment to
//! its last, so it has its names, its place in `ss` and its end from there, and whatever cannot be done by reference is done
//! by the kernel. When both ends have shown that they are there, the bytes of each direction change over to a ring; what still
//! goes through the kernel then are single bytes that wake who sleeps. `docs/decisions/0021-sockets.md` says why.
//!
//! | module | idea |
//! |---|---|
//! | [`area`] | memory of a connection: a header, and a ring for each direction |
//! | [`table`] | the sockets of this process, by descriptor |
//! | [`description`] | state of a socket that forks share |
//! | [`send`], [`recv`] | the bytes |
//! | [`wait`] | blocking calls: spinning, and sleeping on the kernel's connection |
//! | [`crowd`] | whether there is a processor to spare for spinning |
//! | [`bell`] | what wakes a sleeper |
//! | [`ready`] | readiness of one socket; [`poll`], [`epoll`]: of many |
//! | [`make`], [`close`] | beginnings, copies and ends of descriptors |
//! | [`handover`] | sockets that another program, another process or the kernel alone goes on with |
//! | [`memory`] | whether the caller's buffers can be reached |
//! | [`options`] | options of sockets |
//! | [`zerocopy`] | reports on buffers that were sent with `MSG_ZEROCOPY` |
//! | [`uring`] | programs whose calls go past this library |
//! | [`ask`], [`broker`] | how two ends find that they share memory; [`request`], [`wire`]: their messages; [`silence`]: a broker that does not answer |
//! | [`lock`] | lock of threads that may be killed |
//! | [`pieces`] | the caller's buffers |
//! | [`kernel`] | system calls |

mod area;
mod pieces;
mod sync;

/// Leaves what needs a system out of the models (`make models`).
macro_rules! with_system {
    ($($item:item)*) => { $(#[cfg(not(loom))] $item)* };
}

with_system! {
    mod ask;
    mod bell;
    pub mod broker;
    pub mod close;
    mod crowd;
    mod description;
    pub mod epoll;
    pub mod handover;
    pub mod kernel;
    mod lock;
    pub mod make;
    pub mod memory;
    pub mod options;
    pub mod poll;
    mod ready;
    pub mod recv;
    mod request;
    pub mod send;
    mod silence;
    mod table;
    pub mod uring;
    mod wait;
    pub mod wire;
    pub mod zerocopy;

    pub use ask::{AFTER_VARIABLE, SOCKET_VARIABLE, path};
    pub use bell::{all as bells, is_ours as is_bell, while_still};
    pub use table::has;
}

pub use area::AREA_BYTES;
pub use pieces::Pieces;
