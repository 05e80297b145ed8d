//! A lock in shared memory whose owner may be killed, or may be interrupted by a signal handler that takes the lock again.
//!
//! The word is the owner's thread number, or zero; [`WAITERS`] is set if a thread sleeps on it. The data under a lock must be consistent
//! after every single store, because the owner can end between any two of them.

use crate::kernel;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WAITERS: u32 = 1 << 31;
/// Attempts to take the lock before a waiter sleeps.
const ATTEMPTS: u32 = 200;
/// Time after which a waiter checks whether the owner is still alive.
const PATIENCE: Duration = Duration::from_millis(20);

/// A lock that threads of several processes share.
#[repr(transparent)]
pub(crate) struct Lock(AtomicU32);

/// A lock that is held; dropping it releases it.
pub(crate) struct SharedLockGuard<'a> {
    lock: &'a Lock,
    /// True if this thread already held the lock: it runs a signal handler that interrupted the owner.
    nested: bool,
}

impl Lock {
    /// Forces the lock open, because its holder is gone.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Takes the lock, and waits for it if necessary.
    pub(crate) fn take(&self) -> SharedLockGuard<'_> {
        let own = thread_number();
        match self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => SharedLockGuard { lock: self, nested: false },
            Err(owner) if owner & !WAITERS == own => SharedLockGuard { lock: self, nested: true },
            Err(_) => self.wait(own),
        }
    }

    fn wait(&self, own: u32) -> SharedLockGuard<'_> {
        for _ in 0..ATTEMPTS {
            if self.0.compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return SharedLockGuard { lock: self, nested: false };
            }
            std::hint::spin_loop();
        }
        loop {
            let word = self.0.load(Ordering::Relaxed);
            let owner = word & !WAITERS;
            let is_free = owner == 0 || (word & WAITERS != 0 && kernel::is_gone(owner));
            if is_free {
                let taken =
                    self.0.compare_exchange(word, own | WAITERS, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    return SharedLockGuard { lock: self, nested: false };
                }
                continue;
            }
            let marked = self.0.compare_exchange(word, word | WAITERS, Ordering::Relaxed, Ordering::Relaxed);
            if marked.is_ok() {
                kernel::futex_wait(&self.0, word | WAITERS, PATIENCE);
            }
        }
    }
}

impl Drop for SharedLockGuard<'_> {
    fn drop(&mut self) {
        if !self.nested && self.lock.0.swap(0, Ordering::Release) & WAITERS != 0 {
            kernel::futex_wake(&self.lock.0, 1);
        }
    }
}

thread_local! {
    static NUMBER: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Returns the kernel's number of this thread (its TID).
pub(crate) fn thread_number() -> u32 {
    NUMBER.with(|number| {
        if number.get() == 0 {
            // SAFETY: the call has no arguments.
            number.set(unsafe { libc::syscall(libc::SYS_gettid) } as u32);
        }
        number.get()
    })
}

/// Forgets the cached number of this thread, because the child of a fork has another number.
pub(crate) fn forget_thread_number() {
    NUMBER.with(|number| number.set(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps a lock that this process shares with its children.
    fn shared() -> &'static Lock {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which stays mapped; zeros are a lock.
        unsafe { &*libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0).cast() }
    }

    #[test]
    fn a_lock_is_taken_over_from_an_owner_that_was_killed_and_not_reaped() {
        let lock = shared();
        // SAFETY: the child makes system calls only, until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the call has no arguments. The cached thread number is still the parent's.
            lock.0.store(unsafe { libc::getpid() } as u32, Ordering::Release);
            loop {
                // SAFETY: the call has no arguments.
                unsafe { libc::pause() };
            }
        }
        while lock.0.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        assert!(!kernel::is_gone(child as u32), "it lives");
        // SAFETY: a child of this process, which stays a zombie for now; all zeros are a report.
        unsafe {
            let mut report = std::mem::zeroed();
            libc::kill(child, libc::SIGKILL);
            libc::waitid(libc::P_PID, child as u32, &raw mut report, libc::WEXITED | libc::WNOWAIT);
        }
        assert!(kernel::is_gone(child as u32), "it has ended");
        drop(lock.take());
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}
