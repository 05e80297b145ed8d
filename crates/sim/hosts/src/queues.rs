//! Virtual NICs: packets posted to a NIC, packets received from it, and interrupts.
//!
//! A queue of references is also a receive queue: another host of the rack stores references in it.

use std::collections::VecDeque;
use unrack_rack::Nic;
use unrack_units::Time;

/// Queue from a host to a NIC.
#[derive(Clone, Default)]
pub(crate) struct TransmitQueue {
    /// Packets that the host has begun to send and that have not yet left.
    pub outstanding: u32,
    /// Packets whose descriptors are in memory and have not yet been read by the NIC.
    pub posted: VecDeque<u32>,
    /// Whether the NIC is processing this queue. If so, it checks the queue again at the end, so that the host need not
    /// ring its doorbell.
    pub busy: bool,
    /// Streams that wait for room in the queue.
    pub waiting: VecDeque<u32>,
}

impl TransmitQueue {
    /// Returns whether the queue is idle.
    pub(super) fn is_at_rest(&self) -> bool {
        self.outstanding == 0 && self.posted.is_empty() && self.waiting.is_empty() && !self.busy
    }
}

/// Queue from a NIC to a host.
#[derive(Clone)]
pub(crate) struct Receive {
    /// Number of posted descriptors of free buffers.
    pub posted: u32,
    /// Packets that are in memory and have not yet been taken by a core.
    pub completed: Vec<u32>,
    /// Number of packets that cores have taken and not yet finished.
    handled: u32,
    phase: QueuePhase,
    batch: usize,
    delay: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueuePhase {
    /// No packet has arrived.
    Idle,
    /// A packet has arrived. The queue raises an interrupt at this time.
    Waits(Time),
    /// A core was interrupted. When it has finished, it checks for further packets itself (NAPI).
    Handled,
}

/// Reaction of the queue to a packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Nothing,
    /// The queue raises an interrupt at this time, unless enough further packets arrive before.
    Later(Time),
    Interrupt,
}

impl Receive {
    /// Creates an empty queue with all of its descriptors posted.
    pub(super) fn new(spec: &Nic) -> Receive {
        let (batch, delay) = (spec.interrupt_batch as usize, spec.interrupt_delay);
        Receive {
            posted: spec.receive_queue,
            completed: Vec::new(),
            handled: 0,
            phase: QueuePhase::Idle,
            batch,
            delay,
        }
    }

    /// Returns whether the queue is idle and this number of descriptors is posted.
    pub(super) fn is_at_rest(&self, descriptors: u32) -> bool {
        self.phase == QueuePhase::Idle && self.completed.is_empty() && self.posted == descriptors
    }

    /// Records a packet that is now in memory. Returns whether and when an interrupt must follow.
    pub(super) fn complete(&mut self, now: Time, packet: u32) -> Asks {
        self.completed.push(packet);
        let first = self.phase == QueuePhase::Idle;
        match self.phase {
            QueuePhase::Handled => Asks::Nothing,
            _ if self.completed.len() >= self.batch || self.delay == Time::ZERO => {
                self.phase = QueuePhase::Handled;
                Asks::Interrupt
            }
            _ if first => {
                self.phase = QueuePhase::Waits(now + self.delay);
                Asks::Later(now + self.delay)
            }
            _ => Asks::Nothing,
        }
    }

    /// Returns whether the queue raises an interrupt now, at the time that [`Asks::Later`] returned.
    pub(super) fn is_late(&mut self, now: Time) -> bool {
        let late = self.phase == QueuePhase::Waits(now);
        if late {
            self.phase = QueuePhase::Handled;
        }
        late
    }

    /// Returns the packets that have arrived since the last call, so that cores can process them.
    pub(super) fn take(&mut self) -> Vec<u32> {
        self.handled += self.completed.len() as u32;
        std::mem::take(&mut self.completed)
    }

    /// Records that a core has finished a packet. Returns whether further packets can be taken.
    pub(super) fn through(&mut self) -> bool {
        self.handled -= 1;
        if self.handled > 0 {
            return false;
        }
        let more = !self.completed.is_empty();
        if !more {
            self.phase = QueuePhase::Idle;
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
