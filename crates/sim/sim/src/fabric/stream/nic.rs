//! Sending side of a node: subflows take turns at one link.
//!
//! As in Linux, a short first-in-first-out queue feeds the link (byte queue limits), and streams that find it full
//! take turns at refilling it, two packets each (fair queueing, `tc-fq`: quantum). So a long stream delays a short
//! one by a few packets, not by its window. Acknowledgements join the queue at once.

use std::collections::VecDeque;
use unrack_engine::network::{Departure, Pace, Port};
use unrack_units::Time;

pub(super) struct Nic {
    port: Port,
    free_at: Time,
    /// Subflows that wait for their turn.
    ready: VecDeque<u32>,
    /// A refill is scheduled.
    pub(super) refilling: bool,
}

/// Packets per turn; also the number of full packets that the queue takes.
pub(super) const QUANTUM: u32 = 2;

impl Nic {
    pub(super) fn new(pace: Pace) -> Nic {
        Nic { port: Port::new(pace), free_at: Time::ZERO, ready: VecDeque::new(), refilling: false }
    }

    pub(super) fn enqueue(&mut self, now: Time, bytes: u64) -> Departure {
        let departure = self.port.enqueue(now, bytes);
        self.free_at = departure.last;
        departure
    }

    /// Returns when the link has sent all that it was given.
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Returns whether a subflow may send at once: no other waits and the queue is short.
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
