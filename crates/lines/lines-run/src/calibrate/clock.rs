//! CPU time of the calling thread. This clock stops while the kernel runs other threads on the core.

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this thread, in nanoseconds.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `work` on this thread and returns its CPU time in nanoseconds. Time during which the kernel runs other threads
/// is not included.
pub(super) fn time_ns<T>(work: impl FnOnce() -> T) -> f64 {
    let start = thread_ns();
    std::hint::black_box(work());
    (thread_ns() - start) as f64
}
