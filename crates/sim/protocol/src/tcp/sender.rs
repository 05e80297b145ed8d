//! Sending side of a TCP connection: transmission and retransmission of segments.

use super::resting::Resting;
use super::rto::Rto;
use super::scoreboard::Scoreboard;
use super::{Ack, Acked, CongestionControl, Outstanding, Sack, Segment};
use crate::silence::MOST_TIMEOUTS;
use unrack_units::Time;

/// Initial retransmission timeout, before the first sample of the round-trip time, and bounds of the timeout after this sample (RFC 6298).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub first: Time,
    pub min: Time,
    pub max: Time,
    /// Whether the sender sends tail loss probes before the retransmission timer expires (RFC 8985 §7).
    pub probes: bool,
    /// Seed of the random extra time by which repeated timeouts are longer; see [`longer`](crate::silence::longer).
    pub salt: u32,
}

impl Timeouts {
    /// Returns the timeouts for a network whose round-trip time is known to be `rtt`, without tail loss probes.
    // Departure: RFC 6298 §2.1 waits 1 s before the first sample. In a rack the round-trip time is known. Therefore the initial timeout is
    // the one that would result from a sample with this value (§2.2).
    pub fn known(rtt: Time, min: Time, max: Time) -> Timeouts {
        let max = max.max(min);
        Timeouts { first: (rtt * 3).clamp(min, max), min, max, probes: false, salt: 0 }
    }

    /// Switches tail loss probes on or off.
    pub fn with_probes(self, probes: bool) -> Timeouts {
        Timeouts { probes, ..self }
    }

    /// Sets the salt, which should differ between connections.
    pub fn with_salt(self, salt: u32) -> Timeouts {
        Timeouts { salt, ..self }
    }
}

/// Sends the segments of one stream, and retransmits each until it is acknowledged.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`push`](Sender::push), [`handle_ack`](Sender::handle_ack), [`handle_timeout`](Sender::handle_timeout) |
/// | ask for the next action | [`poll_transmit`](Sender::poll_transmit), [`poll_timeout`](Sender::poll_timeout) |
/// | query the state | [`rest`](Sender::rest), [`is_ready`](Sender::is_ready), [`is_done`](Sender::is_done), [`acknowledged`](Sender::acknowledged), [`retransmissions`](Sender::retransmissions), [`control`](Sender::control) |
#[derive(Debug, Clone)]
pub struct Sender<C> {
    control: C,
    board: Scoreboard,
    phase: SenderPhase,
    /// Number of segments that the stream has so far.
    total: u32,
    rto: Rto,
    deadline: Option<Time>,
    retransmissions: u32,
    /// Number of the next segment to send at the time when the congestion window last kept the sender from sending.
    held_back_at: u32,
    /// Initial congestion window of the connection (IW of RFC 5681 §2), in segments.
    initial_window: u32,
    last_sent: Time,
    probe: Probe,
}

