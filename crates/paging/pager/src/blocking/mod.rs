//! Blocking pager: a thread of ours serves the faults, and the threads that took them wait.
//!
//! Memory of which nothing was ever taken is not registered with the userfaultfd: until the program outgrows its
//! local memory, and in every mapping it makes later, first touches have their usual cost, and new pages are
//! found by scanning (`reclaim`).
//!
//! | module | idea |
//! |---|---|
//! | `life` | the thread: start, loop, fork |
//! | `borrowed` | memory that is given back while its program goes on |
//! | `births` | pages for children of such a program |
//! | `thaw` | every page back in the program, before a fork |
//! | `serve` | serving a fault |
//! | `ahead` | pages fetched before a thread waits for them |
//! | `reclaim` | choice of the pages to take |
//! | `waiting` | waits for the memory node |
//! | `changes` | following the program's `munmap`, `mremap`, `madvise` |
//! | `records` | end of a record, and emptying of its slot |
//! | `remote` | location of taken pages: in place, or at a memory node |
//! | `pager` | state of the pager, and its events |
//! | `landings` | session with a memory node, and where its pages arrive |
//! | `slots` | slots to be emptied |
//! | `helper` | thread that calls `madvise`, which the pager must not call |
//! | `silence` | time that the process has waited for the memory node |
//! | `threads` | the core on which a faulting thread wakes |

mod ahead;
mod births;
mod borrowed;
mod changes;
mod helper;
mod landings;
mod life;
mod pager;
mod reclaim;
mod records;
mod remote;
mod serve;
mod silence;
mod slots;
mod thaw;
mod threads;
mod waiting;

pub use borrowed::{FEATURES_TO_BORROW, start_to_borrow};
pub use life::{FEATURES, leave, start, start_in_child, start_late, threads, wait_for_start};
