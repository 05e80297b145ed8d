//! Preload library: puts the pager into an unmodified program.
//!
//! `unrack run` loads the library through `LD_PRELOAD`, before the program's first instruction. The library maps the control file that an
//! environment variable names, and starts the pager. It also wraps the C library's functions that fork, because a fork copies the address
//! space, and all pages must be in the program at that moment. In a process without the variable, the library has no effect.
//!
//! | module | calls |
//! |---|---|
//! | [`ends`] | `_exit` |
//! | [`executions`] | `exec`, `posix_spawn` and related functions |
//! | [`forks`] | `_Fork`, `clone`, and the `pthread_atfork` handlers for the other forks |
//! | [`limits`] | `setrlimit`, `getrlimit` |
//! | [`memory`] | `mlockall`, `mremap` |
//! | [`syscalls`] | `syscall`, `prctl` |
//! | [`threads`] | `pthread_create`, `thrd_create` |
//! | `next` | the C library's functions of these names |
//! | `leaks` | sanitizers that search for leaks |
//! | `programs` | whether a program will have this library |
//! | `sandbox` | filters of system calls |

pub mod ends;
pub mod executions;
pub mod forks;
mod leaks;
pub mod limits;
pub mod memory;
mod next;
mod programs;
mod sandbox;
pub mod syscalls;
pub mod threads;

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;
use unrack_pager::control::{CONTROL_VARIABLE, Unpaged};
#[cfg(target_arch = "x86_64")]
use unrack_pager::fast;
use unrack_pager::{attached, blocking, door, gate, heap, pins, sys};

// Functions on bytes, such as copies. If the program contains a sanitizer, the sanitizer's versions of these functions touch memory that
// may be remote, and a pager must not wait for that.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("../../pager/bytes.s"));

/// Allocator of this library: the pager's own heap.
#[global_allocator]
static HEAP: heap::PagerHeap = heap::PagerHeap;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = ends::at_exit;

extern "C" fn at_load() {
    next::look_all_up();
    let name = std::ffi::CString::new(CONTROL_VARIABLE).expect("no NUL in the name");
    // SAFETY: the program has only one thread so far.
    let path = unsafe { libc::getenv(name.as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: a string of the environment ends in NUL.
    let path = unsafe { CStr::from_ptr(path) };
    if let Err(error) = begin(path) {
        let path = path.to_string_lossy();
        eprintln!("unrack: this process runs without remote memory: {path}: {error}");
    }
}

fn begin(path: &CStr) -> Result<(), rustix::io::Errno> {
    unrack_pager::reserved_region::reserve()?;
    let control = attached::attach(path)?;
    if control.settings.limit_pages.load(Relaxed) == u64::MAX {
        return Ok(());
    }
    if sandbox::is_filtered_from_outside() {
        gate::stay_local(control, Unpaged::Filter);
        gate::set_filtered(true);
        return Ok(());
    }
    sys::refuse_huge_pages();
    #[cfg(target_arch = "x86_64")]
    if fast::is_wanted() {
        return fast::start(control);
    }
    // These handlers are registered first. Therefore they run last before the fork and first after it.
    // SAFETY: the handlers live as long as this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(forks::before_fork), Some(forks::after_fork), Some(forks::in_child)) };
    if leaks::are_looked_for() {
        door::guard_threads();
    }
    pins::pin_this_thread();
    if let Err(why) = blocking::start(control) {
        gate::stay_local(control, Unpaged::Limits);
        return Err(why);
    }
    blocking::wait_for_start();
    Ok(())
}
