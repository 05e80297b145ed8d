//! Puts the agent into a program that runs already. All threads of the program are stopped wherever they are, and afterwards continue as if
//! they had not been stopped.
//!
//! A thread that waits in the kernel is interrupted as if by an ignored signal: the kernel restarts its system call with the remaining
//! time. For that, the thread must continue from a stop of the same kind with the registers that it had: see [`Saved::return_to_wait`].

use super::family::TracedThreads;
use super::place::{AgentSite, Entry};
use super::remote::{Saved, is_in_sequence, pass_over, system_call};
use super::{FOLLOW, Injector, PAGE, pin_control_block};
use crate::trace::{ResumeMode, Stop, raw};
use crate::{bypass, proc};
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Longest time for all threads to stop. A thread that waits for its `vfork` child does not stop in time; then the program is left alone.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_micros(200);

/// Puts the agent into a process. If that fails, the process continues without the agent.
pub(super) fn attach(injector: &mut Injector, process: u32) {
    let mut threads = Vec::new();
    // If this fails, the only remedy is to leave the program alone.
    let _ = stop_all(&mut injector.family, process, FOLLOW, &mut threads)
        .and_then(|()| put_in(injector, &threads));
    for thread in threads.iter().filter(|thread| thread.is_stopped) {
        let _ = raw::run(thread.id, 0);
    }
}

/// A thread of a process that is being stopped.
pub(super) struct Seized {
    pub id: u32,
    pub is_stopped: bool,
}

/// Seizes and stops all threads of a process, including threads that are created meanwhile.
pub(super) fn stop_all(
    family: &mut TracedThreads,
    process: u32,
    options: i32,
    threads: &mut Vec<Seized>,
) -> Result<(), Errno> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let known = threads.len();
        seize_new(family, process, options, threads)?;
        while let Some(at) = threads.iter().position(|thread| !thread.is_stopped) {
            match wait_for(family, threads[at].id, deadline) {
                Ok(()) => threads[at].is_stopped = true,
                // The thread has ended.
                Err(Errno::SRCH) => drop(threads.remove(at)),
                Err(why) => return Err(why),
            }
        }
        if threads.len() == known {
            return Ok(());
        }
    }
}

fn seize_new(
    family: &mut TracedThreads,
    process: u32,
    options: i32,
    threads: &mut Vec<Seized>,
) -> Result<(), Errno> {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    for id in proc::threads(process) {
        if threads.iter().any(|thread| thread.id == id) {
            continue;
        }
        match raw::seize(id, options) {
            // Its creator is a thread that was seized before, so the new thread is traced and stops at its creation.
            Err(Errno::PERM) if proc::tracer(id) == Some(own) => {}
            Err(Errno::SRCH) => continue,
            seized => seized.and_then(|()| raw::interrupt(id))?,
        }
        family.found(id);
        threads.push(Seized { id, is_stopped: false });
    }
    Ok(())
}

/// Waits until a thread has stopped because of `PTRACE_INTERRUPT`.
pub(super) fn wait_for(family: &mut TracedThreads, thread: u32, deadline: Instant) -> Result<(), Errno> {
    loop {
        match Stop::now(thread)? {
            Some(Stop::Pause) => return Ok(()),
            // The process executes another program or was stopped by a user, so the agent cannot be put in now.
            Some(Stop::Exec { .. }) => return raw::run(thread, 0).and(Err(Errno::AGAIN)),
            Some(Stop::Group(_)) => return raw::listen(thread).and(Err(Errno::AGAIN)),
            Some(Stop::Birth { child }) => {
                family.gave_birth(thread, child, false);
                raw::run(thread, 0)?;
            }
            Some(Stop::Signal(signal)) if pass_over(thread, signal) => raw::run(thread, 0)?,
            // The stop that this tracer requested comes later.
            Some(stop) => match stop.onward() {
                ResumeMode::Run(signal) => raw::run(thread, signal)?,
                _ => raw::run(thread, 0)?,
            },
            None if Instant::now() > deadline => return Err(Errno::TIMEDOUT),
            None => std::thread::sleep(PACE),
        }
    }
}

