//! pFabric: minimal near-optimal datacenter transport (Alizadeh et al., SIGCOMM 2013).
//!
//! The switches do the scheduling: each packet carries the number of segments that its transfer has left, and a switch port sends the
//! packet with the smallest number first (§4.1). The senders run only the minimal rate control of §4.2 ([`Sender`]). It starts at line rate
//! and slows down only when many packets are lost.

use crate::segments::SegmentSet;
use crate::silence::TimeoutCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of pFabric.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of packets of a transfer that the sender may send at once. Default: one bandwidth-delay product (§4.2, rule 1).
    pub initial_window: Option<u32>,
    /// Time after which unacknowledged packets count as lost. Default: three round trips of the empty network or, if that is longer, one
    /// round trip plus the time that a switch port with a full queue needs to drain. (§4.2 says about 3 RTT; in the network of the paper,
    /// both times are 45 us.)
    pub rto: Option<Time>,
}

/// Number of timeouts in a row after which the sender sends only probes (§4.2, rule 3, says "a fixed number"; §5 uses 5).
const TIMEOUTS_BEFORE_PROBE: u32 = 5;

/// Number of timeouts in a row before the timeout starts to double. The number is large because switches always send the packets of the
/// smallest transfer first. Therefore the largest transfer may get no acknowledgement for a long time although its receiver is up. The
/// probes that its sender sends meanwhile cost little.
const STEADY: u32 = 1_024;

/// Sending side of one transfer.
#[derive(Debug, Clone)]
pub struct Sender {
    segments: u32,
    acknowledged: SegmentSet,
    /// Segments that were sent and are neither acknowledged nor considered lost.
    outstanding: SegmentSet,
    /// Next segment to send. All segments before it are acknowledged or outstanding.
    cursor: u32,
    /// Segments sent at least once.
    sent: u32,
    /// Congestion window, in segments.
    cwnd: u32,
    /// Slow-start threshold, in segments.
    ssthresh: u32,
    /// Number of acknowledgements since the window last grew, in congestion avoidance.
    since_growth: u32,
    timeouts: u32,
    /// Whether a probe is to be sent.
    probe: bool,
    /// Number of timeouts since the last acknowledgement of a segment that had not been acknowledged before.
    silence: TimeoutCount,
    given_up: bool,
    deadline: Time,
    rto: Time,
}

/// Packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutgoingPacket {
    Segment {
        number: u32,
        again: bool,
    },
    /// A packet without payload that has the priority of the transfer. The receiver acknowledges it.
    Probe,
}

/// Subject of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    Segment(u32),
    Probe,
    /// The whole transfer is acknowledged, because all its segments have arrived.
    All,
}

impl Sender {
    /// Creates the sender of a transfer of `segments` segments. The sender may send `initial_window` segments at once. `salt` seeds the
    /// random extra waits of its timeouts ([`TimeoutCount`]).
    pub fn new(segments: u32, initial_window: u32, rto: Time, salt: u32) -> Sender {
        Sender {
            segments,
            acknowledged: SegmentSet::new(segments),
            outstanding: SegmentSet::new(segments),
            cursor: 0,
            sent: 0,
            cwnd: initial_window,
            ssthresh: u32::MAX,
            since_growth: 0,
            timeouts: 0,
            probe: false,
            silence: TimeoutCount::new(salt),
            given_up: false,
            deadline: Time::MAX,
            rto,
        }
    }

    /// Returns the number of segments that are not acknowledged.
    pub fn remaining(&self) -> u32 {
        self.segments - self.acknowledged.count()
    }

    /// Returns whether all segments are acknowledged, or the sender has given up.
    pub fn is_done(&self) -> bool {
        self.remaining() == 0 || self.given_up
    }

    /// Returns whether the sender has given up; see [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    fn is_probing(&self) -> bool {
        self.timeouts >= TIMEOUTS_BEFORE_PROBE
    }

    /// Returns whether a packet may be sent now.
    pub fn is_ready(&self) -> bool {
        match self.is_probing() {
            _ if self.given_up => false,
            true => self.probe,
            false => self.cursor < self.segments && self.outstanding.count() < self.cwnd,
        }
    }

    /// Returns the packet to send now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<OutgoingPacket> {
        if !self.is_ready() {
            return None;
        }
        if self.deadline == Time::MAX {
            self.deadline = now + self.rto;
        }
        if std::mem::take(&mut self.probe) {
            return Some(OutgoingPacket::Probe);
        }
        let number = self.cursor;
        self.outstanding.insert(number);
        self.advance(number + 1);
        let again = number < self.sent;
        self.sent = self.sent.max(number + 1);
        Some(OutgoingPacket::Segment { number, again })
    }

    /// Moves the cursor to the next segment to send, `from` or later.
    fn advance(&mut self, from: u32) {
        self.cursor = from;
        while self.cursor < self.sent
            && (self.acknowledged.contains(self.cursor) || self.outstanding.contains(self.cursor))
        {
            self.cursor += 1;
        }
    }

    /// Handles an acknowledgement.
    pub fn handle_ack(&mut self, now: Time, what: Acknowledged) {
        if self.given_up {
            return;
        }
        let new = match what {
            Acknowledged::Segment(number) => {
                self.outstanding.remove(number);
                let new = self.acknowledged.insert(number);
                if number == self.cursor {
                    self.advance(number);
                }
                new
            }
            Acknowledged::Probe => false,
            Acknowledged::All => {
                for number in 0..self.segments {
                    self.acknowledged.insert(number);
                }
                self.outstanding.clear();
                self.cursor = self.segments;
                true
            }
        };
        (self.timeouts, self.probe) = (0, false);
        if new {
            self.silence.end();
            self.grow();
        }
        self.deadline =
            if self.is_done() || self.outstanding.count() == 0 { Time::MAX } else { now + self.rto };
    }

    /// Grows the window as TCP does: in slow start by one segment for each acknowledgement, afterwards by one segment for each window of
    /// acknowledgements (§4.2).
    fn grow(&mut self) {
        self.since_growth += 1;
        if self.cwnd < self.ssthresh || self.since_growth >= self.cwnd {
            self.cwnd = self.cwnd.saturating_add(1);
            self.since_growth = 0;
        }
    }

    /// Returns when [`handle_timeout`](Sender::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.deadline != Time::MAX).then_some(self.deadline)
    }

    /// Counts all segments in flight as lost if no acknowledgement has arrived for the duration of a retransmission timeout. pFabric has no
    /// fast retransmissions (§4.2, rule 2).
    pub fn handle_timeout(&mut self, now: Time) {
        if now < self.deadline || self.is_done() {
            return;
        }
        self.timeouts += 1;
        self.ssthresh = (self.cwnd / 2).max(1);
        self.cwnd = 1;
        self.since_growth = 0;
        self.outstanding.clear();
        self.advance(0);
        match self.silence.handle_timeout(self.rto, STEADY) {
            Some(timeout) => (self.probe, self.deadline) = (self.is_probing(), now + timeout),
            None => (self.given_up, self.deadline) = (true, Time::MAX),
        }
    }
}

