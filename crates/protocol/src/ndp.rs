//! NDP: re-architecting datacenter networks and stacks for low latency and high performance (Handley et
//! al., SIGCOMM 2017).
//!
//! A transfer starts at line rate without asking (§3.2). Full switches trim packets to their headers, so that the
//! receiver knows at once what was lost; it requests every further packet by a *pull*, one per packet time of its link.

use crate::segments::SegmentSet;
use crate::silence::{STEADY, Silence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use unrack_units::Time;

/// Parameters of NDP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets that a transfer may send without a pull. Default: one bandwidth-delay product (§3.2).
    pub initial_window: Option<u32>,
    /// Packets that may wait at a switch port with their payload; others are trimmed. Default 8 (§3.1).
    pub data_packets: u32,
    /// Silence after which unacknowledged packets are taken as lost: for lost headers, which are rare. Default 1 ms
    /// (§3.2.4: a coarse timer).
    pub rto: Time,
}

impl Default for Params {
    fn default() -> Params {
        Params { initial_window: None, data_packets: 8, rto: Time::from_us(1_000) }
    }
}

/// The sending side of one transfer.
#[derive(Debug, Clone)]
pub struct Sender {
    segments: u32,
    acknowledged: SegmentSet,
    /// Segments sent without an acknowledgement or a report of loss since.
    outstanding: SegmentSet,
    /// Segments to be sent again, in order.
    again: VecDeque<u32>,
    /// Next segment that was never sent.
    new: u32,
    /// Packets that the sender may still send.
    allowed: u32,
    /// Highest pull number seen.
    pulled: u32,
    deadline: Time,
    rto: Time,
    /// Timeouts since a segment was last acknowledged for the first time.
    silence: Silence,
    given_up: bool,
}

impl Sender {
    /// Creates the sender of a transfer of `segments` segments that may send `window` of them without a pull.
    pub fn new(segments: u32, window: u32, rto: Time, now: Time) -> Sender {
        Sender {
            segments,
            acknowledged: SegmentSet::new(segments),
            outstanding: SegmentSet::new(segments),
            again: VecDeque::new(),
            new: 0,
            allowed: window.min(segments),
            pulled: 0,
            deadline: now + rto,
            rto,
            silence: Silence::default(),
            given_up: false,
        }
    }

    /// Returns whether all is acknowledged, or the sender has given up.
    pub fn is_done(&self) -> bool {
        self.acknowledged.count() == self.segments || self.given_up
    }

    /// Returns whether the sender has given up; see [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Returns whether a segment may be sent now.
    pub fn is_ready(&self) -> bool {
        self.allowed > 0 && (!self.again.is_empty() || self.new < self.segments)
    }

    /// Returns the segment to send now, and whether it was sent before. Retransmissions go first (§3.2).
    pub fn poll_transmit(&mut self) -> Option<(u32, bool)> {
        if !self.is_ready() {
            return None;
        }
        self.allowed -= 1;
        let (segment, again) = match self.again.pop_front() {
            Some(segment) => (segment, true),
            None => {
                self.new += 1;
                (self.new - 1, false)
            }
        };
        self.outstanding.insert(segment);
        Some((segment, again))
    }

    /// Handles the acknowledgement of a segment.
    pub fn handle_ack(&mut self, now: Time, segment: u32) {
        self.deadline = now + self.rto;
        self.outstanding.remove(segment);
        if self.acknowledged.insert(segment) {
            self.silence.end();
            self.again.retain(|other| *other != segment);
        }
    }

    /// Handles the report that a segment was trimmed: it is to be sent again.
    pub fn handle_nack(&mut self, now: Time, segment: u32) {
        self.deadline = now + self.rto;
        if self.outstanding.remove(segment) && !self.acknowledged.contains(segment) {
            self.again.push_back(segment);
        }
    }

    /// Handles the report that the receiver has the whole transfer.
    pub fn handle_done(&mut self) {
        for segment in 0..self.segments {
            self.acknowledged.insert(segment);
        }
        self.again.clear();
    }

    /// Handles a pull. `pull` counts the pulls sent for this transfer until now, so that the next one makes up for a
    /// lost one. Packets take all paths, so that a pull may overtake the report that its packet was trimmed: it is
    /// kept while a segment is outstanding, whose report may still come. It expires if nothing could be left for it.
    pub fn handle_pull(&mut self, now: Time, pull: u32) {
        self.deadline = now + self.rto;
        if self.given_up {
            return;
        }
        self.allowed += pull.saturating_sub(self.pulled);
        self.pulled = self.pulled.max(pull);
        let left = self.again.len() as u32 + self.outstanding.count() + (self.segments - self.new);
        self.allowed = self.allowed.min(left);
    }

