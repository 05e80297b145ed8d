//! The tracer's thread: waits for stops and ends, and continues what stopped.

use super::door::Bell;
use super::raw;
use super::stop::{Next, Stop, StopHandler};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering::Release};
use std::time::Duration;

/// Time between looks for ends while the traced process, which has ended, is not yet released: a wait for any end would
/// find that one again and again.
const PACE: Duration = Duration::from_millis(1);

/// Traces the process that comes to the door, until no tracee is left.
pub(super) fn run(bell: Bell, traced: &AtomicU32, handler: impl StopHandler) {
    let Some(pid) = bell.admit() else { return };
    traced.store(pid, Release);
    let mut pump = Pump { kept: pid, handler, others: Vec::new() };
    while pump.step().is_ok() {}
}

struct Pump<H> {
    /// The process whose end [`super::Tracer::release`] makes known.
    kept: u32,
    handler: H,
    /// All other threads that have stopped at least once, as each does at its birth.
    others: Vec<u32>,
}

impl<H: StopHandler> Pump<H> {
    /// Handles one stop or end.
    ///
    /// # Errors
    /// `ECHILD` if no tracee is left.
    fn step(&mut self) -> Result<(), Errno> {
        match raw::look(true, true)? {
            Some(found) if found.stop.is_some() => self.stopped(found.thread),
            Some(found) if found.thread == self.kept => self.outlive(),
            Some(found) => self.ended(found.thread),
            None => {}
        }
        Ok(())
    }

    fn stopped(&mut self, thread: u32) {
        let Some(status) = raw::take_stop(thread) else { return };
        if thread != self.kept && !self.others.contains(&thread) {
            self.others.push(thread);
        }
        let stop = Stop::of(thread, status);
        if let Stop::Exec { before } = stop
            && before != thread
        {
            self.others.retain(|other| *other != before);
        }
        let next = self.handler.stopped(thread, stop);
        // A thread that was killed meanwhile is found by the next look.
        let _ = match next {
            Next::Run(signal) => raw::run(thread, signal),
            Next::ToSyscallExit(signal) => raw::run_to_syscall_exit(thread, signal),
            Next::Listen => raw::listen(thread),
            Next::Hold => Ok(()),
        };
    }

    fn ended(&mut self, thread: u32) {
        raw::bury(thread);
        self.others.retain(|other| *other != thread);
        self.handler.ended(thread);
    }

    /// Serves the others while the kept process, which has ended, is not yet released. The thread must not end before:
    /// the kernel would release what it traces.
    fn outlive(&mut self) {
        self.handler.ended(self.kept);
        while raw::end_of(self.kept).is_some() {
            // `ECHILD` if none of the others is left.
            while let Ok(Some(found)) = raw::look(false, false) {
                self.stopped(found.thread);
            }
            let gone: Vec<_> =
                self.others.iter().copied().filter(|thread| raw::end_of(*thread).is_some()).collect();
            gone.into_iter().for_each(|thread| self.ended(thread));
            std::thread::sleep(PACE);
        }
    }
}
