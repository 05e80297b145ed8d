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
//! | [`fast`] | the alternative: faults handled in the faulting thread |
//! | [`life`] | the pager thread: start, loop, fork |
//! | [`pager`] | serving a fault |
//! | [`reclaim`] | choice of the pages to take |
//! | `baseline` | anonymous pages that do not count as the program's |
//! | [`changes`] | following the program's `munmap`, `mremap`, `madvise` |
//! | [`table`] | location and state of each page |
//! | `helper` | thread that calls `madvise`, which the pager must not call |
//! | `owner` | end of the run when `unrack` is killed |
//! | `silence` | time that the process has waited for the memory node |
//! | [`link`] | arrival times of pages |
//! | `remote` | storage of taken pages |
//! | [`node`] | client of a memory node that holds the pages |
//! | [`pins`] | pages that are never taken |
//! | [`spool`] | capture of transfers |
//! | [`moves`] | moves of pages out of the program and into it |
//! | [`threads`] | the core on which a faulting thread wakes |

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
