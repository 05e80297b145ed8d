//! Preload library: carries the stream sockets of an unmodified program by reference, where the other end has it as well.
//!
//! It exports the C library's calls on sockets, and hands each to `unrack-socket`. A descriptor that is no such socket goes
//! straight to the kernel. `unrack sockets` loads it through `LD_PRELOAD`; so can anybody.
//!
//! | module | calls |
//! |---|---|
//! | [`bytes`] | `read`, `write`, `send`, `recv` and their kin |
//! | [`ready`] | `poll`, `select`, `epoll` |
//! | [`descriptors`] | `connect`, `accept`, `close`, `dup`, `shutdown`, options |
//! | [`processes`] | `fork` |

pub mod bytes;
pub mod descriptors;
pub mod processes;
pub mod ready;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next library, found when it is first called.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns the function's address; null if no library has it.
    fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        // SAFETY: a name that ends in zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Release);
        found
    }
}
