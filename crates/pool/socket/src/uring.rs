//! Programs with an `io_uring`: what they submit there reaches the kernel past this library.
//!
//! Such a program's sockets stay with the kernel. Rings that were made before a connection asks are found among the process's
//! descriptors; for later ones the calls of liburing are watched.

use crate::kernel;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the descriptors.
const EVERY: Duration = Duration::from_millis(100);

static USED: AtomicBool = AtomicBool::new(false);
/// Nanoseconds after the first look at which the next is due.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns true if this process has, or had, an `io_uring`.
pub(crate) fn is_used() -> bool {
    if USED.load(Ordering::Relaxed) {
        return true;
    }
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let now = FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    if now < NEXT.load(Ordering::Relaxed) {
        return false;
    }
    NEXT.store(now + EVERY.as_nanos() as u64, Ordering::Relaxed);
    let is_there = look();
    if is_there {
        set_used();
    }
    is_there
}

/// Notes that this process has one, or is about to make one.
pub(crate) fn set_used() {
    if !USED.swap(true, Ordering::Relaxed) {
        let text = b"libunrack_sockets: this program uses io_uring, so its sockets stay with the kernel\n";
        // SAFETY: bytes of our own.
        unsafe { libc::syscall(libc::SYS_write, 2, text.as_ptr(), text.len()) };
        kernel::fail(0);
    }
}

fn look() -> bool {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    open.flatten().any(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]")
    })
}