/// Receiving side of one transfer. The receiver acknowledges each packet separately.
#[derive(Debug, Clone)]
pub struct Receiver {
    arrived: SegmentSet,
    segments: u32,
}

impl Receiver {
    /// Creates the receiver of a transfer of `segments` segments.
    pub fn new(segments: u32) -> Receiver {
        Receiver { arrived: SegmentSet::new(segments), segments }
    }

    /// Handles the arrival of a segment. Returns whether this segment completes the transfer.
    pub fn handle_segment(&mut self, number: u32) -> bool {
        self.arrived.insert(number) && self.is_complete()
    }

    /// Returns whether all segments have arrived.
    pub fn is_complete(&self) -> bool {
        self.arrived.count() == self.segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTO: Time = Time::from_us(10);

    fn segments(sender: &mut Sender, now: Time) -> Vec<u32> {
        std::iter::from_fn(|| match sender.poll_transmit(now)? {
            OutgoingPacket::Segment { number, .. } => Some(number),
            OutgoingPacket::Probe => None,
        })
        .collect()
    }

    #[test]
    fn it_starts_at_line_rate_and_slows_down_only_after_timeouts() {
        let mut sender = Sender::new(20, 8, RTO, 1);
        assert_eq!(segments(&mut sender, Time::ZERO), [0, 1, 2, 3, 4, 5, 6, 7]);
        sender.handle_ack(Time::from_us(1), Acknowledged::Segment(5));
        // Slow start: one segment is acknowledged, and therefore the window grew by one. The missing segments before 5
        // are not sent again.
        assert_eq!(segments(&mut sender, Time::from_us(1)), [8, 9]);
        assert_eq!(sender.poll_timeout(), Some(Time::from_us(11)));
        sender.handle_timeout(Time::from_us(11));
        assert_eq!(segments(&mut sender, Time::from_us(11)), [0]);
        sender.handle_ack(Time::from_us(12), Acknowledged::Segment(0));
        assert_eq!(segments(&mut sender, Time::from_us(12)), [1, 2]);
    }

    #[test]
    fn after_five_timeouts_it_only_probes() {
        let mut sender = Sender::new(3, 8, RTO, 1);
        let mut now = Time::ZERO;
        for n in 0..5 {
            assert_eq!(segments(&mut sender, now).len(), if n == 0 { 3 } else { 1 });
            now = sender.poll_timeout().unwrap();
            sender.handle_timeout(now);
        }
        for _ in 0..3 {
            assert_eq!(sender.poll_transmit(now), Some(OutgoingPacket::Probe));
            assert_eq!(sender.poll_transmit(now), None);
            now = sender.poll_timeout().unwrap();
            sender.handle_timeout(now);
        }
        sender.handle_ack(now, Acknowledged::Probe);
        assert_eq!(segments(&mut sender, now), [0]);
    }

    proptest! {
        /// Every segment arrives in the end, whichever packets are lost, and the number of segments in flight never exceeds the window.
        #[test]
        fn every_segment_arrives(n in 1u32..100, window in 1u32..20, losses in prop::collection::vec(any::<bool>(), 0..400)) {
            let mut losses = losses.into_iter();
            let (mut sender, mut receiver) = (Sender::new(n, window, RTO, 1), Receiver::new(n));
            let mut now = Time::ZERO;
            let mut complete = 0;
            for _ in 0..10_000 {
                let mut acks = Vec::new();
                while let Some(sent) = sender.poll_transmit(now) {
                    prop_assert!(sender.outstanding.count() <= sender.cwnd);
                    if losses.next().unwrap_or(false) {
                        continue;
                    }
                    acks.push(match sent {
                        OutgoingPacket::Segment { number, .. } => {
                            complete += u32::from(receiver.handle_segment(number));
                            Acknowledged::Segment(number)
                        }
                        OutgoingPacket::Probe => Acknowledged::Probe,
                    });
                }
                now += Time::from_us(1);
                acks.into_iter().for_each(|ack| sender.handle_ack(now, ack));
                if let Some(at) = sender.poll_timeout().filter(|_| !sender.is_ready()) {
                    now = now.max(at);
                    sender.handle_timeout(now);
                }
            }
            prop_assert!(sender.is_done() && receiver.is_complete());
            prop_assert_eq!(complete, 1);
            prop_assert_eq!(sender.poll_timeout(), None);
        }
    }
}
