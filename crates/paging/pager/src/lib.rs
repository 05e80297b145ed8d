//! Remote memory inside a process: the part of `unrack run` that runs in the program.
//!
//! The pager is a guest in a foreign program. It allocates nothing from the program's heap ([`heap`], [`den`]), uses no
//! thread-local storage and no C library function that does ([`sys`]), shares no file descriptors, blocks all signals,
//! and holds no lock that a program's thread could wait for ([`gate`]).
//!
//! There are two pagers. Begin with [`blocking`], the default; [`fast`] differs in where faults are handled.
//!
//! | module | idea |
//! |---|---|
//! | [`control`] | settings from `unrack` and counts of the pagers, in one shared file |
//! | [`blocking`] | the pager: a thread that serves faults |
//! | [`fast`] | the alternative: faults handled in the faulting thread |
//! | `residency` | what both record: which pages are local, which is evicted next, which are under way |
//! | [`table`] | location and state of each page |
//! | `reclaim` | what both do when pages are to be taken |
//! | `baseline` | pages that do not count as the program's |
//! | [`kept`] | private pages that nobody can take |
//! | `memory` | a pager's access to the program's memory |
//! | `transfers` | arrival, cost and capture of transfers on the link |
//! | `ranges` | sets of addresses |
//! | `scan`, `stride` | memory that can be remote; first touches of successive pages |
//! | `trend` | pages that a thread is about to want |
//! | [`attached`] | the control file of this process, and the files beside it |
//! | `carried` | descriptors that a thread carries to its child |
//! | [`bare_thread`] | threads that the C library does not know |
//! | [`door`] | threads that ask to be traced |
//! | [`gate`] | forks, merges of mappings, and the emergency end |
//! | [`handed`] | files for the pager of borrowed memory |
//! | `owner` | end of the run when `unrack` is killed |
//! | `peak` | most local memory |
//! | [`link`] | arrival times of pages |
//! | `naps` | sleeps that end when a page is due |
//! | [`node`] | client of a memory node that holds the pages |
//! | [`pagemap`] | presence of pages |
//! | [`pins`] | pages that are never taken |
//! | [`spool`] | capture of transfers |
//! | [`moves`] | moves of pages out of the program and into it |
//!
//! Uses go one way: no module is used by a module that it uses. `foundation/testing/tests/arrows.rs` checks that.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod attached;
pub mod bare_thread;
pub mod blocking;
mod carried;
pub mod control;
pub mod den;
pub mod door;
#[cfg(target_arch = "x86_64")]
pub mod fast;
pub mod gate;
pub mod handed;
pub mod heap;
pub mod kept;
pub mod link;
pub mod moves;
mod naps;
pub mod node;
pub mod pagemap;
pub mod pins;
pub mod spool;
pub mod sys;
pub mod table;

mod baseline;
mod maps;
mod memory;
mod owner;
mod peak;
mod ranges;
mod reclaim;
mod residency;
mod scan;
mod stride;
mod transfers;
mod trend;