/// State of the tail loss probe (RFC 8985 §7). The probe reveals the loss of the last segments of a stream, which no later segment would
/// reveal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    None,
    /// The sender's deadline is the time at which a probe becomes due.
    Armed,
    /// The sender must send a probe now, even if the congestion window does not allow a segment.
    Due,
    /// The sender has sent a probe at time `at`. The probe was segment `number`, either again (`is_copy`) or for the first time.
    /// `outstanding` describes the unacknowledged segments at that time.
    Sent {
        at: Time,
        number: u32,
        is_copy: bool,
        /// Time at which the sender sent the segment before the probe.
        before: Time,
        outstanding: Outstanding,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderPhase {
    Open,
    /// Fast recovery (RFC 6675 §5): the sender retransmits missing segments until all segments below `until` are acknowledged. If `owed`,
    /// the first retransmission is still to be sent, and is sent even if the congestion window does not allow it (step 4.3).
    Recovery {
        until: u32,
        owed: bool,
    },
    /// Recovery from a retransmission timeout: the sender sends all unacknowledged segments below `until` again, in slow start.
    Loss {
        until: u32,
    },
    /// The sender has given up and sends nothing more.
    GivenUp,
}

impl<C: CongestionControl> Sender<C> {
    /// Creates the sender of the first stream on a new connection. The stream has `segments` segments.
    pub fn new(control: C, timeouts: Timeouts, segments: u32) -> Sender<C> {
        let (initial_window, rto) = (control.cwnd(), Rto::new(timeouts));
        Sender::resumed(Resting { control, rto, initial_window, last_sent: Time::ZERO }, segments)
    }

    pub(super) fn resumed(resting: Resting<C>, segments: u32) -> Sender<C> {
        let Resting { control, rto, initial_window, last_sent } = resting;
        Sender {
            control,
            board: Scoreboard::default(),
            phase: SenderPhase::Open,
            total: segments,
            rto,
            deadline: None,
            retransmissions: 0,
            held_back_at: 0,
            initial_window,
            last_sent,
            probe: Probe::None,
        }
    }

    /// Returns the state of the connection for the next stream. Segments of this stream that are still in flight count as arrived.
    pub fn rest(&self) -> Resting<C>
    where
        C: Clone,
    {
        let Sender { initial_window, last_sent, .. } = *self;
        Resting { control: self.control.clone(), rto: self.rto.clone(), initial_window, last_sent }
    }

    /// Returns the acknowledgement that the peer's answer to the whole stream implies: all segments have arrived (RFC 9293 §3.8.6.3).
    // Departure: a real answer would echo the timestamp of the segment that it answers. Here it echoes the timestamp of the last segment
    // sent, which is the same unless a segment was retransmitted needlessly.
    pub fn acknowledged_by_answer(&self) -> Ack {
        // If a probe was sent and the answer was only late, the answer belongs to the segment sent before the probe, which was therefore
        // not lost.
        let echo = match self.probe {
            Probe::Sent { before, .. } => before,
            _ => self.last_sent,
        };
        Ack { next: self.board.next(), echo, marked: false, sack: Sack::NONE }
    }

    /// Adds segments to the stream.
    pub fn push(&mut self, segments: u32) {
        self.total += segments;
    }

    /// Returns the congestion control.
    pub fn control(&self) -> &C {
        &self.control
    }
    /// Returns the congestion control mutably, because the other subflows of an MPTCP stream change it.
    pub(crate) fn control_mut(&mut self) -> &mut C {
        &mut self.control
    }
    /// Returns the number of acknowledged segments. All segments with lower numbers are known to have arrived.
    pub fn acknowledged(&self) -> u32 {
        self.board.una()
    }
    /// Returns whether all segments of the stream so far are acknowledged, or the sender has given up.
    pub fn is_done(&self) -> bool {
        self.board.una() == self.total || self.has_given_up()
    }
    /// Returns whether the sender has given up, after [`MOST_TIMEOUTS`] timeouts in a row.
    pub fn has_given_up(&self) -> bool {
        self.phase == SenderPhase::GivenUp
    }
    /// Returns the number of timeouts in a row.
    pub(crate) fn timeouts(&self) -> u32 {
        self.rto.timeouts()
    }
    /// Returns the number of retransmitted segments.
    pub fn retransmissions(&self) -> u32 {
        self.retransmissions
    }

    /// Handles an acknowledgement.
    pub fn handle_ack(&mut self, now: Time, ack: &Ack) {
        // RFC 9293 §3.10.7.4: an acknowledgement of a segment that was not sent is dropped.
        if ack.next > self.board.next() || ack.echo > now || self.has_given_up() {
            return;
        }
        let held_back = self.board.una() <= self.held_back_at;
        let progress = self.board.update(ack.next, &ack.sack);
        if progress.delivered == 0 {
            return;
        }
        self.leave_phase();
        self.control.handle_ack(&Acked {
            delivered: progress.delivered,
            marked: ack.marked,
            una: self.board.una(),
            next: self.board.next(),
            may_grow: held_back && progress.advanced && !matches!(self.phase, SenderPhase::Recovery { .. }),
            now,
            rtt: now - ack.echo,
        });
        if progress.advanced {
            // RFC 7323 §4.1: only an acknowledgement of new segments gives a sample of the round-trip time. RFC 6298 §5.3: it also restarts
            // the timer.
            self.rto.sample(now - ack.echo);
            self.deadline = self.board.outstanding().then(|| now + self.rto.timeout());
        }
        self.hear_of_probe(ack);
        self.enter_recovery();
        self.arm_probe(now);
    }

    /// Evaluates an acknowledgement that arrives after a tail loss probe (RFC 8985 §7.4). The echoed timestamp shows whether the
    /// acknowledgement answers the probe; the RFC uses the SACK of a duplicate segment instead.
    fn hear_of_probe(&mut self, ack: &Ack) {
        let Probe::Sent { at, number, is_copy, outstanding, .. } = self.probe else { return };
        let arrived = ack.echo == at;
        if self.board.una() > number {
            self.probe = Probe::None;
            if arrived && is_copy && self.phase == SenderPhase::Open {
                self.control.handle_loss(outstanding);
            }
        } else if arrived {
            // RACK (§6.2), applied to the probe only: segments that were sent two round trips before the probe and have not arrived are
            // lost.
            self.probe = Probe::None;
            self.board.lose_below(number);
        }
    }

    /// Sets the deadline of a tail loss probe, to the time by which the segments in flight should be acknowledged (RFC 8985 §7.2).
    fn arm_probe(&mut self, now: Time) {
        if matches!(self.probe, Probe::Armed | Probe::Due) {
            self.probe = Probe::None;
            self.deadline = self.board.outstanding().then(|| now + self.rto.timeout());
        }
        let is_calm =
            self.phase == SenderPhase::Open && self.probe == Probe::None && self.board.is_in_order();
        let patience = self.rto.probe_timeout().filter(|_| is_calm && self.board.outstanding());
        if let Some(patience) = patience.filter(|patience| *patience < self.rto.timeout()) {
            (self.probe, self.deadline) = (Probe::Armed, Some(now + patience));
        }
    }

    fn leave_phase(&mut self) {
        let (SenderPhase::Recovery { until, .. } | SenderPhase::Loss { until }) = self.phase else { return };
        if self.board.una() >= until {
            self.phase = SenderPhase::Open;
        }
    }

    /// Enters fast recovery (RFC 6675 §5, step 4). After a retransmission timeout, the sender does not enter it before all segments up to
    /// the recovery point are acknowledged (§5.1).
    fn enter_recovery(&mut self) {
        if self.phase == SenderPhase::Open && self.board.first_is_lost() {
            self.phase = SenderPhase::Recovery { until: self.board.next(), owed: true };
            self.control.handle_loss(self.board.all_sent());
        }
    }

    /// Handles the sender's deadline: a retransmission timeout (RFC 6298 §5.4 to §5.6), or the time at which a tail loss probe becomes due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.probe == Probe::Armed {
            self.probe = Probe::Due;
            self.deadline = Some(now + self.rto.timeout());
            return;
        }
        self.probe = Probe::None;
        if self.rto.timeouts() == MOST_TIMEOUTS {
            self.phase = SenderPhase::GivenUp;
            self.deadline = None;
            return;
        }
        self.control.handle_timeout(self.board.all_sent());
        self.phase = SenderPhase::Loss { until: self.board.next() };
        self.board.lose_all();
        self.rto.back_off();
        self.deadline = Some(now + self.rto.timeout());
    }

    /// Returns the next segment to send, or `None` if the congestion window allows none or no segment is left to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.is_held_back() {
            return None;
        }
        let number = match self.probe {
            Probe::Due => self.next_probe(now),
            _ => self.next_segment()?,
        };
        // RFC 6298 §5.1: start the timer if it is not running.
        self.deadline.get_or_insert_with(|| now + self.rto.timeout());
        self.last_sent = now;
        if !matches!(self.probe, Probe::Sent { .. }) {
            self.arm_probe(now);
        }
        Some(Segment { number, sent: now })
    }

    /// Returns whether [`poll_transmit`](Sender::poll_transmit) would return a segment. A driver needs this to choose among several senders
    /// that share one link.
    pub fn is_ready(&mut self) -> bool {
        !self.is_held_back() && self.has_next()
    }

    /// Returns whether the congestion window has room for a new segment.
    pub(crate) fn has_room(&mut self) -> bool {
        !self.is_held_back()
    }

    /// Returns the segment to send as a tail loss probe: a new segment or, if there is none, the last segment again (RFC 8985 §7.3).
    fn next_probe(&mut self, now: Time) -> u32 {
        let outstanding = self.board.all_sent();
        let is_copy = outstanding.next == self.total;
        let number = match is_copy {
            true => outstanding.next - 1,
            false => self.board.send_new(),
        };
        self.retransmissions += u32::from(is_copy);
        let before = self.last_sent;
        self.probe = Probe::Sent { at: now, number, is_copy, before, outstanding };
        number
    }

    fn is_held_back(&mut self) -> bool {
        if self.has_given_up() {
            return true;
        }
        if self.probe == Probe::Due {
            return false;
        }
        let owed = matches!(self.phase, SenderPhase::Recovery { owed: true, .. });
        let held_back = !owed && self.board.pipe() >= self.control.cwnd();
        if held_back {
            self.held_back_at = self.board.next();
        }
        held_back
    }

    fn has_next(&self) -> bool {
        let recovering = matches!(self.phase, SenderPhase::Recovery { .. });
        self.probe == Probe::Due
            || self.board.next() < self.total
            || self.phase != SenderPhase::Open && self.board.hole(recovering).is_some()
    }

    /// Chooses the next segment. RFC 6675 §4: NextSeg ().
    // Departure: rule 4 (retransmission of the last segment of a lost tail), which is optional in the RFC, is left out.
    fn next_segment(&mut self) -> Option<u32> {
        if let Some(hole) = self.hole(false) {
            return Some(hole);
        }
        if self.board.next() < self.total {
            return Some(self.board.send_new());
        }
        self.hole(true)
    }

    fn hole(&mut self, eager: bool) -> Option<u32> {
        let SenderPhase::Recovery { owed, .. } = &mut self.phase else {
            return (self.phase != SenderPhase::Open && !eager).then(|| self.fill_hole(false)).flatten();
        };
        *owed = false;
        self.fill_hole(eager)
    }

    fn fill_hole(&mut self, eager: bool) -> Option<u32> {
        let hole = self.board.hole(eager)?;
        self.board.note_retransmission(hole);
        self.retransmissions += 1;
        Some(hole)
    }

    /// Returns when the driver must call [`handle_timeout`](Sender::handle_timeout), unless another event happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }
}
