//! Threads of the programs that have the agent: the current activity of each thread, and the address space that it uses.

use super::place::AgentSite;
use super::remote::{Call, Saved, result};
use crate::trace::{ResumeMode, Stop, raw};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::c_int;

/// A traced thread.
pub(super) struct Thread {
    /// Number of the address space; `None` if the agent is not in it.
    space: Option<u32>,
    is_filtered: bool,
    doing: ThreadActivity,
    /// A job-control stop arrived while the thread was in the agent.
    is_to_stop: bool,
}

/// Current activity of a thread, as far as it concerns the agent.
pub(super) enum ThreadActivity {
    OwnWork,
    /// The thread executes a program that gets the agent, and `execve` is about to return.
    Beginning,
    /// The thread waits for its turn in the agent (`Waiting`), or executes the agent (`InAgent`).
    Waiting(Box<Visit>),
    InAgent(Box<Visit>),
    /// The thread has been in the agent because of a system call, and now repeats that call.
    ForkAgain(Saved),
    RemapAgain(Saved),
    FilterAgain(Saved),
    /// The thread makes the system call itself.
    Forking,
    Remapping,
}

/// A call of a long function of the agent.
pub(super) struct Visit {
    turn: AgentStay,
    saved: Saved,
}

/// Reason for a visit to the agent: the function to call, and the state of the thread afterwards.
pub(super) struct AgentStay {
    call: Call,
    again: fn(Saved) -> ThreadActivity,
}

impl AgentStay {
    pub(super) fn fork(place: AgentSite) -> AgentStay {
        AgentStay { call: place.before_fork(), again: ThreadActivity::ForkAgain }
    }

    pub(super) fn remap(place: AgentSite, start: usize, len: usize) -> AgentStay {
        AgentStay { call: place.merge(start, len), again: ThreadActivity::RemapAgain }
    }
}

impl AgentStay {
    pub(super) fn leave(place: AgentSite) -> AgentStay {
        AgentStay { call: place.leave(), again: ThreadActivity::FilterAgain }
    }
}

/// A thread or process that its parent has reported, but that has not stopped yet.
struct Birth {
    space: Option<u32>,
    is_filtered: bool,
    is_copy: bool,
}

/// All traced threads.
#[derive(Default)]
pub(super) struct TracedThreads {
    threads: HashMap<u32, Thread>,
    places: HashMap<u32, AgentSite>,
    last_space: u32,
    births: HashMap<u32, Birth>,
    /// Threads that have stopped for the first time, but that their parents have not reported yet.
    unknown: Vec<u32>,
}

impl TracedThreads {
    pub(super) fn knows(&self, thread: u32) -> bool {
        self.threads.contains_key(&thread)
    }

