//! Dispatch of a thread's faults and system calls to the handlers of fast mode.
//!
//! Reference: `Documentation/admin-guide/syscall-user-dispatch.rst`.

use super::context::own_code;
use super::raw;
use super::thread::Thread;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rustix::io::Errno;

/// Address and length from [`own_text`], stored because a thread that begins cannot ask the loader.
static TEXT: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Finds the range of this library's code, whose system calls the kernel must not intercept. Must be called first, while there is one
/// thread.
pub(super) fn find_text() -> Result<(), Errno> {
    let (start, len) = own_text().ok_or(Errno::NOENT)?;
    TEXT[0].store(start, Relaxed);
    TEXT[1].store(len, Relaxed);
    Ok(())
}

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;

/// Returns whether the kernel supports Syscall User Dispatch. Tests this by switching it off, which has no other effect.
pub fn can_dispatch() -> bool {
    // SAFETY: Syscall User Dispatch is off already.
    unsafe { raw::call(libc::SYS_prctl as usize, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]) == 0 }
}

/// Directs the calling thread's faults and system calls to fast mode's handlers from now on.
///
/// # Safety
/// `thread` is the calling thread. It does not run on the stack of its block, or is about to leave that stack.
pub(super) unsafe fn enable(thread: &Thread) -> Result<(), Errno> {
    let stack = thread.stack();
    // SAFETY: this thread's own memory, which stays.
    raw::check(unsafe {
        raw::call(libc::SYS_sigaltstack as usize, [&raw const stack as usize, 0, 0, 0, 0, 0])
    })?;
    dispatch(thread)
}

/// Enables the dispatch of system calls, which is the part of [`enable`] that a fork does not copy.
pub(super) fn dispatch(thread: &Thread) -> Result<(), Errno> {
    const PR_SYS_DISPATCH_ON: usize = 1;
    let [start, len] = TEXT.each_ref().map(|part| part.load(Relaxed));
    let selector = thread.selector.as_ptr() as usize;
    let dispatch = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, len, selector, 0];
    // SAFETY: the selector is this thread's own, and stays.
    raw::check(unsafe { raw::call(libc::SYS_prctl as usize, dispatch) })
}

/// Returns the address and length of this library's code: the executable segment that contains this function.
fn own_text() -> Option<(usize, usize)> {
    const FOLLOWING: usize = 16;
    let here = own_code();
    struct FaultSite {
        here: usize,
        text: Option<(usize, usize)>,
    }
    extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and our own `Found`.
        let (info, found) = unsafe { (&*info, &mut *(found as *mut FaultSite)) };
        for n in 0..info.dlpi_phnum as usize {
            // SAFETY: there are this many headers.
            let segment = unsafe { &*info.dlpi_phdr.add(n) };
            let start = info.dlpi_addr as usize + segment.p_vaddr as usize;
            let len = segment.p_memsz as usize;
            if segment.p_flags & libc::PF_X != 0 && (start..start + len).contains(&found.here) {
                // The kernel compares the address behind the system call instruction.
                found.text = Some((start, len + FOLLOWING));
            }
        }
        0
    }
    let mut found = FaultSite { here, text: None };
    // SAFETY: `look` has the required form and receives a `Found`.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.text
}
