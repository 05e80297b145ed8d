//! A broker that does not answer, since it was stopped: it is left alone for a time, because each request waits for a second.
//!
//! Processes that come from one by `fork` share what they know of it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time for which the broker is left alone after a request that was not answered; twice as long after each further one.
const FIRST: Duration = Duration::from_secs(5);
/// Longest such time.
const LONGEST: Duration = Duration::from_secs(60);

/// State of a silence.
struct Silence {
    /// Nanoseconds after [`start`] at which the broker is asked again.
    until: AtomicU64,
    /// Nanoseconds of the last silence; zero if the broker answered since.
    last: AtomicU64,
}

/// Returns the state, in memory that a fork does not copy.
fn state() -> &'static Silence {
    static OWN: Silence = Silence { until: AtomicU64::new(0), last: AtomicU64::new(0) };
    static STATE: OnceLock<&'static Silence> = OnceLock::new();
    STATE.get_or_init(|| {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory.
        let made = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Silence>(), access, flags, -1, 0) };
        // SAFETY: never unmapped; zeros are atomic words.
        if made == libc::MAP_FAILED { &OWN } else { unsafe { &*made.cast() } }
    })
}

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Prepares the state that later processes share with this one.
pub(crate) fn prepare() {
    state();
    start();
}

/// Returns true while the broker is left alone.
pub(crate) fn lasts() -> bool {
    let until = state().until.load(Ordering::Relaxed);
    until != 0 && start().elapsed() < Duration::from_nanos(until)
}

/// Leaves the broker alone: it did not answer.
pub(crate) fn begin() {
    let last = Duration::from_nanos(state().last.load(Ordering::Relaxed));
    let next = (last * 2).clamp(FIRST, LONGEST);
    state().last.store(next.as_nanos() as u64, Ordering::Relaxed);
    state().until.store((start().elapsed() + next).as_nanos() as u64, Ordering::Relaxed);
}

/// Notes that the broker answered.
pub(crate) fn end() {
    if state().last.load(Ordering::Relaxed) != 0 {
        state().last.store(0, Ordering::Relaxed);
    }
}
