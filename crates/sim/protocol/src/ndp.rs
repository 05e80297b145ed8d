//! NDP: re-architecting datacenter networks and stacks for low latency and high performance (Handley et
//! al., SIGCOMM 2017).
//!
//! The sender of a transfer starts at line rate, without a permission of the receiver (§3.2). A switch with a full queue trims packets to
//! their headers, so that the receiver learns at once which packets lost their payload. The receiver requests every further packet with a
//! *pull*. It sends one pull in the time that a packet takes on its link.

use crate::segments::SegmentSet;
use crate::silence::{LONGEST, STEADY, TimeoutCount};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use unrack_units::Time;

/// Parameters of NDP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of packets of a transfer that the sender may send without a pull. Default: one bandwidth-delay product (§3.2).
    pub initial_window: Option<u32>,
    /// Maximum number of packets with payload in the queue of a switch port. The switch trims further packets. Default 8 (§3.1).
    pub data_packets: u32,
    /// Time after which the sender sends a packet again if it has received neither an acknowledgement nor a report that the packet was
    /// trimmed. This recovers packets that were lost on a link, and lost headers of trimmed packets, which are rare. Default: the longer of
    /// two times. The first is three round trips of the empty network. The second is one round trip plus the time that the slower links
    /// take for everything that may be queued on the way: `data_packets` packets at each port, the headers of one window of every node and,
    /// if the reports on a packet take longer than the packet, these reports. (§3.2.4 has a coarse timer of 1 ms.)
    pub rto: Option<Time>,
}

impl Default for Params {
    fn default() -> Params {
        Params { initial_window: None, data_packets: 8, rto: None }
    }
}

/// Timeouts of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time after which the sender sends a packet again if neither an acknowledgement nor a report that the packet was trimmed has arrived.
    pub rto: Time,
    /// Time after which a sender that has no packet in flight considers the pulls that it waits for as lost. It must exceed the time in
    /// which the receiver sends one pull to each of its transfers. The time doubles with each such timeout.
    pub idle: Time,
    /// Seed of the random extra waits of repeated timeouts; see [`TimeoutCount`].
    pub salt: u32,
}

/// Sending side of one transfer.
///
/// Each packet has a separate timeout, as in the simulator of the paper's authors. After the timeout, the sender sends the packet again
/// without a pull. Otherwise the transfer would have one packet fewer in flight from then on, because a lost packet causes no pull.
#[derive(Debug, Clone)]
pub struct Sender {
    segments: u32,
    acknowledged: SegmentSet,
    /// Segments in flight: sent, and since then neither acknowledged nor reported as trimmed. Each has the time at which it was sent; the
    /// oldest is first.
    outstanding: VecDeque<(Time, u32)>,
    /// Segments to be sent again, in order.
    again: VecDeque<u32>,
    /// First segment that was never sent.
    new: u32,
    /// Number of packets that the sender may still send before the next pull.
    allowed: u32,
    /// Highest pull number received.
    pulled: u32,
    timeouts: Timeouts,
    /// Time since which no packet has been in flight, or the time of the receiver's latest answer if that is later.
    idle_since: Time,
    /// End of the current round of timeouts. All timeouts of packets that expire before this time count as one.
    round_ends: Time,
    /// Number of rounds of timeouts since the last acknowledgement of a segment that had not been acknowledged before.
    silence: TimeoutCount,
    given_up: bool,
}

impl Sender {
    /// Creates the sender of a transfer of `segments` segments. It may send `window` of them without a pull.
    pub fn new(segments: u32, window: u32, timeouts: Timeouts, now: Time) -> Sender {
        Sender {
            segments,
            acknowledged: SegmentSet::new(segments),
            outstanding: VecDeque::new(),
            again: VecDeque::new(),
            new: 0,
            allowed: window.min(segments),
            pulled: 0,
            timeouts,
            idle_since: now,
            round_ends: Time::ZERO,
            silence: TimeoutCount::new(timeouts.salt),
            given_up: false,
        }
    }

    /// Returns whether all segments are acknowledged, or the sender has given up.
    pub fn is_done(&self) -> bool {
        self.acknowledged.count() == self.segments || self.given_up
    }

    /// Returns whether the sender has given up; see [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Returns whether there is a segment that the sender has not sent yet, or knows that it must send again.
    pub fn has_unsent(&self) -> bool {
        !self.given_up && (!self.again.is_empty() || self.new < self.segments)
    }

    /// Returns whether a segment may be sent now.
    pub fn is_ready(&self) -> bool {
        self.allowed > 0 && self.has_unsent()
    }

    /// Returns the segment to send now, and whether this segment was sent before. Retransmissions precede new segments (§3.2).
    pub fn poll_transmit(&mut self, now: Time) -> Option<(u32, bool)> {
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
        self.outstanding.push_back((now, segment));
        Some((segment, again))
    }

