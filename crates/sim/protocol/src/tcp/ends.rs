//! Interface between a driver and the two ends of a stream. It is the same for streams with one subflow (TCP) and with several subflows
//! ([`crate::mptcp`]).
//!
//! Subflows are numbered from 0. The interface costs a stream with a single subflow nothing extra: a set of its subflows is one bit, its
//! packets have no fields beyond TCP's header, and the compiler resolves both at compile time.

use super::{Ack, CongestionControl, Receiver, Resting, Segment, Sender};
use unrack_units::Time;

/// A set of subflows of one stream. Iteration is in ascending order of their numbers.
pub trait SubflowSet: Copy + Default + Iterator<Item = u32> {
    /// Maximum number of subflows of a stream.
    const MOST: u32;

    /// Returns the set of one subflow.
    fn only(subflow: u32) -> Self;

    /// Returns whether the set has no subflow.
    fn is_empty(self) -> bool;

    /// Adds or removes a subflow.
    fn set(&mut self, subflow: u32, is_in: bool);
}

/// Fields of a packet that concern the whole stream. A packet has them in addition to TCP's header, whose fields concern only the subflow.
pub trait StreamSignal: Copy {
    /// Returns the packet's subflow.
    fn subflow(self) -> u32;

    /// Returns the number, in the whole stream, of the segment that has the number `number` in TCP's header.
    fn in_stream(self, number: u32) -> u32;
}

/// Sending end of a stream.
pub trait SendingEnd {
    type Subflows: SubflowSet;
    type Signal: StreamSignal;
    /// State that a connection keeps between one stream and the next.
    type Resting;

    /// Returns the set of all subflows.
    fn subflows(&self) -> Self::Subflows;

    /// Returns whether all segments are acknowledged, or the sender has given up.
    fn is_done(&self) -> bool;

    /// Returns whether the sender has given up.
    fn has_given_up(&self) -> bool;

    /// Returns the number of retransmitted segments.
    fn retransmissions(&self) -> u32;

    /// Returns the state of the connection for the next stream, or `None` if the connection cannot carry another stream.
    fn rest(&self) -> Option<Self::Resting>;

    /// Returns whether a subflow has a segment to send, assuming that only the subflow's link has room.
    fn wants(&mut self, subflow: u32) -> bool;

    /// Returns the next segment to send and its stream fields, or `None` if the congestion windows allow no segment. `open` is the set of
    /// subflows whose links have room; one of these subflows sends the segment.
    fn poll_transmit(&mut self, now: Time, open: Self::Subflows) -> Option<(Segment, Self::Signal)>;

    /// Returns when the driver must call [`handle_timeout`](SendingEnd::handle_timeout) for a subflow, unless another event happens before.
    fn poll_timeout(&self, subflow: u32) -> Option<Time>;

    /// Handles an acknowledgement. Returns the subflows that may now have a segment to send but had none before.
    fn handle_ack(&mut self, now: Time, ack: &Ack, signal: Self::Signal) -> Self::Subflows;

    /// Handles the first packet of the peer's answer to the whole stream. The answer implies that the peer has received all segments of the
    /// stream (RFC 9293 §3.8.6.3).
    fn handle_answer(&mut self, now: Time);

    /// Handles the timeout of a subflow. Afterwards, any subflow may have a segment to send.
    fn handle_timeout(&mut self, now: Time, subflow: u32);
}

/// Receiving end of a stream.
pub trait ReceivingEnd {
    type Signal: StreamSignal;

    /// Returns the number of the next segment of the stream to deliver. All segments with lower numbers have been delivered in order.
    fn next(&self) -> u32;

    /// Handles the arrival of a segment. `marked` is whether it had a congestion mark. Returns how many segments of the stream can now be
    /// delivered in order.
    fn handle_segment(&mut self, now: Time, segment: Segment, signal: Self::Signal, marked: bool) -> u32;

    /// Returns the next acknowledgement that a subflow should send.
    fn poll_ack(&mut self, subflow: u32) -> Option<(Ack, Self::Signal)>;
}

/// Set of subflows of a stream that has a single subflow: it contains this subflow, or is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OneSubflow(bool);

impl SubflowSet for OneSubflow {
    const MOST: u32 = 1;

    #[inline]
    fn only(_: u32) -> OneSubflow {
        OneSubflow(true)
    }
    #[inline]
    fn is_empty(self) -> bool {
        !self.0
    }
    #[inline]
    fn set(&mut self, _: u32, is_in: bool) {
        self.0 = is_in;
    }
}

impl Iterator for OneSubflow {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        std::mem::take(&mut self.0).then_some(0)
    }
}

/// A stream with a single subflow needs no additional fields, because the numbers of its segments are the same in the subflow and in the
/// stream.
impl StreamSignal for () {
    #[inline]
    fn subflow(self) -> u32 {
        0
    }
    #[inline]
    fn in_stream(self, number: u32) -> u32 {
        number
    }
}

impl<C: CongestionControl + Clone> SendingEnd for Sender<C> {
    type Subflows = OneSubflow;
    type Signal = ();
    type Resting = Resting<C>;

    #[inline]
    fn subflows(&self) -> OneSubflow {
        OneSubflow(true)
    }
    #[inline]
    fn is_done(&self) -> bool {
        Sender::is_done(self)
    }
    #[inline]
    fn has_given_up(&self) -> bool {
        Sender::has_given_up(self)
    }
    #[inline]
    fn retransmissions(&self) -> u32 {
        Sender::retransmissions(self)
    }
    fn rest(&self) -> Option<Resting<C>> {
        (!self.has_given_up()).then(|| Sender::rest(self))
    }
    #[inline]
    fn wants(&mut self, _: u32) -> bool {
        self.is_ready()
    }
    #[inline]
    fn poll_transmit(&mut self, now: Time, _: OneSubflow) -> Option<(Segment, ())> {
        Some((Sender::poll_transmit(self, now)?, ()))
    }
    #[inline]
    fn poll_timeout(&self, _: u32) -> Option<Time> {
        Sender::poll_timeout(self)
    }
    #[inline]
    fn handle_ack(&mut self, now: Time, ack: &Ack, (): ()) -> OneSubflow {
        Sender::handle_ack(self, now, ack);
        OneSubflow(true)
    }
    fn handle_answer(&mut self, now: Time) {
        let ack = self.acknowledged_by_answer();
        Sender::handle_ack(self, now, &ack);
    }
    #[inline]
    fn handle_timeout(&mut self, now: Time, _: u32) {
        Sender::handle_timeout(self, now);
    }
}

impl ReceivingEnd for Receiver {
    type Signal = ();

    #[inline]
    fn next(&self) -> u32 {
        Receiver::next(self)
    }
    #[inline]
    fn handle_segment(&mut self, now: Time, segment: Segment, (): (), marked: bool) -> u32 {
        Receiver::handle_segment(self, now, segment, marked)
    }
    #[inline]
    fn poll_ack(&mut self, _: u32) -> Option<(Ack, ())> {
        Some((Receiver::poll_ack(self)?, ()))
    }
}