    pub(super) fn is_filtered(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|thread| thread.is_filtered)
    }

    /// Returns where the agent is in the address space of a thread.
    pub(super) fn place(&self, thread: u32) -> Option<AgentSite> {
        self.places.get(&self.threads.get(&thread)?.space?).copied()
    }

    pub(super) fn doing(&self, thread: u32) -> &ThreadActivity {
        self.threads.get(&thread).map_or(&ThreadActivity::OwnWork, |thread| &thread.doing)
    }

    pub(super) fn set(&mut self, thread: u32, doing: ThreadActivity) {
        self.replace(thread, doing);
    }

    pub(super) fn replace(&mut self, thread: u32, doing: ThreadActivity) -> ThreadActivity {
        match self.threads.get_mut(&thread) {
            Some(thread) => std::mem::replace(&mut thread.doing, doing),
            None => ThreadActivity::OwnWork,
        }
    }

    /// Notes that a process has executed another program, and therefore has a new address space.
    pub(super) fn became_another(&mut self, thread: u32, before: u32) {
        let is_filtered = self.is_filtered(before);
        self.forget(before);
        self.forget(thread);
        self.threads.insert(thread, Thread::new(None, is_filtered));
    }

    /// Notes where the agent is in a thread's address space.
    pub(super) fn settle(&mut self, thread: u32, place: AgentSite) {
        self.settle_all(&[thread], place);
    }

    fn new_space(&mut self, place: AgentSite) -> u32 {
        self.last_space += 1;
        self.places.insert(self.last_space, place);
        self.last_space
    }

    /// Notes a thread whose program ran before it was traced.
    pub(super) fn found(&mut self, thread: u32) {
        self.births.remove(&thread);
        self.unknown.retain(|unknown| *unknown != thread);
        self.threads.insert(thread, Thread::new(None, false));
    }

    /// Notes where the agent is in the address space that these threads share.
    pub(super) fn settle_all(&mut self, threads: &[u32], place: AgentSite) {
        let space = self.new_space(place);
        for thread in threads {
            if let Some(thread) = self.threads.get_mut(thread) {
                (thread.space, thread.is_filtered) = (Some(space), true);
            }
        }
    }

    /// Notes that the agent's pager has ended in the address space of a thread.
    pub(super) fn left(&mut self, thread: u32) {
        let Some(space) = self.threads.get(&thread).and_then(|thread| thread.space) else { return };
        self.places.remove(&space);
        let all = self.threads.values_mut().filter(|thread| thread.space == Some(space));
        all.for_each(|thread| thread.space = None);
    }

    /// Notes that a parent has reported a child. Returns whether the child has stopped already.
    pub(super) fn gave_birth(&mut self, parent: u32, child: u32, is_copy: bool) -> bool {
        let (space, is_filtered) =
            self.threads.get(&parent).map_or((None, false), |parent| (parent.space, parent.is_filtered));
        self.births.insert(child, Birth { space, is_filtered, is_copy });
        let before = self.unknown.len();
        self.unknown.retain(|unknown| *unknown != child);
        self.unknown.len() < before
    }

    /// Registers a child at its first stop. Returns whether its memory is a copy of its parent's memory, or `None` if the parent has not
    /// reported the child yet.
    pub(super) fn take_in(&mut self, child: u32) -> Option<bool> {
        let Some(Birth { space, is_filtered, is_copy }) = self.births.remove(&child) else {
            self.unknown.push(child);
            return None;
        };
        let place = space.and_then(|space| self.places.get(&space).copied());
        let space = if is_copy { place.map(|place| self.new_space(place)) } else { space };
        self.threads.insert(child, Thread::new(space, is_filtered));
        Some(is_copy)
    }

    /// Forgets a thread that has ended.
    pub(super) fn forget(&mut self, thread: u32) {
        self.births.remove(&thread);
        self.unknown.retain(|unknown| *unknown != thread);
        let Some(Thread { space: Some(space), .. }) = self.threads.remove(&thread) else { return };
        let is_used = self.threads.values().any(|thread| thread.space == Some(space))
            || self.births.values().any(|birth| birth.space == Some(space));
        if !is_used {
            self.places.remove(&space);
        }
    }

    /// Queues a thread for the agent. Returns whether the thread may enter the agent at once.
    pub(super) fn queue(&mut self, thread: u32, turn: AgentStay, saved: Saved) -> bool {
        self.set(thread, ThreadActivity::Waiting(Box::new(Visit { turn, saved })));
        self.is_free(thread)
    }

    fn is_free(&self, thread: u32) -> bool {
        let space = self.threads.get(&thread).and_then(|thread| thread.space);
        let occupies =
            |thread: &Thread| thread.space == space && matches!(thread.doing, ThreadActivity::InAgent(_));
        !self.threads.values().any(occupies)
    }

    /// Sets a thread's registers so that it enters the agent when it is continued.
    pub(super) fn start(&mut self, thread: u32) -> Result<(), Errno> {
        if let ThreadActivity::Waiting(visit) = self.replace(thread, ThreadActivity::OwnWork) {
            let begun = visit.turn.call.begin(thread, &visit.saved);
            self.set(thread, ThreadActivity::InAgent(visit));
            begun?;
        }
        Ok(())
    }

    /// Sets a thread's registers so that it leaves the agent and repeats its system call when it is continued.
    pub(super) fn leave(&mut self, thread: u32) -> Result<(), Errno> {
        if let ThreadActivity::InAgent(visit) = self.replace(thread, ThreadActivity::OwnWork) {
            let Visit { turn, saved } = *visit;
            let left = result(thread).and_then(|_| saved.repeat(thread));
            self.set(thread, (turn.again)(saved));
            left?;
        }
        let is_to_stop = |thread: &mut Thread| std::mem::take(&mut thread.is_to_stop);
        if self.threads.get_mut(&thread).is_some_and(is_to_stop) {
            stop(thread);
        }
        Ok(())
    }

    /// Continues the threads that may enter the agent now.
    pub(super) fn next_turn(&mut self) {
        let waits = |(_, thread): &(&u32, &Thread)| matches!(thread.doing, ThreadActivity::Waiting(_));
        let waiting: Vec<u32> = self.threads.iter().filter(waits).map(|(id, _)| *id).collect();
        for thread in waiting {
            if self.is_free(thread) && self.start(thread).is_ok() {
                let _ = raw::run(thread, 0);
            }
        }
    }

    /// Handles a stop caused by a signal or by job control. A thread inside the agent stops only after it has left the agent, because other
    /// threads may wait for the agent.
    pub(super) fn defer(&mut self, thread: u32, stop: Stop) -> ResumeMode {
        let Some(known) = self.threads.get_mut(&thread) else { return stop.onward() };
        match (&known.doing, stop) {
            (ThreadActivity::InAgent(_), Stop::Signal(libc::SIGSTOP) | Stop::Group(_)) => {
                known.is_to_stop = true
            }
            (ThreadActivity::InAgent(_), Stop::Pause) => known.is_to_stop = false,
            _ => return stop.onward(),
        }
        ResumeMode::Run(0)
    }
}

impl Thread {
    fn new(space: Option<u32>, is_filtered: bool) -> Thread {
        Thread { space, is_filtered, doing: ThreadActivity::OwnWork, is_to_stop: false }
    }
}

/// Stops the process of a thread in place of the job-control signal that was held back.
fn stop(thread: u32) {
    const SIGNAL: c_int = libc::SIGSTOP;
    // SAFETY: sends a signal.
    unsafe { libc::syscall(libc::SYS_tkill, thread as c_int, SIGNAL) };
}