    /// Returns when [`handle_timeout`](Sender::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.is_done()).then_some(self.deadline)
    }

    /// Takes all outstanding segments as lost, if nothing was heard for a retransmission timeout. One packet may be
    /// sent, to tell the receiver so.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.is_done() || now < self.deadline {
            return;
        }
        let Some(timeout) = self.silence.handle_timeout(self.rto, STEADY) else {
            (self.given_up, self.allowed) = (true, 0);
            return;
        };
        self.deadline = now + timeout;
        let lost = (0..self.new).filter(|segment| self.outstanding.contains(*segment));
        self.again.extend(lost);
        self.outstanding.clear();
        self.allowed = 1;
    }
}

/// Pulls that a receiver owes, paced at the rate of its link: each transfer in turn (§3.2).
#[derive(Debug, Clone, Default)]
pub struct PullQueue {
    /// Transfers, and the pulls owed to each: at least one.
    owed: VecDeque<(u32, u32)>,
    next_at: Time,
}

impl PullQueue {
    /// Owes a transfer one more pull, because a packet of it, or its header, has arrived. Returns whether it was owed
    /// none before.
    pub fn add(&mut self, transfer: u32) -> bool {
        let owed = self.owed.iter_mut().find(|(other, _)| *other == transfer);
        let is_first = owed.is_none();
        match owed {
            Some((_, pulls)) => *pulls += 1,
            None => self.owed.push_back((transfer, 1)),
        }
        is_first
    }

    /// Cancels the pulls of a transfer that has arrived. Returns whether it was owed any.
    pub fn remove(&mut self, transfer: u32) -> bool {
        let before = self.owed.len();
        self.owed.retain(|(other, _)| *other != transfer);
        self.owed.len() < before
    }

    /// Returns the transfer to pull now, and whether it is owed no more. A packet takes `pace` to arrive.
    pub fn poll(&mut self, now: Time, pace: Time) -> Option<(u32, bool)> {
        if now < self.next_at {
            return None;
        }
        let (transfer, pulls) = self.owed.pop_front()?;
        if pulls > 1 {
            self.owed.push_back((transfer, pulls - 1));
        }
        self.next_at = now + pace;
        Some((transfer, pulls == 1))
    }

    /// Returns when the next pull may be sent, if any is owed.
    pub fn next(&self) -> Option<Time> {
        (!self.owed.is_empty()).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_is_sent_again_first_when_it_is_pulled() {
        let mut sender = Sender::new(6, 3, Time::from_us(10), Time::ZERO);
        let sent: Vec<_> = std::iter::from_fn(|| sender.poll_transmit()).collect();
        assert_eq!(sent, [(0, false), (1, false), (2, false)]);
        let now = Time::from_us(1);
        sender.handle_ack(now, 0);
        sender.handle_nack(now, 1);
        assert_eq!(sender.poll_transmit(), None);
        sender.handle_pull(now, 2);
        assert_eq!((sender.poll_transmit(), sender.poll_transmit()), (Some((1, true)), Some((3, false))));
        // The next pull makes up for a lost one.
        sender.handle_pull(now, 4);
        assert_eq!((sender.poll_transmit(), sender.poll_transmit()), (Some((4, false)), Some((5, false))));
        // A pull that overtakes the report of a trimmed packet is kept for it; three of five have nothing to send.
        for segment in [1, 3] {
            sender.handle_ack(now, segment);
        }
        sender.handle_pull(now, 9);
        sender.handle_nack(now, 5);
        assert_eq!(sender.poll_transmit(), Some((5, true)));
        assert_eq!(sender.poll_transmit(), None);
        sender.handle_timeout(Time::from_us(11));
        assert_eq!(sender.poll_transmit(), Some((2, true)));
    }

    #[test]
    fn pulls_are_paced_and_taken_in_turn() {
        let mut queue = PullQueue::default();
        let pace = Time::from_us(1);
        assert_eq!([7, 7, 8].map(|transfer| queue.add(transfer)), [true, false, true]);
        assert_eq!(queue.poll(Time::ZERO, pace), Some((7, false)));
        assert_eq!((queue.poll(Time::ZERO, pace), queue.next()), (None, Some(pace)));
        assert_eq!(queue.poll(pace, pace), Some((8, true)));
        assert_eq!(queue.poll(pace * 2, pace), Some((7, true)));
        queue.add(9);
        assert!(queue.remove(9) && !queue.remove(9));
        assert_eq!(queue.next(), None);
    }
}
