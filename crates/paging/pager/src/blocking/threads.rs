//! Threads of the program, as far as faults reveal them, and the core on which they run after a fault.
//!
//! Waking a sleeping core costs about 50 us in a virtual machine, ten times the work of a fault. The scheduler would wake the thread on
//! such an idle core, because the pager occupies the thread's own core. Therefore the pager binds a thread that faults often to the pager's
//! core for the moment of its wakeup, and removes the binding at once.

use crate::control::ControlHead;
use crate::stride::Stride;
use crate::trend::Trend;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use rustix::thread::{CpuSet, Pid};

/// A thread of the program that has faulted.
pub(super) struct Thread {
    pid: Pid,
    /// Index of the thread, dense over all processes of the run.
    pub index: u32,
    /// Time in ns that the pager spent since the thread's previous fetch on faults that a real blade would not have.
    pub overhead_ns: u64,
    /// Pages that the thread received last for a first touch.
    pub stride: Stride,
    /// Trend of the thread's accesses to remote pages.
    pub trend: Trend,
    /// Moving average of the time between faults, in ns.
    interval_ns: u64,
    last_ns: u64,
}

/// Time in ns between faults below which a thread is woken on the pager's core.
const OFTEN_NS: u64 = 400_000;

/// Threads of the program that have faulted.
pub(super) struct Threads {
    control: &'static ControlHead,
    /// Core that the pager is bound to.
    pub here: usize,
    known: Vec<Thread>,
    /// Index of the thread that faulted last, which usually is also the next one to fault.
    last: usize,
}

impl Threads {
    /// Makes an empty list, for a pager that is bound to core `here`.
    pub(super) fn new(control: &'static ControlHead, here: usize) -> Threads {
        Threads { control, here, known: Vec::new(), last: 0 }
    }

    /// Returns the thread with this id, which faulted at `now_ns`.
    pub(super) fn faulted(&mut self, tid: u32, now_ns: u64) -> &mut Thread {
        let is = |thread: &Thread| thread.pid.as_raw_nonzero().get() as u32 == tid;
        if !self.known.get(self.last).is_some_and(is) {
            self.last = self.known.iter().position(is).unwrap_or_else(|| self.add(tid));
        }
        let thread = &mut self.known[self.last];
        let interval = now_ns.saturating_sub(thread.last_ns).min(100 * OFTEN_NS);
        thread.interval_ns = (7 * thread.interval_ns + interval) / 8;
        thread.last_ns = now_ns;
        thread
    }

    fn add(&mut self, tid: u32) -> usize {
        self.forget_ended();
        let pid = Pid::from_raw(tid as i32).unwrap_or(rustix::thread::gettid());
        let index = self.control.next_thread.fetch_add(1, Relaxed);
        self.known.push(Thread {
            pid,
            index,
            overhead_ns: 0,
            stride: Stride::default(),
            trend: Trend::default(),
            interval_ns: OFTEN_NS,
            last_ns: 0,
        });
        self.known.len() - 1
    }

    /// Removes ended threads, so that the list stays short in programs that start many threads.
    fn forget_ended(&mut self) {
        if self.known.len().is_power_of_two() && self.known.len() >= 16 {
            self.known.retain(|thread| rustix::thread::sched_getaffinity(Some(thread.pid)).is_ok());
        }
    }
}

impl Thread {
    /// Runs `wake` in such a way that this thread, if it faults often, wakes on core `here`.
    pub(super) fn woken_on<T>(&self, here: usize, wake: impl FnOnce() -> T) -> T {
        if self.interval_ns >= OFTEN_NS {
            return wake();
        }
        let Ok(own) = rustix::thread::sched_getaffinity(Some(self.pid)) else { return wake() };
        if !own.is_set(here) || own.count() == 1 {
            return wake();
        }
        let mut only_here = CpuSet::new();
        only_here.set(here);
        let bound = rustix::thread::sched_setaffinity(Some(self.pid), &only_here);
        let result = wake();
        if bound.is_ok() {
            // The thread may have ended; then no binding is left to undo.
            let _ = rustix::thread::sched_setaffinity(Some(self.pid), &own);
        }
        result
    }
}
