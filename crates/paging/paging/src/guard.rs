//! Splits `unrack` into two processes: a guard, and a worker that does the work. The user started either the guard itself or a process that
//! becomes the program ([`crate::placeholder`]).
//!
//! Two processes are needed because a process that is killed (`kill -9`, out of memory) cannot end the processes that it started. If the
//! worker is killed, its descendants become children of the guard, whatever they did to detach themselves, because the guard is their next
//! ancestor that is a *subreaper*. The guard ends them and removes the files that the worker left. If the guard is killed, the kernel sends
//! the worker its parent-death signal, and the worker ends its run at once. (The worker never executes another program, which could lose
//! that signal.) If both are killed, each process with a pager ends itself ([`unrack_pager`]'s `owner`), and so does the program itself.

use crate::family::{self, ProcessFamily};
use crate::program_end::ProgramEnd;
use crate::signals::{FOR_THE_PROGRAM, SignalGuard, heed_interrupts, take_over};
use crate::{PagingError, folder, proc, say};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Process number of the guard, set in its worker; 0 if there is no guard.
static GUARD: AtomicI32 = AtomicI32::new(0);
/// Process number of the worker, set in its guard; 0 if the worker has ended.
static WORKER: AtomicI32 = AtomicI32::new(0);

/// Time to wait for killed processes to disappear. They do within milliseconds, unless they wait for a device.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// Makes this process a guard, which ends after its worker and with the worker's status. Returns in the worker only.
///
/// Must be called first in `main`, because the worker is a copy of the calling thread alone.
///
/// # Errors
/// If the machine has no room for another process.
pub fn stand_guard() -> Result<(), PagingError> {
    stand_guard_over(None, |_| {})
}

/// Like [`stand_guard`], but also guards processes whose environment has this mark and which are not descendants of the guard. Calls `tell`
/// with the worker's end after all these processes have ended.
pub(crate) fn stand_guard_over(
    mark: Option<String>,
    tell: impl FnOnce(ProgramEnd),
) -> Result<(), PagingError> {
    let family = ProcessFamily::claim()?.with_mark(mark);
    // The guard could not wait for its children if it had inherited that SIGCHLD is ignored, so SIGCHLD gets a handler.
    take_over(libc::SIGCHLD, heed);
    let guard = rustix::process::getpid();
    match fork()? {
        ForkSide::Child => become_worker(guard),
        ForkSide::Parent(worker) => {
            WORKER.store(worker, Relaxed);
            let status = watch_over(worker, &family);
            tell(status);
            std::process::exit(i32::from(status.code()))
        }
    }
}

/// Makes this process one that only waits for a worker. If the waiting process is killed, the worker lives on until it has cleaned up.
/// Returns in the worker only. Unlike [`stand_guard`], it ends no processes, because those that the worker looks after were not started by
/// Unrack.
///
/// Must be called first in `main`, like [`stand_guard`].
///
/// # Errors
/// If the machine has no room for another process.
pub fn stand_aside() -> Result<(), PagingError> {
    heed_interrupts();
    take_over(libc::SIGCHLD, heed);
    let guard = rustix::process::getpid();
    match fork()? {
        ForkSide::Child => become_worker(guard),
        ForkSide::Parent(worker) => {
            WORKER.store(worker, Relaxed);
            for signal in FOR_THE_PROGRAM {
                take_over(signal, pass_on);
            }
            let status = wait_for(worker);
            if let ProgramEnd::Signaled(signal) = status {
                folder::sweep();
                say(&format!(
                    "the worker was killed by signal {signal}; the program's memory comes back by itself"
                ));
            }
            std::process::exit(i32::from(status.code()))
        }
    }
}

/// Until this is dropped, signals that ask this process to stop are noted instead of ending it, so that it can first end the processes that
/// it has started.
pub struct StopSignals(SignalGuard);

