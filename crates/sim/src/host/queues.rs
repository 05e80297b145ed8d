//! Virtual NICs: what a host has given to one, and what has come by it; and when it interrupts.
//!
//! A queue of references is a receive queue too, of what another host of the rack stored there.

use std::collections::VecDeque;
use unrack_rack::Nic;
use unrack_units::Time;

/// From a host to a NIC.
#[derive(Clone, Default)]
pub(super) struct Transmit {
    /// Packets that the host has begun to send and that are not yet gone.
    pub outstanding: u32,
    /// Those whose descriptors are in memory, and that the NIC has not yet looked at.
    pub posted: VecDeque<u32>,
    /// The NIC is at work, and will look again: its bell need not be rung.
    pub busy: bool,
    /// Streams that wait for room.
    pub waiting: VecDeque<u32>,
}

impl Transmit {
    #[cfg(test)]
    pub fn is_at_rest(&self) -> bool {
        self.outstanding == 0 && self.posted.is_empty() && self.waiting.is_empty() && !self.busy
    }
}

/// From a NIC to a host.
#[derive(Clone)]
pub(super) struct Receive {
    /// Descriptors of free buffers.
    pub posted: u32,
    /// Packets that are in memory, and of which no core knows yet.
    pub completed: Vec<u32>,
    /// Packets that cores have been told of, and are not through with.
    handled: u32,
    phase: Phase,
    batch: usize,
    delay: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has come.
    Idle,
    /// Something has; it interrupts then.
    Waits(Time),
    /// A core was interrupted, and looks for more itself when it is through (NAPI).
    Handled,
}

/// What a packet that has come asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Nothing,
    /// An interrupt, unless others come before this time.
    Later(Time),
    Interrupt,
}

impl Receive {
    pub fn new(spec: &Nic) -> Receive {
        let (batch, delay) = (spec.interrupt_batch as usize, spec.interrupt_delay);
        Receive {
            posted: spec.receive_queue,
            completed: Vec::new(),
            handled: 0,
            phase: Phase::Idle,
            batch,
            delay,
        }
    }

    #[cfg(test)]
    pub fn is_at_rest(&self, descriptors: u32) -> bool {
        self.phase == Phase::Idle && self.completed.is_empty() && self.posted == descriptors
    }

    /// A packet is in memory.
    pub fn complete(&mut self, now: Time, packet: u32) -> Asks {
        self.completed.push(packet);
        let first = self.phase == Phase::Idle;
        match self.phase {
            Phase::Handled => Asks::Nothing,
            _ if self.completed.len() >= self.batch || self.delay == Time::ZERO => {
                self.phase = Phase::Handled;
                Asks::Interrupt
            }
            _ if first => {
                self.phase = Phase::Waits(now + self.delay);
                Asks::Later(now + self.delay)
            }
            _ => Asks::Nothing,
        }
    }

    /// The time that a packet asked for has come: whether it interrupts.
    pub fn is_late(&mut self, now: Time) -> bool {
        let late = self.phase == Phase::Waits(now);
        if late {
            self.phase = Phase::Handled;
        }
        late
    }

    /// A core takes all that has come.
    pub fn take(&mut self) -> Vec<u32> {
        self.handled += self.completed.len() as u32;
        std::mem::take(&mut self.completed)
    }

    /// A core is through with a packet. Whether there is more to take.
    pub fn through(&mut self) -> bool {
        self.handled -= 1;
        if self.handled > 0 {
            return false;
        }
        let more = !self.completed.is_empty();
        if !more {
            self.phase = Phase::Idle;
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(batch: u32, delay_ns: u64) -> Receive {
        let delay = Time::from_ns(delay_ns);
        Receive::new(&Nic { interrupt_batch: batch, interrupt_delay: delay, ..Nic::default() })
    }

    #[test]
    fn a_batch_interrupts_and_so_does_time() {
        let mut queue = queue(3, 100);
        let at = Time::from_ns;
        assert_eq!(queue.complete(at(0), 1), Asks::Later(at(100)));
        assert_eq!(queue.complete(at(10), 2), Asks::Nothing);
        assert_eq!(queue.complete(at(20), 3), Asks::Interrupt);
        assert!(!queue.is_late(at(100)), "it was not");
        assert_eq!(queue.take(), [1, 2, 3]);
        assert_eq!(queue.complete(at(130), 4), Asks::Nothing, "whoever is at work looks again");
        assert_eq!([queue.through(), queue.through(), queue.through()], [false, false, true]);
        assert_eq!(queue.take(), [4]);
        assert!(!queue.through());
        assert_eq!(queue.complete(at(200), 5), Asks::Later(at(300)));
        assert!(queue.is_late(at(300)));
        assert_eq!(queue.take(), [5]);
    }

    #[test]
    fn without_delay_each_interrupts() {
        let mut queue = queue(64, 0);
        assert_eq!(queue.complete(Time::ZERO, 1), Asks::Interrupt);
    }
}
