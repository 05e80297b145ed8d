//! Fast mode: faults are handled in the faulting thread.
//!
//! The blocking [pager](crate::blocking) costs two switches between threads for each fault. Here a missing
//! page raises `SIGBUS` in the thread that touched it (`UFFD_FEATURE_SIGBUS`), and the handler fetches the page.
//! The price is that the kernel's own accesses fail in this mode instead of waiting. So every system call of the
//! program is intercepted (Syscall User Dispatch), and its memory is made present first. A call that is not known
//! to be safe in this way ends the process with the reason.
//!
//! | module | idea |
//! |---|---|
//! | `entry` | entry from the kernel |
//! | `calls` | handling of system calls: one of the four below makes a call, or it proceeds by itself |
//! | `birth` | threads, children and forks |
//! | `signals`, `action` | masks, handlers and stacks of signals |
//! | `delivery` | a signal's way to the program's handler, and back |
//! | `mappings` | `mmap` and related calls |
//! | `descriptors` | protection of our file descriptors |
//! | `prepare`, `touches`, `requests` | the memory that each system call uses |
//! | `hold`, `holds` | memory in use by system calls |
//! | `fault` | handling of a fault |
//! | `start` | start of the engine |
//! | `reclaim` | taking of pages |
//! | `engine` | all state, behind the lock |
//! | `space` | books of pages, and the memory that they are in |
//! | `dispatch`, `context` | ways of a thread to the handlers, and back to the program |
//! | `thread`, `lock`, `outcome`, `raw` | what the others share |

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

/// Returns whether this process, if it runs with remote memory, does so in fast mode.
pub fn is_wanted() -> bool {
    attached::control().is_some_and(|control| control.settings.fast.load(Relaxed) != 0)
}

/// Starts fast mode in this process. Call from the program's first thread, before `main`.
///
/// # Errors
/// `ENOSPC` if all slots of the control file are taken by processes, `ENOMEM` if there is no memory for this thread's
/// block, `ENOENT` if the instructions of this library are not found; else what the kernel said to userfaultfd, to the
/// capture file, to a new thread, or to Syscall User Dispatch.
pub fn start(control: &'static ControlHead) -> Result<(), Errno> {
    pins::pin_this_thread();
    start::start_engine(control)?;
    dispatch::find_text()?;
    entry::install()?;
    let thread = Thread::take(&engine::lock()).ok_or(Errno::NOMEM)?;
    thread.settle(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    // SAFETY: this thread's own block; it stands on the program's stack.
    unsafe { dispatch::enable(thread)? };
    signals::unblock_ours(thread);
    start::start_ticking()?;
    thread.selector.store(thread::DISPATCH, Relaxed);
    Ok(())
}
