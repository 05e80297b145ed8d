//! Signals that are meant for a program in a guest.

use std::io;
use std::time::Duration;

/// Signals that are passed on.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Set of signals that this process does not act on, but reads.
pub(crate) struct Blocked(libc::sigset_t);

impl Blocked {
    /// Blocks the signals in this thread, and those that it starts from now on. Signals that are ignored stay so.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn start() -> io::Result<Blocked> {
        // SAFETY: a set of signals is plain data, filled by sigemptyset and read by pthread_sigmask.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON {
                libc::sigaddset(&raw mut set, signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
                0 => Ok(Blocked(set)),
                why => Err(io::Error::from_raw_os_error(why)),
            }
        }
    }

    /// Waits for the next signal, at most for this time if there is one. `None` if none has come.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> Option<u8> {
        let most = longest.unwrap_or(Duration::from_secs(1 << 30));
        let most =
            libc::timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
        // SAFETY: both point to plain data that outlives the call; details of the signal are not asked for.
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const most) };
        u8::try_from(signal).ok()
    }
}
