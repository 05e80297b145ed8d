//! Clock of the calling thread, which stands still while other threads run.

use rustix::time::{ClockId, clock_gettime};

/// Time that this thread has run, in nanoseconds.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures how long this thread runs in `work`, in nanoseconds. Time in which the kernel runs others is left out.
pub(super) fn time_ns<T>(work: impl FnOnce() -> T) -> f64 {
    let start = thread_ns();
    std::hint::black_box(work());
    (thread_ns() - start) as f64
}
