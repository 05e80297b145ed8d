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
    /// Congestion mark of the last segment (RFC 8257 §3.2: DCTCP.CE).
    marked: bool,
    /// Number of segments not yet acknowledged, and the time to echo for them.
    pending: u32,
    echo: Time,
    /// Acknowledgements that are due: one for the segments before a change of the mark, and one for the newest
    /// segment.
    due: [Option<Ack>; 2],
    deadline: Option<Time>,
    every: u32,
    delay: Time,
}

impl Receiver {
    /// Creates a receiver that acknowledges every `every`th segment in order, at the latest after `delay` (RFC 5681
    /// §4.2). With 1, it acknowledges each segment.
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

    /// Returns the next segment expected. All segments before it have arrived and been delivered in order.
    pub fn next(&self) -> u32 {
        self.arrived.next()
    }

    /// Handles the arrival of a segment, with or without a congestion mark. Returns how many segments become
    /// deliverable in order: 0 if this one is a duplicate or came too early.
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

    /// Makes the delayed acknowledgement due, once its time has come.
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

    /// Records the mark of a segment. RFC 8257 §3.2: when the mark changes, earlier segments are acknowledged with the
    /// mark that they had.
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

    /// Returns the selective acknowledgement, the block of the newest segment first (RFC 2018 §4).
    // Departure: then the highest others, where the RFC says the most recently reported. They are the same unless
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
