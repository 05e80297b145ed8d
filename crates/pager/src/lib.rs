//! Remote memory inside a process.
//!
//! This is the part of `unrack run` that lives in the program whose memory is taken away. It is a guest
//! there, and keeps to a guest's rules: it allocates nothing from the program's heap ([`heap`], [`den`]),
//! touches no thread-local storage and no C library function that does ([`sys`]), shares no file
//! descriptors, blocks all signals, and holds no lock that a program's thread could wait for ([`gate`]).
//!
//! | module | idea |
//! |---|---|
//! | [`control`] | what `unrack` wants and what pagers count, in one shared file |
//! | [`fast`] | the other way: faults handled in the faulting thread |
//! | [`life`] | the pager thread: start, loop, fork |
//! | [`pager`] | serving a fault |
//! | [`reclaim`] | which pages go |
//! | `baseline` | which pages are not the program's |
//! | [`changes`] | following the program's `munmap`, `mremap`, `madvise` |
//! | [`table`] | which page is where |
//! | `helper` | `madvise`, which the pager must not call |
//! | `owner` | the end of `unrack` is the end of its run |
//! | `silence` | how long the memory node lets us wait |
//! | [`link`] | when a page arrives |
//! | `remote` | where taken pages go |
//! | [`node`] | a memory node that holds the pages |
//! | [`pins`] | what is never taken |
//! | [`spool`] | capture |
//! | [`moves`] | pages out of the program and into it |
//! | [`threads`] | on which core a faulting thread wakes |

pub mod control;
pub mod den;
#[cfg(target_arch = "x86_64")]
pub mod fast;
pub mod gate;
pub mod heap;
mod helper;
pub mod life;
pub mod link;
pub mod moves;
pub mod node;
pub mod pins;
pub mod spool;
pub mod sys;
pub mod table;

mod baseline;
mod changes;
mod maps;
mod owner;
mod pager;
mod reclaim;
mod remote;
mod silence;
mod threads;
