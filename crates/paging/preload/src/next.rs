//! The C library's functions that this library wraps.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Function of the C library that this library wraps.
pub(crate) struct WrappedFunction {
    name: &'static CStr,
    address: AtomicUsize,
}

impl WrappedFunction {
    const fn new(name: &'static CStr) -> WrappedFunction {
        WrappedFunction { name, address: AtomicUsize::new(0) }
    }

    /// Returns the C library's function, which is looked up at most once. [`look_all_up`] looks up all functions at the start, while there
    /// is one thread, no lock is held and no fork is in progress.
    ///
    /// # Safety
    /// `F` must be the function's type.
    pub(crate) unsafe fn get<F: Copy>(&self) -> F {
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            // SAFETY: a lookup by name; the C library defines all names used here.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
            assert!(address != 0);
            self.address.store(address, Relaxed);
        }
        // SAFETY: a function pointer has the size of an address; the caller guarantees the type.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

pub(crate) static FORK: WrappedFunction = WrappedFunction::new(c"_Fork");
pub(crate) static SYSCALL: WrappedFunction = WrappedFunction::new(c"syscall");
pub(crate) static CLONE: WrappedFunction = WrappedFunction::new(c"clone");
pub(crate) static MLOCKALL: WrappedFunction = WrappedFunction::new(c"mlockall");
pub(crate) static PTHREAD_CREATE: WrappedFunction = WrappedFunction::new(c"pthread_create");
pub(crate) static THRD_CREATE: WrappedFunction = WrappedFunction::new(c"thrd_create");
pub(crate) static MREMAP: WrappedFunction = WrappedFunction::new(c"mremap");
pub(crate) static EXECVE: WrappedFunction = WrappedFunction::new(c"execve");
pub(crate) static EXECV: WrappedFunction = WrappedFunction::new(c"execv");
pub(crate) static EXECVP: WrappedFunction = WrappedFunction::new(c"execvp");
pub(crate) static EXECVPE: WrappedFunction = WrappedFunction::new(c"execvpe");
pub(crate) static POSIX_SPAWN: WrappedFunction = WrappedFunction::new(c"posix_spawn");
pub(crate) static POSIX_SPAWNP: WrappedFunction = WrappedFunction::new(c"posix_spawnp");
pub(crate) static PRCTL: WrappedFunction = WrappedFunction::new(c"prctl");
pub(crate) static SETRLIMIT: WrappedFunction = WrappedFunction::new(c"setrlimit");
pub(crate) static GETRLIMIT: WrappedFunction = WrappedFunction::new(c"getrlimit");
pub(crate) static PRLIMIT: WrappedFunction = WrappedFunction::new(c"prlimit");

/// Looks up all functions, while there is one thread, no lock is held and no fork is in progress.
pub(crate) fn look_all_up() {
    let all = [
        &FORK,
        &SYSCALL,
        &CLONE,
        &MLOCKALL,
        &PTHREAD_CREATE,
        &THRD_CREATE,
        &MREMAP,
        &EXECVE,
        &EXECV,
        &EXECVP,
        &EXECVPE,
        &POSIX_SPAWN,
        &POSIX_SPAWNP,
        &PRCTL,
        &SETRLIMIT,
        &GETRLIMIT,
        &PRLIMIT,
    ];
    for next in all {
        // SAFETY: the value is read as an address, whatever the function's type is.
        let _: usize = unsafe { next.get() };
    }
}
