//! Remote memory inside a process: the part of `unrack run` that runs in the program.
//!
//! The pager is a guest in a foreign program and must not disturb it. Therefore the pager allocates nothing from the program's heap
//! ([`heap`], [`reserved_region`]), uses no thread-local storage and no C library function that does ([`sys`]), shares no file descriptors
//! with the program, blocks all signals in its threads, and holds no lock that a thread of the program could wait for ([`gate`]).
//!
//! There are two pagers. Begin with [`blocking`], the default; [`fast`] handles faults elsewhere, namely in the faulting thread.
//!
//! | module | idea |
//! |---|---|
//! | [`control`] | settings from `unrack` and counts of the pagers, in one shared file |
//! | [`blocking`] | the pager: a thread that serves faults |
//! | [`fast`] | the alternative: faults handled in the faulting thread |
//! | `residency` | state that both pagers keep: which pages are local, which is evicted next, which are in flight |
//! | [`table`] | location and state of each page |
//! | `reclaim` | steps that both pagers take when pages are to be evicted |
//! | `baseline` | pages that do not count as the program's |
//! | [`kept`] | private pages that cannot be evicted |
//! | `memory` | a pager's access to the program's memory |
//! | `transfers` | arrival, cost and capture of transfers on the link |
//! | `ranges` | sets of addresses |
//! | `scan`, `stride` | memory that can be remote; first touches of successive pages |
//! | `trend` | prediction of the pages that a thread will need next |
//! | [`attached`] | the control file of this process, and the files next to it |
//! | `carried` | descriptors that a forking thread passes to its child |
//! | [`bare_thread`] | threads that the C library does not know |
//! | [`door`] | threads that ask to be traced |
//! | [`gate`] | forks, merges of mappings, and the emergency end |
//! | [`handed`] | files for the pager of borrowed memory |
//! | `owner` | end of the run when `unrack` is killed |
//! | `peak` | peak of local memory |
//! | [`link`] | arrival times of pages |
//! | `naps` | sleeps that end when a page is due |
//! | [`node`] | client of a memory node that holds the pages |
//! | [`pagemap`] | presence of pages |
//! | [`pins`] | pages that are never evicted |
//! | [`spool`] | capture of transfers |
//! | [`moves`] | moves of pages out of the program and into it |
//! | [`copies`] | copies in place of moves, for kernels before Linux 6.8 |
//! | `helper` | thread that makes calls which the blocking pager must not make |
//!
//! Modules do not depend on each other in a cycle. `foundation/testing/tests/arrows.rs` checks that.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod attached;
pub mod bare_thread;
pub mod blocking;
mod carried;
pub mod control;
pub mod copies;
pub mod door;
#[cfg(target_arch = "x86_64")]
pub mod fast;
pub mod gate;
pub mod handed;
pub mod heap;
pub mod link;
pub mod moves;
mod naps;
pub mod node;
pub mod pagemap;
pub mod pins;
pub mod reserved_region;
pub mod spool;
pub mod sys;
pub mod table;
pub mod unevictable;

mod baseline;
mod helper;
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
