//! Signals that `unrack` receives during a run and that are meant for the program.
//!
//! A handler records the signal and wakes the waiting thread. Cleanup is never interrupted, so temporary files are always removed. Signals
//! that were ignored stay ignored, for `unrack` and for the program.

use crate::PagingError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Signals that are meant for the program.
pub(crate) const FOR_THE_PROGRAM: [c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
/// Signals that end a whole series of runs.
const STOPS: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals that end a run, independently of how the program handles them.
pub(crate) const ENDS: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Requests to end the run: their number, and the signal of the last one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndRequests {
    pub times: u32,
    pub signal: c_int,
}

static END_TIMES: AtomicU32 = AtomicU32::new(0);
static END_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Bit n is set if signal n has arrived.
static CAME: AtomicU64 = AtomicU64::new(0);
/// Bit n is set if a process sent signal n to `unrack` only. Signals of the terminal are not included, because the terminal sends them to
/// all processes of a group.
static TO_FORWARD: AtomicU64 = AtomicU64::new(0);
static WAKE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to handlers installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    CAME.fetch_or(1 << signal, Relaxed);
    if ENDS.contains(&signal) {
        END_SIGNAL.store(signal, Relaxed);
        END_TIMES.fetch_add(1, Relaxed);
    }
    if signal != libc::SIGCHLD && !from_kernel {
        TO_FORWARD.fetch_or(1 << signal, Relaxed);
    }
    // SAFETY: write(2) may be called in a signal handler; the descriptor is never closed. `errno` is restored.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WAKE.load(Relaxed), (&raw const ONE).cast(), size_of::<u64>());
        *errno = before;
    }
}

static ONE: u64 = 1;

/// Guard value: signals are recorded until it is dropped.
pub(crate) struct SignalGuard {
    before: Vec<(c_int, libc::sigaction)>,
    wake: &'static OwnedFd,
}

impl SignalGuard {
    /// Starts recording signals.
    pub(crate) fn start() -> Result<SignalGuard, PagingError> {
        let wake = wake_up().map_err(PagingError::failed("watch for signals"))?;
        CAME.store(0, Relaxed);
        TO_FORWARD.store(0, Relaxed);
        END_TIMES.store(0, Relaxed);
        let all = FOR_THE_PROGRAM.iter().copied().chain([libc::SIGCHLD]);
        Ok(SignalGuard { before: all.filter_map(|signal| take_over(signal, note)).collect(), wake })
    }

    /// Waits until a signal arrives, or `longest` has passed.
    pub(crate) fn wait(&self, longest: Duration) {
        let timeout = Timespec::try_from(longest).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut fds = [PollFd::new(self.wake, PollFlags::IN)];
        // Interruption by a signal has the same effect as a wakeup, and no other error is possible.
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        let _ = rustix::io::read(self.wake.as_fd(), &mut [0u8; 8]);
    }

    /// Returns the signals to forward to the program, and clears them. Each signal is returned once.
    pub(crate) fn take_forwards(&self) -> impl Iterator<Item = c_int> {
        let bits = TO_FORWARD.swap(0, Relaxed);
        FOR_THE_PROGRAM.into_iter().filter(move |signal| bits & (1 << signal) != 0)
    }

    /// Returns the requests to end the run so far.
    pub(crate) fn asked_to_end(&self) -> EndRequests {
        EndRequests { times: END_TIMES.load(Relaxed), signal: END_SIGNAL.load(Relaxed) }
    }

    /// Returns the signal that asked to stop, if one arrived.
    pub(crate) fn stopped_by(&self) -> Option<c_int> {
        let came = CAME.load(Relaxed);
        STOPS.into_iter().find(|signal| came & (1 << signal) != 0)
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: restores the action that `take_over` found.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

fn wake_up() -> Result<&'static OwnedFd, rustix::io::Errno> {
    static FD: OnceLock<OwnedFd> = OnceLock::new();
    if FD.get().is_none() {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let fd = FD.get_or_init(|| fd);
        WAKE.store(fd.as_raw_fd(), Relaxed);
    }
    Ok(FD.get().expect("set above"))
}

/// Restores the default action of SIGINT, which scripts ignore in their background commands. For work that only a signal ends.
pub(crate) fn heed_interrupts() {
    // SAFETY: a plain struct on this thread's stack; the default action is no handler.
    unsafe {
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGINT, &default, std::ptr::null_mut());
    }
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs a handler. Returns the previous action, or `None` if the signal is ignored and therefore stays ignored.
pub(crate) fn take_over(signal: c_int, handler: Handler) -> Option<(c_int, libc::sigaction)> {
    // SAFETY: plain structs on this thread's stack; the handlers passed here make only calls that are permitted in handlers.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut before);
        if before.sa_sigaction == libc::SIG_IGN && signal != libc::SIGCHLD {
            return None;
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &ours, std::ptr::null_mut()) == 0).then_some((signal, before))
    }
}
