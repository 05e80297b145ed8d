//! Signals that this process passes on to a program in a guest.

use std::io;
use std::time::Duration;

/// Signals that are passed on.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Set of blocked signals, which this process reads instead of acting on them.
pub(crate) struct Blocked(libc::sigset_t);

impl Blocked {
    /// Blocks the signals in this thread, and in the threads that it starts from now on. Ignored signals stay ignored.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
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

    /// Waits for the next signal, at most for `longest` if it is given. Returns `None` if no signal arrived.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> Option<u8> {
        let most = longest.unwrap_or(Duration::from_secs(1 << 30));
        let most =
            libc::timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
        // SAFETY: the two pointers refer to plain data that outlives the call; the null pointer means that details of the signal are not
        // requested.
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const most) };
        u8::try_from(signal).ok()
    }
}
