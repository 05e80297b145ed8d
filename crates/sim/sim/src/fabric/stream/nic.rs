//! Sending side of a node: subflows take turns at one link.
//!
//! As in Linux, a short FIFO queue feeds the link (byte queue limits). Streams that find the queue full take turns at refilling it, with
//! two packets each (fair queueing, `tc-fq`: quantum). Therefore a long stream delays a short stream by a few packets, and not by its whole
//! window. Acknowledgements join the queue at once.

use std::collections::VecDeque;
use unrack_engine::network::{Departure, Pace, Port};
use unrack_units::Time;

pub(super) struct HostNic {
    port: Port,
    free_at: Time,
    /// Subflows that wait for their turn at the link.
    ready: VecDeque<u32>,
    /// Whether a refill is scheduled.
    pub(super) refilling: bool,
}

/// Number of packets that a subflow sends per turn. It is also the number of full packets that the queue holds.
pub(super) const QUANTUM: u32 = 2;

impl HostNic {
    pub(super) fn new(pace: Pace) -> HostNic {
        HostNic { port: Port::new(pace), free_at: Time::ZERO, ready: VecDeque::new(), refilling: false }
    }

    pub(super) fn enqueue(&mut self, now: Time, bytes: u64) -> Departure {
        let departure = self.port.enqueue(now, bytes);
        self.free_at = departure.last;
        departure
    }

    /// Returns when the link will have sent all packets in its queue.
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Returns whether a subflow may send at once, because no other subflow waits and the queue is shorter than `limit` bytes.
    pub(super) fn is_open(&self, now: Time, limit: u64) -> bool {
        self.ready.is_empty() && self.port.backlog(now) < limit
    }

    pub(super) fn wait(&mut self, flow: u32) {
        self.ready.push_back(flow);
    }

    pub(super) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}
