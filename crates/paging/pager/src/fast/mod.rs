//! Fast mode: faults are handled in the faulting thread.
//!
//! The blocking [pager](crate::blocking) costs two switches between threads for each fault. In fast mode, a missing page raises `SIGBUS` in
//! the thread that touched it (`UFFD_FEATURE_SIGBUS`), and the signal handler fetches the page. The price is that the kernel's own accesses
//! to missing pages fail in this mode instead of waiting. Therefore every system call of the program is intercepted (Syscall User
//! Dispatch), and the memory that the call uses is made present first. A call that is not known to be safe in this way ends the process
//! with the reason.
//!
//! | module | idea |
//! |---|---|
//! | `entry` | entry from the kernel |
//! | `calls` | handling of system calls: one of the four below makes a call, or the thread makes it itself |
//! | `birth` | threads, children and forks |
//! | `signals`, `action` | masks, handlers and stacks of signals |
//! | `delivery` | a signal's way to the program's handler, and back |
//! | `mappings` | `mmap` and related calls |
//! | `descriptors` | protection of the pager's file descriptors |
//! | `prepare`, `touches`, `requests` | the memory that each system call uses |
//! | `hold`, `holds` | memory in use by system calls |
//! | `fault` | handling of a fault |
//! | `start` | start of the engine |
//! | `reclaim` | eviction of pages |
//! | `engine` | all state, protected by a lock |
//! | `space` | bookkeeping of pages, and the memory that they are in |
//! | `dispatch`, `context` | ways of a thread to the handlers, and back to the program |
//! | `thread`, `lock`, `outcome`, `raw` | parts that the other modules share |

mod action;
mod birth;
mod calls;
mod context;
mod delivery;
mod descriptors;
mod dispatch;
mod engine;
mod entry;
mod fault;
mod hold;
mod holds;
mod lock;
mod mappings;
mod outcome;
mod prepare;
mod raw;
mod reclaim;
mod requests;
mod signals;
mod space;
mod start;
mod thread;
mod touches;

pub use dispatch::can_dispatch;
pub use start::FEATURES;

use crate::attached;
use crate::control::ControlHead;
use crate::pins;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;
use thread::Thread;

/// Returns whether this process runs with remote memory in fast mode.
pub fn is_wanted() -> bool {
    attached::control().is_some_and(|control| control.settings.fast.load(Relaxed) != 0)
}

/// Starts fast mode in this process. Must be called from the program's first thread, before `main`.
///
/// # Errors
/// `ENOSPC` if other processes use all slots of the control file, `ENOMEM` if there is no memory for this thread's block, `ENOENT` if the
/// code of this library is not found. Otherwise the kernel's error for the userfaultfd, the capture file, the new thread, or Syscall User
/// Dispatch.
pub fn start(control: &'static ControlHead) -> Result<(), Errno> {
    pins::pin_this_thread();
    start::start_engine(control)?;
    dispatch::find_text()?;
    entry::install()?;
    let thread = Thread::take(&engine::lock()).ok_or(Errno::NOMEM)?;
    thread.settle(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    // SAFETY: this thread's own block; the thread runs on the program's stack.
    unsafe { dispatch::enable(thread)? };
    signals::unblock_ours(thread);
    start::start_ticking()?;
    thread.selector.store(thread::DISPATCH, Relaxed);
    Ok(())
}