    /// Removes a segment from the segments in flight. Returns whether it was in flight.
    fn land(&mut self, now: Time, segment: u32) -> bool {
        self.idle_since = now;
        let at = self.outstanding.iter().position(|(_, other)| *other == segment);
        at.is_some_and(|at| self.outstanding.remove(at).is_some())
    }

    /// Handles the acknowledgement of a segment.
    pub fn handle_ack(&mut self, now: Time, segment: u32) {
        self.land(now, segment);
        if self.acknowledged.insert(segment) {
            self.silence.end();
            self.again.retain(|other| *other != segment);
        }
    }

    /// Handles the receiver's report that a segment was trimmed, and queues this segment to be sent again.
    pub fn handle_nack(&mut self, now: Time, segment: u32) {
        if self.land(now, segment) && !self.acknowledged.contains(segment) {
            self.again.push_back(segment);
        }
    }

    /// Handles the report that the receiver has received the whole transfer.
    pub fn handle_done(&mut self) {
        for segment in 0..self.segments {
            self.acknowledged.insert(segment);
        }
        self.again.clear();
        self.outstanding.clear();
    }

    /// Handles a pull. `pull` is the number of pulls that the receiver has sent for this transfer so far, so that a later pull makes up for
    /// a lost one. A pull may overtake the report that a packet was trimmed, because packets take different paths. Therefore the sender
    /// keeps a pull that it cannot use while any segment is in flight, because this segment may still be reported as trimmed. The sender
    /// drops a pull if no segment can be left for it.
    pub fn handle_pull(&mut self, now: Time, pull: u32) {
        self.idle_since = now;
        if self.given_up {
            return;
        }
        self.allow(pull.saturating_sub(self.pulled));
        self.pulled = self.pulled.max(pull);
    }

    /// Allows the sender to send `packets` more packets, but no more than the transfer can still need.
    fn allow(&mut self, packets: u32) {
        let left = (self.again.len() + self.outstanding.len()) as u32 + (self.segments - self.new);
        self.allowed = (self.allowed + packets).min(left);
    }

    /// Returns when the caller must call [`handle_timeout`](Sender::handle_timeout). This time may become earlier when the sender sends a
    /// packet, and when an acknowledgement arrives after timeouts.
    pub fn poll_timeout(&self) -> Option<Time> {
        let at = match self.outstanding.front() {
            Some((sent, _)) => *sent + self.silence.timeout(self.timeouts.rto, STEADY),
            None => self.idle_since + self.timeouts.idle,
        };
        (!self.is_done()).then_some(at)
    }

    /// Queues all packets whose timeouts have expired to be sent again. These packets need no pull, because a lost packet causes none. If
    /// no packet is in flight and a pull is overdue, allows the sender to send one packet without a pull.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        if self.outstanding.is_empty() {
            self.idle_since = now;
            if self.is_ready() {
                return;
            }
            self.timeouts.idle = (self.timeouts.idle * 2).min(LONGEST);
        }
        let wait = self.silence.timeout(self.timeouts.rto, STEADY);
        if now >= self.round_ends {
            let Some(next) = self.silence.handle_timeout(self.timeouts.rto, STEADY) else {
                (self.given_up, self.allowed) = (true, 0);
                return;
            };
            self.round_ends = now + next;
        }
        // If no packet was in flight, one packet may go without a pull.
        let lost = self.expire(now, wait).max(1);
        self.allow(lost);
    }

    /// Counts the packets that were sent at least `wait` ago as lost, and queues them to be sent again. Returns their number.
    fn expire(&mut self, now: Time, wait: Time) -> u32 {
        let lost = self.outstanding.iter().take_while(|(sent, _)| *sent + wait <= now).count();
        self.again.extend(self.outstanding.drain(..lost).map(|(_, segment)| segment));
        lost as u32
    }
}

/// Queue of the pulls that a receiver still has to send to its senders. The receiver sends pulls at the rate of its link, and its transfers
/// take turns (§3.2).
#[derive(Debug, Clone, Default)]
pub struct PullQueue {
    /// Transfers with pulls still to be sent, each with the number of these pulls, which is at least one.
    owed: VecDeque<(u32, u32)>,
    next_at: Time,
}

impl PullQueue {
    /// Adds a pull for a transfer, because one of its packets or trimmed headers has arrived. Returns whether the queue had no pull for
    /// this transfer before.
    pub fn add(&mut self, transfer: u32) -> bool {
        let owed = self.owed.iter_mut().find(|(other, _)| *other == transfer);
        let is_first = owed.is_none();
        match owed {
            Some((_, pulls)) => *pulls += 1,
            None => self.owed.push_back((transfer, 1)),
        }
        is_first
    }

