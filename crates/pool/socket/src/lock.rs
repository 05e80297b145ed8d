//! Lock in shared memory, whose owner may be interrupted by a signal handler that takes it again, or be killed.
//!
//! The word is the owner's thread number, or zero; [`WAITERS`] says that a thread sleeps on it. What a lock guards must be
//! right after every single store, since its owner can end between any two.

use crate::kernel;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WAITERS: u32 = 1 << 31;
/// Attempts before a waiter sleeps.
const ATTEMPTS: u32 = 200;
/// Time after which a waiter asks whether the owner still lives.
const PATIENCE: Duration = Duration::from_millis(20);

/// Lock between threads of several processes.
#[repr(transparent)]
pub(crate) struct Lock(AtomicU32);

/// A lock that is held; dropping it releases it.
pub(crate) struct Held<'a> {
    lock: &'a Lock,
    /// True if this thread held it before: a signal handler interrupted the owner.
    nested: bool,
}

impl Lock {
    /// Forces the lock open: its holder is gone.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Takes the lock, waiting for it.
    pub(crate) fn take(&self) -> Held<'_> {
        let own = thread_number();
        match self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Held { lock: self, nested: false },
            Err(owner) if owner & !WAITERS == own => Held { lock: self, nested: true },
            Err(_) => self.wait(own),
        }
    }

    fn wait(&self, own: u32) -> Held<'_> {
        for _ in 0..ATTEMPTS {
            if self.0.compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Held { lock: self, nested: false };
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
                    return Held { lock: self, nested: false };
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

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.nested && self.lock.0.swap(0, Ordering::Release) & WAITERS != 0 {
            kernel::futex_wake(&self.lock.0, 1);
        }
    }
}

thread_local! {
    static NUMBER: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Returns the kernel's number of this thread.
pub(crate) fn thread_number() -> u32 {
    NUMBER.with(|number| {
        if number.get() == 0 {
            // SAFETY: a call without arguments.
            number.set(unsafe { libc::syscall(libc::SYS_gettid) } as u32);
        }
        number.get()
    })
}

/// Forgets this thread's number: the child of a fork has another.
pub(crate) fn forget_thread_number() {
    NUMBER.with(|number| number.set(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps a lock that a child shares.
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
            // SAFETY: a call without arguments. The thread's number is the parent's still.
            lock.0.store(unsafe { libc::getpid() } as u32, Ordering::Release);
            loop {
                // SAFETY: a call without arguments.
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
