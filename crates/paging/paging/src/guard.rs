//! Two processes for one `unrack`: a guard, and a worker, which does the work. The user started the guard, or a process
//! that becomes the program ([`crate::seat`]).
//!
//! A process that is killed (`kill -9`, out of memory) cannot end the processes that it started. So neither is
//! alone. If the worker is killed, its descendants become children of the guard, their next ancestor that is a
//! *subreaper*, whatever they did to detach themselves: the guard ends them and removes what the worker left. If
//! the guard is killed, the kernel signals the worker (its parent-death signal; the worker never becomes another
//! program, which could lose it), which ends its run at once. If both are killed, each process with a pager ends
//! itself ([`unrack_pager`]'s `owner`), and so does the program itself.

use crate::family::{self, Family};
use crate::program_end::ProgramEnd;
use crate::signals::{FOR_THE_PROGRAM, Watch, heed_interrupts, take_over};
use crate::{PagingError, folder, proc, say};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Process number of the guard, in its worker; 0: there is none.
static GUARD: AtomicI32 = AtomicI32::new(0);
/// Process number of the worker, in its guard; 0: it has ended.
static WORKER: AtomicI32 = AtomicI32::new(0);

/// Time to wait for killed processes: they are gone within milliseconds, unless they wait for a device.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// Makes this process a guard, which ends after its worker, with the worker's status. Returns in the worker only.
///
/// Call this first in `main`: the worker is a copy of the calling thread alone.
///
/// # Errors
/// If the machine has no room for another process.
pub fn stand_guard() -> Result<(), PagingError> {
    stand_guard_over(None, |_| {})
}

/// Like [`stand_guard`], also over processes with this mark in their environment, which are not its descendants. Calls
/// `tell` when all is over.
pub(crate) fn stand_guard_over(
    mark: Option<String>,
    tell: impl FnOnce(ProgramEnd),
) -> Result<(), PagingError> {
    let family = Family::claim()?.with_mark(mark);
    // If the end of children is ignored, which a process inherits, they cannot be waited for.
    take_over(libc::SIGCHLD, heed);
    let guard = rustix::process::getpid();
    match fork()? {
        Role::Child => become_worker(guard),
        Role::Parent(worker) => {
            WORKER.store(worker, Relaxed);
            let status = watch_over(worker, &family);
            tell(status);
            std::process::exit(i32::from(status.code()))
        }
    }
}

/// Makes this process one that only waits for a worker, which lives on until it has cleaned up if this one is killed.
/// Returns in the worker only. Unlike [`stand_guard`], it ends nothing: what the worker looks after is not ours.
///
/// Call this first in `main`, as [`stand_guard`].
///
/// # Errors
/// If the machine has no room for another process.
pub fn stand_aside() -> Result<(), PagingError> {
    heed_interrupts();
    take_over(libc::SIGCHLD, heed);
    let guard = rustix::process::getpid();
    match fork()? {
        Role::Child => become_worker(guard),
        Role::Parent(worker) => {
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

/// Signals that ask this process to stop are noted, instead of ending it, until this is dropped: what it has started is ended
/// first.
pub struct StopSignals(Watch);

impl StopSignals {
    /// Starts to note them.
    ///
    /// # Errors
    /// If the machine has no room for a descriptor.
    pub fn note() -> Result<StopSignals, PagingError> {
        Watch::start().map(StopSignals)
    }

    /// Returns the signal that came, if one did; SIGTERM if the guard of this worker was killed.
    pub fn came(&self) -> Option<i32> {
        self.0.stopped_by().or_else(|| is_lost().then_some(libc::SIGTERM))
    }
}

/// Side of a fork.
pub(crate) enum Role {
    Child,
    /// Number of the child.
    Parent(i32),
}

/// Forks this process, which must have one thread: the child has all that its parent has.
///
/// # Errors
/// [`PagingError::Lacking`] if the machine has no room for another process.
pub(crate) fn fork() -> Result<Role, PagingError> {
    // SAFETY: by the contract above, no lock is held by another thread.
    match unsafe { libc::fork() } {
        -1 => Err(PagingError::Lacking(format!(
            "cannot start the process that watches over the run: {}",
            std::io::Error::last_os_error()
        ))),
        0 => Ok(Role::Child),
        child => Ok(Role::Parent(child)),
    }
}

/// Returns whether this is a worker whose guard was killed.
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

fn watch_over(worker: i32, family: &Family) -> ProgramEnd {
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

/// Forwards a signal to the worker. Signals from the terminal reach the worker anyway.
extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to handlers installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    let worker = WORKER.load(Relaxed);
    if from_kernel || worker == 0 {
        return;
    }
    // SAFETY: kill(2) may be called here; `errno` is restored. No other process can have the worker's number
    // before `WORKER` is 0.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::kill(worker, signal);
        *errno = before;
    }
}

/// Waits until the worker has ended. Its number stays taken.
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

/// Ends all processes that the worker started and did not end.
fn end_all(family: &Family) {
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
