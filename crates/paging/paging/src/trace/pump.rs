//! The tracer's thread: waits for stops and exits of tracees, and continues stopped threads.

use super::TracerState;
use super::raw;
use super::request::TraceAcceptor;
use super::stop::{ResumeMode, Stop, StopHandler};
use crate::proc;
use rustix::io::Errno;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

/// Interval between two searches for exits after the traced process has ended but is not released yet. Polling is needed because a blocking
/// wait for any exit would return that process again and again.
const PACE: Duration = Duration::from_millis(1);

/// Traces the process that asks for it, until no tracee is left.
pub(super) fn run(acceptor: TraceAcceptor, traced: &TracerState, handler: impl StopHandler) {
    let Some(pid) = acceptor.accept() else { return };
    traced.pid.store(pid, Release);
    serve(Some((pid, traced)), handler);
}

/// Serves all tracees of this thread until none is left. `kept` is a process whose exit must not be reaped here.
pub(super) fn serve(kept: Option<(u32, &TracerState)>, handler: impl StopHandler) {
    let mut pump = Pump { kept, handler, others: Vec::new() };
    while pump.step().is_ok() {}
}

struct Pump<'a, H> {
    /// The process whose end only [`super::Tracer::release`] makes visible.
    kept: Option<(u32, &'a TracerState)>,
    handler: H,
    /// All other threads that have stopped at least once; every thread stops at its creation.
    others: Vec<u32>,
}

impl<H: StopHandler> Pump<'_, H> {
    /// Waits for one stop or exit, and handles it.
    ///
    /// # Errors
    /// `ECHILD` if there is no tracee left.
    fn step(&mut self) -> Result<(), Errno> {
        match raw::look(true, true)? {
            Some(found) if found.stop.is_some() => self.stopped(found.thread),
            Some(found) if self.is_kept(found.thread) => self.outlive(found.thread),
            Some(found) => self.ended(found.thread),
            None => {}
        }
        Ok(())
    }

    fn is_first(&self, thread: u32) -> bool {
        self.kept.is_some_and(|(first, _)| first == thread)
    }

    /// Makes the first process exit if that was requested. Returns true if it exits.
    #[cfg(target_arch = "x86_64")]
    fn end(&self, thread: u32) -> bool {
        let wanted = self.kept.filter(|(first, _)| *first == thread).and_then(|(_, traced)| traced.status());
        wanted.is_some_and(|status| super::exit::exit(thread, status).is_ok())
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn end(&self, _: u32) -> bool {
        false
    }

    /// Returns whether the exit of a thread must not be reaped here: because it is the process that is to be released, or a child of this
    /// process, for which the run itself waits.
    fn is_kept(&self, thread: u32) -> bool {
        self.is_first(thread) || proc::parent(thread) == Some(std::process::id())
    }

    fn stopped(&mut self, thread: u32) {
        let Some(status) = raw::take_stop(thread) else { return };
        if !self.is_first(thread) && !self.others.contains(&thread) {
            self.others.push(thread);
        }
        let stop = Stop::of(thread, status);
        if let Stop::Exec { before } = stop
            && before != thread
        {
            self.others.retain(|other| *other != before);
        }
        if let (Stop::Signal(signal), Some((first, traced))) = (stop, self.kept)
            && first == thread
        {
            traced.note(signal);
        }
        if self.end(thread) {
            return;
        }
        let next = self.handler.stopped(thread, stop);
        // If a thread was killed meanwhile, the next wait finds its exit.
        let _ = match next {
            ResumeMode::Run(signal) => raw::run(thread, signal),
            ResumeMode::ToSyscallExit(signal) => raw::run_to_syscall_exit(thread, signal),
            ResumeMode::Listen => raw::listen(thread),
            ResumeMode::Hold => Ok(()),
            ResumeMode::Leave => {
                self.others.retain(|other| *other != thread);
                raw::detach(thread, 0)
            }
        };
    }

    fn ended(&mut self, thread: u32) {
        raw::bury(thread);
        self.others.retain(|other| *other != thread);
        self.handler.ended(thread);
    }

    /// Serves the other tracees while a kept process has ended but is not released yet. The thread must not end earlier, because the kernel
    /// would then release its tracees.
    fn outlive(&mut self, kept: u32) {
        self.handler.ended(kept);
        while raw::end_of(kept).is_some() {
            // `ECHILD` means that none of the other tracees is left.
            while let Ok(Some(found)) = raw::look(false, false) {
                self.stopped(found.thread);
            }
            let others: Vec<_> = self.others.iter().copied().filter(|other| !self.is_kept(*other)).collect();
            for other in others.into_iter().filter(|other| raw::end_of(*other).is_some()) {
                self.ended(other);
            }
            std::thread::sleep(PACE);
        }
    }
}
