//! Error messages for two failures that the kernel causes: a refused memory allocation, and a file that may not grow.
//!
//! The standard library aborts if it cannot continue without memory. The allocator of this module calls the system's allocator, and records
//! the last refused allocation. The abort handler reports that allocation, and ends the process with status 1. Code that uses `try_reserve`
//! gets the refusal as an error, as usual. Programs that this process starts do not inherit the handlers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Size of the last refused allocation in bytes; 0 if no allocation was refused.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which also records refused allocations.
pub(crate) struct Noting;

impl Noting {
    fn noted(pointer: *mut u8, bytes: usize) -> *mut u8 {
        if pointer.is_null() {
            REFUSED.store(bytes, Relaxed);
        }
        pointer
    }
}

// SAFETY: every call is passed to the system's allocator unchanged, and its result is returned unchanged.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfills the contract of `GlobalAlloc::alloc`, which is the same for the system's allocator.
        Noting::noted(unsafe { System.alloc(layout) }, layout.size())
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfills the contract of `GlobalAlloc::alloc_zeroed`, which is the same for the system's allocator.
        Noting::noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: `pointer` was allocated by the system's allocator in one of these functions, with this layout.
        Noting::noted(unsafe { System.realloc(pointer, layout, bytes) }, bytes)
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` was allocated by the system's allocator in one of these functions, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Installs the handlers.
pub(crate) fn install() {
    for (signal, handler) in [(libc::SIGABRT, aborted as *const ()), (libc::SIGXFSZ, went_on as *const ())] {
        // SAFETY: all zeros is an empty mask and no flags; both handlers have the type of a handler without `SA_SIGINFO`, and call only
        // functions that are safe in a signal handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Handler for the limit of file sizes. It does nothing, so that the write fails with `EFBIG` and is reported like other failed writes.
extern "C" fn went_on(_: libc::c_int) {}

/// Handler for aborts. If an allocation was refused, it reports the refusal and ends the process. Otherwise it returns, so that the process
/// is aborted.
extern "C" fn aborted(_: libc::c_int) {
    let bytes = REFUSED.load(Relaxed);
    if bytes == 0 {
        return;
    }
    let mut digits = [0; 20];
    for text in [
        b"unrack: out of memory: ".as_slice(),
        decimal(bytes, &mut digits),
        b" bytes more were refused; lower what is asked for (unrack scenario check says what a scenario takes), or \
          raise the limit of memory (ulimit -v, a control group)\n",
    ] {
        // SAFETY: `write` is safe in a signal handler, and the bytes belong to a live slice.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: `_exit` is safe in a signal handler.
    unsafe { libc::_exit(1) }
}

/// Returns the decimal digits of a number, without allocating memory.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 10, 12_582_912, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
