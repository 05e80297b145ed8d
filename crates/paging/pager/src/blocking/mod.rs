//! Blocking pager: the pager's thread serves the faults, and the threads that took them wait.
//!
//! Memory of which nothing was ever taken is not registered with the userfaultfd: until the program outgrows its
//! local memory, and in every mapping it makes later, first touches have their usual cost, and new pages are
//! found by scanning (`reclaim`).
//!
//! | module | idea |
//! |---|---|
//! | `life` | the thread: start, end, fork |
//! | `borrowed` | memory that is given back while its program goes on |
//! | `pager` | composition of the parts below, and the main loop |
//! | `serve` | serving a fault |
//! | `ahead` | pages fetched before a thread waits for them |
//! | `reclaim` | choice of the pages to take |
//! | `thaw` | every page back in the program |
//! | `space` | the pages of the process, kept true to `munmap`, `mremap`, `madvise` |
//! | `births` | pages for children of a process whose memory is borrowed |
//! | `events` | messages of the kernel that were not handled yet |
//! | `fetches` | pages that were requested and have not arrived |
//! | `store` | contents of taken pages: in place, or at a memory node |
//! | `watch` | the run's owner, and a silent memory node |
//! | `silence` | time that the process has waited for the memory node |
//! | `helper` | thread that calls `madvise`, which the pager must not call |
//! | `threads` | the core on which a faulting thread wakes |
//!
//! `Pager` owns one of each: `space` (with `events`, `fetches`, `store`, `watch`), `reclaim`, `threads`. A part calls those below
//! it in this table only.

mod ahead;
mod births;
mod borrowed;
mod events;
mod fetches;
mod helper;
mod life;
mod pager;
mod reclaim;
mod serve;
mod silence;
mod space;
mod store;
mod thaw;
mod threads;
mod watch;

pub use borrowed::{FEATURES_TO_BORROW, start_to_borrow};
pub use life::{FEATURES, leave, start, start_in_child, start_late, threads, wait_for_start};
