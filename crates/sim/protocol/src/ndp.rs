//! NDP: re-architecting datacenter networks and stacks for low latency and high performance (Handley et
//! al., SIGCOMM 2017).
//!
//! A transfer starts at line rate without asking (§3.2). A full switch trims packets to their headers, so that the
//! receiver learns at once which packets were lost. The receiver requests every further packet by a *pull*, one per
//! packet time of its link.

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
    /// Packets that a transfer may send without a pull. Default: one bandwidth-delay product (§3.2).
    pub initial_window: Option<u32>,
    /// Packets that may wait at a switch port with their payload; others are trimmed. Default 8 (§3.1).
    pub data_packets: u32,
    /// Time after which a packet is sent again if no report on it has arrived. This recovers packets lost on a link,
    /// and trimmed headers that were lost, which is rare. Default: three round trips of the empty network or, if that
    /// is longer, one round trip plus the time that the slower links take for the packets that may wait on the way:
    /// `data_packets` packets at each port, the headers of a window of every node and, if the reports on a packet take
    /// longer than the packet, these reports. (§3.2.4 has a coarse timer of 1 ms.)
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
    /// Time after which a packet is sent again if no report on it has arrived.
    pub rto: Time,
    /// Time after which a sender with no packet in flight considers the pulls that it waits for as lost. It must
    /// exceed one round-robin turn of the transfers that the receiver pulls. It doubles each time.
    pub idle: Time,
    /// Seed of the random extra waits of repeated timeouts; see [`Silence`].
    pub salt: u32,
}

/// Sending side of one transfer.
///
/// Each packet has its own timeout, as in the simulator of the paper's authors, and is sent again without a pull.
/// Because a lost packet causes no pull, the transfer would otherwise have one packet fewer in flight from then on.
#[derive(Debug, Clone)]
pub struct Sender {
    segments: u32,
    acknowledged: SegmentSet,
    /// Segments sent without an acknowledgement or report of loss since then, each with the time at which it was sent,
    /// oldest first.
    outstanding: VecDeque<(Time, u32)>,
    /// Segments to be sent again, in order.
    again: VecDeque<u32>,
    /// First segment that was never sent.
    new: u32,
    /// Packets that the sender may still send.
    allowed: u32,
    /// Highest pull number received.
    pulled: u32,
    timeouts: Timeouts,
    /// Time since which no packet has been in flight, or time of the latest report if that is later.
    idle_since: Time,
    /// End of the current round of timeouts. A packet whose timeout expires before belongs to this round.
    round_ends: Time,
    /// Rounds of timeouts since the last acknowledgement of a segment that had not been acknowledged before.
    silence: TimeoutCount,
    given_up: bool,
}

impl Sender {
    /// Creates the sender of a transfer of `segments` segments that may send `window` of them without a pull.
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

    /// Returns whether a segment is still to be sent, or to be sent again, as far as the sender knows.
    pub fn has_unsent(&self) -> bool {
        !self.given_up && (!self.again.is_empty() || self.new < self.segments)
    }

    /// Returns whether a segment may be sent now.
    pub fn is_ready(&self) -> bool {
        self.allowed > 0 && self.has_unsent()
    }

    /// Returns the segment to send now, and whether it was sent before. Retransmissions go first (§3.2).
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

    /// Removes a segment from those in flight. Returns whether it was one of them.
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

    /// Handles the report that a segment was trimmed, so that it has to be sent again.
    pub fn handle_nack(&mut self, now: Time, segment: u32) {
        if self.land(now, segment) && !self.acknowledged.contains(segment) {
            self.again.push_back(segment);
        }
    }

    /// Handles the report that the receiver has the whole transfer.
    pub fn handle_done(&mut self) {
        for segment in 0..self.segments {
            self.acknowledged.insert(segment);
        }
        self.again.clear();
        self.outstanding.clear();
    }

    /// Handles a pull. `pull` is the number of pulls sent for this transfer so far, so that a later pull makes up for
    /// a lost one. A pull may overtake the report that its packet was trimmed, because packets take all paths. It is
    /// therefore kept while any segment is outstanding, because that segment may still be reported as trimmed. A pull
    /// expires if there can be no segment left for it.
    pub fn handle_pull(&mut self, now: Time, pull: u32) {
        self.idle_since = now;
        if self.given_up {
            return;
        }
        self.allow(pull.saturating_sub(self.pulled));
        self.pulled = self.pulled.max(pull);
    }

    /// Allows this many more packets, but no more than can still be needed.
    fn allow(&mut self, packets: u32) {
        let left = (self.again.len() + self.outstanding.len()) as u32 + (self.segments - self.new);
        self.allowed = (self.allowed + packets).min(left);
    }

    /// Returns when [`handle_timeout`](Sender::handle_timeout) is due. This time moves to an earlier one when a packet
    /// is sent, and when an acknowledgement ends a silence.
    pub fn poll_timeout(&self) -> Option<Time> {
        let at = match self.outstanding.front() {
            Some((sent, _)) => *sent + self.silence.timeout(self.timeouts.rto, STEADY),
            None => self.idle_since + self.timeouts.idle,
        };
        (!self.is_done()).then_some(at)
    }

    /// Sends all packets again whose timeouts have expired. They need no pull, because a lost packet causes none. If
    /// no packet is in flight and pulls are overdue, allows one packet.
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

    /// Counts the packets as lost that were sent at least `wait` ago. Returns how many these are.
    fn expire(&mut self, now: Time, wait: Time) -> u32 {
        let lost = self.outstanding.iter().take_while(|(sent, _)| *sent + wait <= now).count();
        self.again.extend(self.outstanding.drain(..lost).map(|(_, segment)| segment));
        lost as u32
    }
}

/// Pulls that a receiver owes. They are paced at the rate of the receiver's link, and transfers take turns (§3.2).
#[derive(Debug, Clone, Default)]
pub struct PullQueue {
    /// Transfers that are owed pulls, with the number of pulls: at least one each.
    owed: VecDeque<(u32, u32)>,
    next_at: Time,
}

impl PullQueue {
    /// Owes a transfer one more pull, because one of its packets or trimmed headers has arrived. Returns whether the
    /// transfer was owed none before.
    pub fn add(&mut self, transfer: u32) -> bool {
        let owed = self.owed.iter_mut().find(|(other, _)| *other == transfer);
        let is_first = owed.is_none();
        match owed {
            Some((_, pulls)) => *pulls += 1,
            None => self.owed.push_back((transfer, 1)),
        }
        is_first
    }

    /// Cancels the pulls of a transfer that is complete. Returns whether it was owed any.
    pub fn remove(&mut self, transfer: u32) -> bool {
        let before = self.owed.len();
        self.owed.retain(|(other, _)| *other != transfer);
        self.owed.len() < before
    }

    /// Returns the transfer to pull now, and whether this was the last pull owed to it. A packet takes `pace` to
    /// arrive.
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

    /// A lost packet causes no pull, therefore its place in the window has to come back without one.
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

    /// The receiver never answers, so the whole window is sent again in each round until the sender gives up.
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