/// Stops one traced thread of a process and returns it: the first that stops in time and can be made to make system calls.
///
/// # Errors
/// `ETIMEDOUT` if no thread can be stopped in time, `ESRCH` if the process has no thread.
pub(super) fn stop_any(process: u32) -> Result<u32, Errno> {
    let mut result = Err(Errno::SRCH);
    // Threads with a filter are left out. A thread may have got one meanwhile, and the filter might end the thread for an injected call.
    for thread in proc::threads(process).into_iter().filter(|thread| !proc::is_filtered(*thread)) {
        let deadline = Instant::now() + PATIENCE / 4;
        result = raw::interrupt(thread)
            .and_then(|()| wait_for(&mut TracedThreads::default(), thread, deadline))
            .map(|()| thread);
        match result {
            Ok(_) if is_in_sequence(thread) || proc::is_filtered(thread) => {
                raw::run(thread, 0)?;
                result = Err(Errno::TIMEDOUT);
            }
            Ok(_) => break,
            Err(_) => {}
        }
    }
    result
}

fn put_in(injector: &mut Injector, threads: &[Seized]) -> Result<(), Errno> {
    if threads.iter().any(|thread| has_own_filter(thread.id, false)) {
        return Err(Errno::PERM);
    }
    let first = able(threads)?;
    let saved = Saved::take(first.id)?;
    let entry = Entry { is_filtered: false, is_late: true };
    let place = AgentSite::take(&injector.image, first.id, &saved, entry, &injector.path);
    saved.return_to_wait(first.id)?;
    let place = place?;
    injector.control.settings.has_agents_filter.store(1, Relaxed);
    let ids: Vec<_> = threads.iter().map(|thread| thread.id).collect();
    injector.family.settle_all(&ids, place);
    for thread in ids {
        pin_control_block(thread, &place)?;
        pin_cleared_word(thread, &place)?;
    }
    Ok(())
}

/// Returns whether a thread has system call filters of its own. Filters that this process has too do not count, because they belong to a
/// container and permit the agent's calls; nor does the filter of [`bypass`]; the agent's filter does not count if the thread has it. Any further filter might end the thread
/// for an injected call.
pub(super) fn has_own_filter(thread: u32, has_agents: bool) -> bool {
    let ours = proc::filters(std::process::id()).unwrap_or(0) + bypass::filters() + u64::from(has_agents);
    proc::is_filtered(thread) && proc::filters(thread).is_none_or(|filters| filters > ours)
}

/// Returns a thread that can be made to make system calls now.
///
/// # Errors
/// `EAGAIN` if no thread can right now, `ESRCH` if there is no thread.
pub(super) fn able(threads: &[Seized]) -> Result<&Seized, Errno> {
    let why = if threads.is_empty() { Errno::SRCH } else { Errno::AGAIN };
    threads.iter().find(|thread| !is_in_sequence(thread.id)).ok_or(why)
}

/// Pins the page of the word that the kernel clears when a thread ends. Only the thread itself can ask the kernel for the word's address. A
/// thread inside a restartable sequence cannot be made to ask, but such a thread uses the GNU C library, which keeps the word in its
/// control block.
pub(super) fn pin_cleared_word(thread: u32, place: &AgentSite) -> Result<(), Errno> {
    if is_in_sequence(thread) {
        return Ok(());
    }
    let saved = Saved::take(thread)?;
    let ask = [libc::PR_GET_TID_ADDRESS as usize, place.scratch(), 0, 0, 0, 0];
    let asked = system_call(thread, &saved, place.instruction(), libc::SYS_prctl, ask);
    saved.return_to_wait(thread)?;
    // A kernel without checkpoint support does not return the address.
    if asked.is_err() {
        return Ok(());
    }
    let mut word = [0u8; size_of::<usize>()];
    raw::read_memory(thread, place.scratch(), &mut word)?;
    match usize::from_ne_bytes(word) {
        0 => Ok(()),
        word => place.pin(thread, word / PAGE * PAGE),
    }
}