impl StopSignals {
    /// Starts to note stop signals.
    ///
    /// # Errors
    /// If the machine has no room for a descriptor.
    pub fn note() -> Result<StopSignals, PagingError> {
        SignalGuard::start().map(StopSignals)
    }

    /// Returns the stop signal that arrived, if any; SIGTERM if the guard of this worker was killed.
    pub fn came(&self) -> Option<i32> {
        self.0.stopped_by().or_else(|| is_lost().then_some(libc::SIGTERM))
    }
}

/// Result of a fork: in which of the two processes the code runs.
pub(crate) enum ForkSide {
    Child,
    /// In the parent, with the process number of the child.
    Parent(i32),
}

/// Forks this process, which must have only one thread. The child is a copy of all its state.
///
/// # Errors
/// [`PagingError::Lacking`] if the machine has no room for another process.
pub(crate) fn fork() -> Result<ForkSide, PagingError> {
    // SAFETY: by the contract above there is only one thread, so no other thread can hold a lock.
    match unsafe { libc::fork() } {
        -1 => Err(PagingError::Lacking(format!(
            "cannot start the process that watches over the run: {}",
            std::io::Error::last_os_error()
        ))),
        0 => Ok(ForkSide::Child),
        child => Ok(ForkSide::Parent(child)),
    }
}

/// Returns whether this process is a worker whose guard was killed.
pub(crate) fn is_lost() -> bool {
    let guard = GUARD.load(Relaxed);
    guard != 0 && rustix::process::getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != guard)
}

fn become_worker(guard: Pid) -> Result<(), PagingError> {
    GUARD.store(guard.as_raw_nonzero().get(), Relaxed);
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(PagingError::failed("learn of the guard's death"))?;
    match is_lost() {
        true => Err(PagingError::Interrupted(libc::SIGTERM)),
        false => Ok(()),
    }
}

fn watch_over(worker: i32, family: &ProcessFamily) -> ProgramEnd {
    for signal in FOR_THE_PROGRAM {
        take_over(signal, pass_on);
    }
    let status = wait_for(worker);
    WORKER.store(0, Relaxed);
    end_all(family);
    if let ProgramEnd::Signaled(signal) = status {
        folder::sweep();
        if !FOR_THE_PROGRAM.contains(&i32::from(signal)) {
            say(&format!("the worker was killed by signal {signal}; all that it had started has ended"));
        }
    }
    status
}

extern "C" fn heed(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {}

/// Forwards a signal to the worker. Signals from the terminal are not forwarded, because they reach the worker anyway.
extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to handlers installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    let worker = WORKER.load(Relaxed);
    if from_kernel || worker == 0 {
        return;
    }
    // SAFETY: kill(2) may be called in a signal handler; `errno` is restored. No other process can get the worker's number before `WORKER`
    // is 0.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::kill(worker, signal);
        *errno = before;
    }
}

/// Waits until the worker has ended, and does not reap it, so that its process number is not reused.
fn wait_for(worker: i32) -> ProgramEnd {
    let worker = WaitId::Pid(Pid::from_raw(worker).expect("fork(2) gives numbers above 0"));
    loop {
        match rustix::process::waitid(worker.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => {
                let exited = || ProgramEnd::Exited(status.exit_status().unwrap_or(0) as u8);
                return status.terminating_signal().map_or_else(exited, |n| ProgramEnd::Signaled(n as u8));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => unreachable!("a child that nobody has waited for cannot be waited for: {errno}"),
        }
    }
}

/// Kills and reaps all processes that the worker started and did not end.
fn end_all(family: &ProcessFamily) {
    let deadline = Instant::now() + LAST_GRACE;
    loop {
        let left = family.all_members();
        left.iter().for_each(|pid| _ = family::ended(*pid));
        left.iter().for_each(|pid| family::send(*pid, Signal::KILL));
        if left.is_empty() {
            return;
        }
        if Instant::now() > deadline {
            let names: Vec<_> = left.into_iter().filter_map(proc::name).collect();
            return say(&format!("these processes could not be killed: {}", names.join(", ")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
