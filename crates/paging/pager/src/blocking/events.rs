//! Messages of the kernel about the program: faults, and changes of its address space.

use crate::control::ControlHead;
use crate::gate;
use crate::memory::Memory;
use crate::sys::Event;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rustix::io::Errno;

/// Messages that were read but not handled yet, in the order of their arrival.
pub(super) struct FaultEvents {
    control: &'static ControlHead,
    backlog: VecDeque<Event>,
    incoming: Vec<Event>,
    /// True if a read waits for messages.
    is_waiting: bool,
    /// Number of changes of the address space applied so far.
    applied: u64,
}

impl FaultEvents {
    pub(super) fn new(control: &'static ControlHead) -> FaultEvents {
        FaultEvents { control, backlog: VecDeque::new(), incoming: Vec::new(), is_waiting: false, applied: 0 }
    }

    /// Waits until there are messages, and reads them. One system call instead of two, but without an end: another thread must be ready to
    /// ring the doorbell.
    pub(super) fn wait(&mut self, memory: &Memory) {
        if !self.is_waiting {
            self.is_waiting = memory.uffd.set_waiting(true).is_ok();
        }
        self.read_now(memory);
    }

    /// Reads all available messages and returns whether there were any.
    pub(super) fn read(&mut self, memory: &Memory) -> bool {
        if self.is_waiting {
            self.is_waiting = memory.uffd.set_waiting(false).is_err();
        }
        self.read_now(memory)
    }

    /// Reads messages. If they cannot be read, ends the process, because its threads would wait forever.
    fn read_now(&mut self, memory: &Memory) -> bool {
        match self.try_read(memory) {
            Ok(any) => any,
            Err(_) => gate::die(self.control, "the userfaultfd cannot be read any more"),
        }
    }

    fn try_read(&mut self, memory: &Memory) -> Result<bool, Errno> {
        self.incoming.clear();
        memory.read_events(&mut self.incoming)?;
        self.backlog.extend(self.incoming.iter().copied());
        Ok(!self.incoming.is_empty())
    }

    /// Reads messages until the address space is not changing any more.
    pub(super) fn read_until_still(&mut self, memory: &Memory) {
        loop {
            self.read(memory);
            if !memory.uffd.is_changing() {
                return;
            }
            rustix::thread::sched_yield();
        }
    }

    /// Returns the message at this index of the backlog, which may grow while the message is handled.
    pub(super) fn get(&self, at: usize) -> Option<Event> {
        self.backlog.get(at).copied()
    }

    /// Returns the messages behind this index of the backlog.
    pub(super) fn behind(&self, at: usize) -> impl Iterator<Item = &Event> {
        self.backlog.iter().skip(at + 1)
    }

    /// Removes all changes, which have been applied, from the backlog and keeps the faults.
    pub(super) fn applied(&mut self) {
        let before = self.backlog.len();
        self.backlog.retain(|event| matches!(event, Event::Fault { .. }));
        self.applied += (before - self.backlog.len()) as u64;
    }

    /// Returns the number of changes of the address space applied so far. When the number grows, pages that a caller has selected may no
    /// longer exist.
    pub(super) fn changes(&self) -> u64 {
        self.applied
    }

    /// Returns whether no message waits to be handled.
    pub(super) fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Removes the oldest message from the backlog and returns it.
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.backlog.pop_front()
    }
}
