//! Remote memory inside a process.
//!
//! This is the part of `unrack run` that lives in the program whose memory is taken away. It is a guest there,
//! and keeps to a guest's rules: it allocates nothing from the program's heap ([`heap`], [`den`]), touches no
//! thread-local storage and no C library function that does ([`sys`]), shares no file descriptors, blocks all
//! signals, and holds no lock that a program's thread could wait for ([`gate`]).
//!
//! | module | idea |
//! |---|---|
//! | [`control`] | settings from `unrack` and counts of the pagers, in one shared file |
//! | [`blocking`] | the pager: a thread that serves faults |
//! | [`fast`] | the alternative: faults handled in the faulting thread |
//! | `residency` | the books that both keep: which pages are here, which goes next, what is on its way |
//! | [`table`] | location and state of each page |
//! | `memory` | the program's memory, as the kernel lets a pager at it |
//! | `transfers` | arrival, cost and capture of what goes over the link |
//! | `scan`, `stride` | memory that can be remote; first touches of successive pages |
//! | [`attached`] | the control file of this process, and the files beside it |
//! | `bare_thread` | threads that the C library does not know |
//! | [`gate`] | forks, merges of mappings, and the emergency end |
//! | `owner` | end of the run when `unrack` is killed |
//! | [`link`] | arrival times of pages |
//! | [`node`] | client of a memory node that holds the pages |
//! | [`pins`] | pages that are never taken |
//! | [`spool`] | capture of transfers |
//! | [`moves`] | moves of pages out of the program and into it |
//!
//! Uses go one way: a module is used by those above it alone. `tests/arrows.rs` looks.

pub mod attached;
pub mod blocking;
pub mod control;
pub mod den;
#[cfg(target_arch = "x86_64")]
pub mod fast;
pub mod gate;
pub mod heap;
pub mod link;
pub mod moves;
pub mod node;
pub mod pins;
pub mod spool;
pub mod sys;
pub mod table;

mod bare_thread;
mod maps;
mod memory;
mod owner;
mod residency;
mod scan;
mod stride;
mod transfers;
