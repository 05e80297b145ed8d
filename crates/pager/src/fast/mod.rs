//! Fast mode: faults are handled in the faulting thread.
//!
//! The blocking [`Pager`](crate::pager::Pager) costs two switches between threads for each fault. Here a missing
//! page raises `SIGBUS` in the thread that touched it (`UFFD_FEATURE_SIGBUS`), and the handler fetches the page.
//! The price is that the kernel's own accesses fail in this mode instead of waiting. So every system call of the
//! program is intercepted (Syscall User Dispatch), and its memory is made present first. A call that is not known
//! to be safe in this way ends the process with the reason.
//!
//! | module | idea |
//! |---|---|
//! | [`entry`] | entry from the kernel, and return to the program |
//! | [`engine`] | books, and handling of a fault |
//! | [`reclaim`] | choice of the pages to take |
//! | [`hold`] | memory in use by system calls |
//! | [`calls`], [`touches`], [`requests`] | the memory that each system call uses |
//! | [`space`] | `mmap` and related calls |
//! | [`signals`] | masks, handlers and stacks of signals |
//! | [`birth`] | threads, children and forks |
//! | [`descriptors`] | protection of our file descriptors |
//! | [`thread`], [`lock`], [`ranges`] | shared data structures |

mod birth;
mod calls;
mod descriptors;
mod engine;
mod entry;
mod hold;
mod lock;
mod ranges;
mod raw;
mod reclaim;
mod requests;
mod signals;
mod space;
mod thread;
mod touches;

use crate::control::{Control, count};
use crate::link::Delays;
use crate::owner::Owner;
use crate::pager::ProcFiles;
use crate::sys::{FEATURE_MOVE, FEATURE_SIGBUS, PAGE, Uffd, anonymous_pages};
use crate::{den, life, pins};
use descriptors::hide;
use engine::{Engine, Parts};
use ranges::Ranges;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use thread::Thread;

/// Features that the kernel's userfaultfd must offer.
pub const FEATURES: u64 = FEATURE_SIGBUS | FEATURE_MOVE;

/// Returns whether this kernel can hand system calls to a handler.
pub fn can_dispatch() -> bool {
    entry::can_dispatch()
}

/// Returns whether this process, if it runs with remote memory, does so in fast mode.
pub fn is_wanted() -> bool {
    life::control().is_some_and(|control| control.settings.fast.load(Relaxed) != 0)
}

/// Starts fast mode in this process. Call from the program's first thread, before `main`.
pub fn start(control: &'static Control) -> Result<(), Errno> {
    pins::pin_this_thread();
    start_engine(control, Ranges::default())?;
    entry::install()?;
    let thread = Thread::take(&lock::lock()).ok_or(Errno::NOMEM)?;
    thread.settle(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    // SAFETY: this thread's own block; it stands on the program's stack.
    unsafe { entry::enable(thread)? };
    thread.selector.store(thread::DISPATCH, Relaxed);
    Ok(())
}

/// Starts the engine, with empty books, and the tick thread.
fn start_engine(control: &'static Control, stacks: Ranges) -> Result<(), Errno> {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let slot = &control.slots[control.take_slot(pid).ok_or(Errno::NOSPC)?];
    let process = slot.process.load(Relaxed);
    let [maps, statm, pagemap] = [c"/proc/self/maps", c"/proc/self/statm", c"/proc/self/pagemap"].map(open);
    let files = ProcFiles { maps: maps?, statm: statm?, pagemap: pagemap? };
    let uffd = Uffd::open(FEATURES)?.with_descriptor(hide)?;
    uffd.register(den::arena(), den::ARENA_SLOTS * PAGE)?;
    let spool = life::open_spool(control, process)?.map(|spool| spool.with_descriptor(hide)).transpose()?;
    let baseline = anonymous_pages(files.statm.as_fd()).unwrap_or(0);
    let delays = Delays::new(control, life::samples(control), process);
    // SAFETY: only queries the end of the heap.
    let brk = unsafe { raw::call(libc::SYS_brk as usize, [0; 6]) } as usize;
    let owner = Owner::new(life::open_locked(control).map(hide).transpose()?);
    lock::put(Engine::new(Parts { control, slot, uffd, files, delays, spool, owner, stacks, baseline, brk }));
    count(&control.counts.processes, 1);
    life::with_signals_blocked(start_tick)
}

fn open(path: &std::ffi::CStr) -> Result<rustix::fd::OwnedFd, Errno> {
    use rustix::fs::{Mode, OFlags};
    hide(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn start_tick() -> Result<(), Errno> {
    let stack = den::stack_top(0) as *mut c_void;
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: `tick_main` never returns, uses only its own stack and memory, and touches no thread-local storage.
    match unsafe { libc::clone(reclaim::tick_main, stack, flags, std::ptr::null_mut()) } {
        -1 => Err(Errno::AGAIN),
        _ => Ok(()),
    }
}
