//! Detection of programs with an `io_uring`, because operations that they submit there bypass this library.
//!
//! The sockets of such a program stay with the kernel. An `io_uring` that was made before a connection asks the broker is found among the
//! process's descriptors. To notice later ones, this library intercepts the calls of liburing.

use crate::kernel;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two searches of the descriptors.
const EVERY: Duration = Duration::from_millis(100);

static USED: AtomicBool = AtomicBool::new(false);
/// Time at which the next search is due, in nanoseconds after the first call.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns whether this process has, or had, an `io_uring`.
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

/// Notes that this process has an `io_uring`, or is about to make one, and says so once on standard error.
pub(crate) fn set_used() {
    if !USED.swap(true, Ordering::Relaxed) {
        let text = b"libunrack_sockets: this program uses io_uring, so its sockets stay with the kernel\n";
        let errno = kernel::errno();
        // SAFETY: a static text.
        unsafe { libc::syscall(libc::SYS_write, 2, text.as_ptr(), text.len()) };
        kernel::fail(errno);
    }
}

fn look() -> bool {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    open.flatten().any(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]")
    })
}