    /// Removes the pulls for a transfer that is complete. Returns whether the queue had any.
    pub fn remove(&mut self, transfer: u32) -> bool {
        let before = self.owed.len();
        self.owed.retain(|(other, _)| *other != transfer);
        self.owed.len() < before
    }

    /// Returns the transfer for which the receiver must send a pull now, and whether this was the last pull for this transfer in the queue.
    /// The next pull follows no earlier than `pace` later, the time that a packet takes to arrive.
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

    /// Returns when the receiver may send the next pull, or `None` if the queue is empty.
    pub fn next(&self) -> Option<Time> {
        (!self.owed.is_empty()).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Time = Time::from_us(10);

    fn sender(segments: u32, window: u32) -> Sender {
        Sender::new(segments, window, Timeouts { rto: RTO, idle: RTO * 5, salt: 1 }, Time::ZERO)
    }

    fn send_all(sender: &mut Sender, now: Time) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| sender.poll_transmit(now)).collect()
    }

    #[test]
    fn what_was_cut_is_sent_again_first_when_it_is_pulled() {
        let mut sender = sender(6, 3);
        assert_eq!(send_all(&mut sender, Time::ZERO), [(0, false), (1, false), (2, false)]);
        let now = Time::from_us(1);
        sender.handle_ack(now, 0);
        sender.handle_nack(now, 1);
        assert_eq!(sender.poll_transmit(now), None);
        sender.handle_pull(now, 2);
        assert_eq!(send_all(&mut sender, now), [(1, true), (3, false)]);
        // The next pull makes up for a lost one.
        sender.handle_pull(now, 4);
        assert_eq!(send_all(&mut sender, now), [(4, false), (5, false)]);
        // A pull that overtakes the report of a trimmed packet is kept for that packet. Of the five pulls, three find
        // nothing to send.
        for segment in [1, 3] {
            sender.handle_ack(now, segment);
        }
        sender.handle_pull(now, 9);
        sender.handle_nack(now, 5);
        assert_eq!(send_all(&mut sender, now), [(5, true)]);
        sender.handle_timeout(RTO);
        assert_eq!(send_all(&mut sender, RTO), [(2, true)]);
    }

    fn due(arriving: &mut VecDeque<(Time, u32)>, now: Time) -> Option<(Time, u32)> {
        arriving.front().is_some_and(|(at, _)| *at <= now).then(|| arriving.pop_front()).flatten()
    }

    /// A lost packet causes no pull. Therefore the sender must be able to replace the packet in the window without a pull.
    #[test]
    fn the_window_is_whole_again_after_losses() {
        let mut sender = sender(1_000, 8);
        let (mut arriving, mut pulls, mut under_way) = (VecDeque::new(), 0, Vec::new());
        for us in 0.. {
            let now = Time::from_us(us);
            while let Some((_, segment)) = due(&mut arriving, now) {
                pulls += 1;
                sender.handle_ack(now, segment);
                sender.handle_pull(now, pulls);
            }
            sender.handle_timeout(now);
            let sent = send_all(&mut sender, now).into_iter();
            // One packet in ten is lost when it is sent for the first time.
            let survive = sent.filter(|(segment, again)| *again || segment % 10 != 3);
            arriving.extend(survive.map(|(segment, _)| (now + Time::from_us(2), segment)));
            if sender.new == 1_000 {
                break;
            }
            under_way.push(sender.outstanding.len());
        }
        assert!(under_way.iter().all(|count| *count == 8), "{under_way:?}");
        // Lost packets leave their places, of the eight, empty for 10 to 15 us each instead of 2 us.
        assert!(under_way.len() < 1_000 / 8 * 2 * 2, "{}", under_way.len());
    }

    #[test]
    fn a_sender_without_pulls_tries_ever_later() {
        let mut sender = sender(4, 1);
        let mut at = Vec::new();
        for _ in 0..4 {
            let now = sender.poll_timeout().unwrap();
            sender.handle_timeout(now);
            for (segment, _) in send_all(&mut sender, now) {
                at.push(now);
                sender.handle_nack(now, segment);
            }
        }
        let waits: Vec<u64> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_ns() / 1_000).collect();
        assert_eq!(waits, [50, 100, 200], "{at:?}");
    }

    /// If the receiver never answers, the sender sends its whole window again in each round of timeouts until it gives up. The number of
    /// rounds does not depend on the number of packets in flight.
    #[test]
    fn it_gives_up_after_as_many_rounds_however_many_packets_are_under_way() {
        let rounds = |window| {
            let (mut sender, mut sent, mut now) = (sender(100, window), 0, Time::ZERO);
            while !sender.has_given_up() {
                sent += send_all(&mut sender, now).len() as u32;
                now = sender.poll_timeout().unwrap();
                sender.handle_timeout(now);
            }
            assert!(now > LONGEST, "{now}");
            sent / window
        };
        assert_eq!(rounds(1), rounds(20));
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
