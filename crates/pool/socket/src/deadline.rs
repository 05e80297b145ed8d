//! Deadline of a blocking call. It follows from the socket's timeout, which is read when the call first has to wait.

use libc::c_int;
use std::time::{Duration, Instant};

/// Time at which a blocking call fails with a timeout.
pub(crate) struct Deadline {
    fd: c_int,
    /// Socket option that holds the timeout.
    option: c_int,
    /// The deadline once the option was read; the inner `None` means that the call waits forever.
    at: Option<Option<Instant>>,
}

impl Deadline {
    /// Returns the deadline of a call that receives (`SO_RCVTIMEO`).
    pub(crate) fn of_recv(fd: c_int) -> Deadline {
        Deadline { fd, option: libc::SO_RCVTIMEO, at: None }
    }

    /// Returns the deadline of a call that sends (`SO_SNDTIMEO`).
    pub(crate) fn of_send(fd: c_int) -> Deadline {
        Deadline { fd, option: libc::SO_SNDTIMEO, at: None }
    }

    /// Returns the deadline; `None` if the call waits forever.
    pub(crate) fn at(&mut self) -> Option<Instant> {
        *self.at.get_or_insert_with(|| read(self.fd, self.option))
    }

    /// Returns the time until the deadline; `None` if the call waits forever.
    pub(crate) fn left(&mut self) -> Option<Duration> {
        self.at().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Returns whether the deadline was read before and has passed.
    pub(crate) fn was_over_at(&self, now: Instant) -> bool {
        self.at.flatten().is_some_and(|at| now >= at)
    }
}

fn read(fd: c_int, option: c_int) -> Option<Instant> {
    // SAFETY: all zeros are a valid time.
    let mut time = unsafe { std::mem::zeroed::<libc::timeval>() };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let asked = unsafe {
        libc::syscall(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, option, &raw mut time, &raw mut length)
    };
    let most = Duration::new(time.tv_sec.max(0) as u64, (time.tv_usec as u32).saturating_mul(1000));
    (asked == 0 && !most.is_zero()).then(|| Instant::now() + most)
}
