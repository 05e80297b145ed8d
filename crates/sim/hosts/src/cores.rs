//! Cores that process packets, one task after the other.
//!
//! If tasks of the network stack and of programs both wait, they take turns. Linux behaves like this under load, when
//! it defers soft interrupts to a thread.

use std::collections::VecDeque;
use unrack_units::Time;

/// Task of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoreTask {
    /// The stack sends this packet.
    Send(u32),
    /// A core handles the interrupt of this receive queue.
    Interrupt(u32),
    /// The stack processes this packet, which has arrived.
    Stack(u32),
    /// The program loads the data of this packet.
    Read(u32),
}

#[derive(Clone, Default)]
pub(crate) struct Core {
    stack: VecDeque<CoreTask>,
    programs: VecDeque<CoreTask>,
    running: Option<CoreTask>,
    program_ran_last: bool,
    /// Total time that the core worked.
    pub busy: Time,
}

impl Core {
    /// Queues a task. Returns whether the core is idle, so that the caller should begin the task.
    pub(super) fn give(&mut self, task: CoreTask) -> bool {
        match task {
            CoreTask::Read(_) => self.programs.push_back(task),
            CoreTask::Send(_) | CoreTask::Interrupt(_) | CoreTask::Stack(_) => self.stack.push_back(task),
        }
        self.running.is_none()
    }

    /// Returns whether the core is idle.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Begins the next task and returns it; `None` if no task waits.
    pub(super) fn begin(&mut self) -> Option<CoreTask> {
        debug_assert!(self.running.is_none());
        let program = match (self.stack.is_empty(), self.programs.is_empty()) {
            (false, false) => !self.program_ran_last,
            (_, none) => !none,
        };
        self.program_ran_last = program;
        self.running = if program { self.programs.pop_front() } else { self.stack.pop_front() };
        self.running
    }

    /// Ends the running task and returns it.
    pub(super) fn end(&mut self) -> CoreTask {
        self.running.take().expect("a core ends what it began")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_and_programs_take_turns() {
        let mut core = Core::default();
        let given = [
            CoreTask::Stack(1),
            CoreTask::Stack(2),
            CoreTask::Stack(3),
            CoreTask::Read(1),
            CoreTask::Read(2),
        ];
        assert!(given.map(|task| core.give(task)).iter().all(|idle| *idle));
        let mut done = Vec::new();
        while core.begin().is_some() {
            assert!(!core.give(CoreTask::Send(9)) || done.len() > 9);
            core.stack.pop_back();
            done.push(core.end());
        }
        let [s1, s2, s3, r1, r2] = given;
        assert_eq!(done, [r1, s1, r2, s2, s3]);
    }
}
