//! Shared memory of a rack, in which processes and hosts pass data by reference.
//!
//! `docs/decisions/0006-pool.md` states which process owns which bytes, which processes may write them, and what a
//! crash leaves behind. `unrack-rpc` builds calls on top of the pool. Start with [`client`], the view of a process, and
//! [`manager`], the server that it connects to.
//!
//! | module | idea |
//! |---|---|
//! | [`manager`] | owns the memory, records the holder of each part, reclaims the memory of dead processes |
//! | [`client`] | a process's connection: services, channels, segments |
//! | [`arena`] | the allocator: buffers in leased sections |
//! | [`wakeups`] | futexes on which processes sleep until a peer rings |
//! | [`cache_control`] | access to cache lines that others write: coherent memory, incoherent memory, or a model of it |
//! | [`space`] | the pool's address space in a process |
//! | [`hosts`] | hosts that share one device: which host holds which sections, and messages between their managers |
//! | [`interleave`] | one address space over several devices |
//! | [`listing`] | the manager's state, for people |
//! | [`process`] | check that a handle is used in the process that made it, not in a child by `fork` |
//! | [`socket`] | default socket path of a user's pool, and the users whom a program trusts there |
//! | [`sync`] | synchronization primitives: the standard library's, or the model checker's |
//! | [`wire`] | the protocol between a process and the manager |

pub mod arena;
pub mod cache_control;
pub mod client;
pub mod hosts;
pub mod interleave;
pub mod listing;
pub mod manager;
pub mod process;
pub mod socket;
pub mod space;
pub mod sync;
pub mod wakeups;
pub mod wire;

pub use arena::{Arena, Buffer, Cache};
pub use cache_control::LINE;
pub use client::{Channel, Client, Error, Offer, Pin, Segment, Service};
pub use manager::{Manager, Options};
pub use wakeups::{LOST_RING, PeerWakeup, WAKEUPS, WakesSent, Wakeup, Wakeups};

/// Size of a section in bytes: one huge page (DRack §4.2).
pub const SECTION: u64 = 2 << 20;
/// Size of the smallest mapping in bytes.
pub const PAGE: u64 = unrack_basis::PAGE as u64;
