//! Reassembly and acknowledgement.

use super::reassembly::Reassembly;
use super::{Ack, Sack, Segment};
use unrack_units::Time;

/// Receives the segments of one stream, delivers them in order, and acknowledges them.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`handle_segment`](Receiver::handle_segment), [`handle_timeout`](Receiver::handle_timeout) |
/// | ask for the next action | [`poll_ack`](Receiver::poll_ack), [`poll_timeout`](Receiver::poll_timeout) |
/// | query the state | [`next`](Receiver::next) |
#[derive(Debug, Clone)]
pub struct Receiver {
    arrived: Reassembly,
    /// Whether the last segment that arrived had a congestion mark (RFC 8257 §3.2: DCTCP.CE).
    marked: bool,
    /// Number of segments that have arrived and are not yet acknowledged. The next field is the timestamp to echo in their acknowledgement.
    pending: u32,
    echo: Time,
    /// Acknowledgements to send now. If the congestion mark has changed, the first is for the segments before the change; the other is for
    /// the newest segment.
    due: [Option<Ack>; 2],
    deadline: Option<Time>,
    every: u32,
    delay: Time,
}

impl Receiver {
    /// Creates a receiver that sends an acknowledgement for every `every`th segment that arrives in order, and for any segment at the
    /// latest after `delay` (RFC 5681 §4.2). If `every` is 1, it acknowledges each segment at once.
    pub fn new(every: u32, delay: Time) -> Receiver {
        Receiver {
            arrived: Reassembly::default(),
            marked: false,
            pending: 0,
            echo: Time::ZERO,
            due: [None; 2],
            deadline: None,
            every: every.max(1),
            delay,
        }
    }

    /// Returns the number of the next expected segment. All segments with lower numbers have arrived and been delivered in order.
    pub fn next(&self) -> u32 {
        self.arrived.next()
    }

    /// Handles the arrival of a segment. `marked` is whether it had a congestion mark. Returns how many segments can now be delivered in
    /// order. This is 0 if the segment is a duplicate, or if a segment before it is missing.
    pub fn handle_segment(&mut self, now: Time, segment: Segment, marked: bool) -> u32 {
        self.note_mark(marked);
        let in_order = segment.number == self.next() && self.arrived.beyond().is_empty();
        let handed_on = self.arrived.add(segment.number);
        self.note_pending(now, segment.sent);
        // RFC 5681 §4.2: acknowledge at once if the segment is out of order or fills a hole, even partly.
        if !in_order || self.pending >= self.every {
            self.due[1] = Some(self.acknowledge(segment.number));
        }
        handed_on
    }

    /// Handles a timeout: if the delay of a delayed acknowledgement is over, [`poll_ack`](Receiver::poll_ack) returns this acknowledgement.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.due[1] = Some(self.acknowledge(self.next()));
        }
    }

    /// Returns the next acknowledgement to send.
    pub fn poll_ack(&mut self) -> Option<Ack> {
        self.due[0].take().or_else(|| self.due[1].take())
    }

    /// Returns when [`handle_timeout`](Receiver::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Records whether a segment has a congestion mark. If this differs from the segment before, the earlier segments are first
    /// acknowledged with the mark that they had (RFC 8257 §3.2).
    fn note_mark(&mut self, marked: bool) {
        if marked != self.marked && self.pending > 0 {
            self.due[0] = Some(self.acknowledge(self.next()));
        }
        self.marked = marked;
    }

    fn note_pending(&mut self, now: Time, sent: Time) {
        if self.pending == 0 {
            // RFC 7323 §4.3: a delayed acknowledgement echoes the time of the earliest segment that it covers.
            self.echo = sent;
            self.deadline = (self.every > 1).then(|| now + self.delay);
        }
        self.pending += 1;
    }

    fn acknowledge(&mut self, newest: u32) -> Ack {
        self.pending = 0;
        self.deadline = None;
        Ack { next: self.next(), echo: self.echo, marked: self.marked, sack: self.sack(newest) }
    }

    /// Returns the selective acknowledgement. Its first block contains the newest segment (RFC 2018 §4).
    // Departure: the other blocks are the highest ones, and not the most recently reported ones as in the RFC. These are the same unless
    // segments arrive out of order.
    fn sack(&self, newest: u32) -> Sack {
        let beyond = self.arrived.beyond();
        if beyond.is_empty() {
            return Sack::NONE;
        }
        let first = beyond.containing(newest);
        Sack::from_ranges(first.into_iter().chain(beyond.iter().rev().filter(|r| Some(*r) != first)))
    }
}
