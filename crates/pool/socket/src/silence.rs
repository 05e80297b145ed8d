//! A broker that does not answer, for example because it was stopped (`SIGSTOP`). The library sends it no requests for a time, because each
//! request would wait for a second.
//!
//! Processes that descend from one process by `fork` share this state.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time without requests to the broker after a first request that was not answered; it doubles after each further one.
const FIRST: Duration = Duration::from_secs(5);
/// Longest time without requests to the broker.
const LONGEST: Duration = Duration::from_secs(60);

/// State of a broker's silence, that is, of the time in which it is sent no requests.
struct SilenceState {
    /// Nanoseconds after [`start`] at which the next request may be sent.
    until: AtomicU64,
    /// Nanoseconds of the last silence; zero if the broker has answered since.
    last: AtomicU64,
}

/// Returns the state, in shared memory, so that a fork does not copy it.
fn state() -> &'static SilenceState {
    static OWN: SilenceState = SilenceState { until: AtomicU64::new(0), last: AtomicU64::new(0) };
    static STATE: OnceLock<&'static SilenceState> = OnceLock::new();
    STATE.get_or_init(|| {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses new memory.
        let made = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<SilenceState>(), access, flags, -1, 0) };
        // SAFETY: the memory is never unmapped, and zeros are valid atomic words.
        if made == libc::MAP_FAILED { &OWN } else { unsafe { &*made.cast() } }
    })
}

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Allocates the state, so that processes forked later share it with this one.
pub(crate) fn prepare() {
    state();
    start();
}

/// Returns whether requests to the broker are being withheld.
pub(crate) fn lasts() -> bool {
    let until = state().until.load(Ordering::Relaxed);
    until != 0 && start().elapsed() < Duration::from_nanos(until)
}

/// Begins a silence, because the broker did not answer a request.
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
