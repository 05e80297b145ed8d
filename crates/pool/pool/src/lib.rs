//! Shared memory of a rack, in which processes and hosts pass data by reference.
//!
//! `docs/decisions/0006-pool.md` says who owns which bytes, who may write them, and what a crash leaves. `unrack-rpc`
//! puts calls on top. Begin with [`client`], a process's view, and [`manager`], the other side.
//!
//! | module | idea |
//! |---|---|
//! | [`manager`] | owns the memory, records the holder of each part, reclaims what dead processes held |
//! | [`client`] | a process's connection: services, channels, segments |
//! | [`arena`] | the allocator: buffers over leased sections |
//! | [`bells`] | futexes on which processes sleep until a peer rings |
//! | [`cache_control`] | access to lines that others write: coherent memory, incoherent memory, or a model of it |
//! | [`space`] | the pool's address space in a process |
//! | [`hosts`] | hosts that share one device: who has what, and messages between their managers |
//! | [`interleave`] | one address space over several devices |
//! | [`listing`] | the manager's state, for people |
//! | [`process`] | the process that made a handle, and no child of it by `fork` |
//! | [`socket`] | default path of a user's pool, and whom a program trusts there |
//! | [`sync`] | synchronization primitives: the standard library's, or the model checker's |
//! | [`wire`] | the protocol between a process and the manager |

pub mod arena;
pub mod bells;
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
pub mod wire;

pub use arena::{Arena, Buffer, Cache};
pub use bells::{BELLS, Bell, Bells, LOST_RING, PeerBell, Rung};
pub use cache_control::LINE;
pub use client::{Channel, Client, Error, Offer, Pin, Segment, Service};
pub use manager::{Manager, Options};

/// Bytes of a section: a huge page (DRack §4.2).
pub const SECTION: u64 = 2 << 20;
/// Bytes of the smallest mapping.
pub const PAGE: u64 = unrack_basis::PAGE as u64;
