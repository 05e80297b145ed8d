//! Blocking pager: the pager's thread serves the faults, and the faulting threads wait.
//!
//! Memory from which no page was ever taken out is not registered with the userfaultfd. Therefore first touches have their usual cost until
//! the program outgrows its local memory, and in every mapping that it makes later; new pages are found by scanning (`reclaim`).
//!
//! | module | idea |
//! |---|---|
//! | `life` | the thread: start, end, fork |
//! | `borrowed` | memory that is given back while its program continues |
//! | `pager` | composition of the parts below, and the main loop |
//! | `serve` | serving a fault |
//! | `ahead` | pages fetched before a thread waits for them |
//! | `reclaim` | choice of the pages to evict |
//! | `thaw` | every page back in the program |
//! | `space` | the pages of the process, kept consistent with `munmap`, `mremap`, `madvise` |
//! | `births` | pages for children of a process whose memory is borrowed |
//! | `events` | messages of the kernel that were not handled yet |
//! | `fetches` | pages that were requested and have not arrived |
//! | `store` | contents of evicted pages: in place, or at a memory node |
//! | `watch` | the run's owner, and a silent memory node |
//! | `silence` | time that the process has waited for the memory node |
//! | `handover` | passing the core to the woken thread while one thread faults very often |
//! | `threads` | the core on which a faulting thread wakes |
//!
//! `Pager` owns one of each of these parts: `space` (with `events`, `fetches`, `store`, `watch`), `reclaim`, `threads`, `handover`. A part calls only
//! parts below it in this table.

mod ahead;
mod births;
mod borrowed;
mod events;
mod fetches;
pub(crate) mod handover;
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
pub use life::{
    FEATURES, FEATURES_TO_COPY, leave, start, start_in_child, start_late, threads, wait_for_start,
};
