//! How long a message takes alone in the network: arithmetic.

use crate::network::{Pace, Star};
use unrack_protocol::tcp::Framing;
use unrack_units::Time;

/// What the time of a lone stream depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alone {
    pub pace: Pace,
    pub star: Star,
    pub framing: Framing,
    pub cut_through: bool,
    pub initial_window: u64,
}

impl Alone {
    /// From the start of a packet at one node until its last bit is at another.
    fn packet(&self, wire: u64) -> Time {
        let copies = if self.cut_through { 1 } else { 2 };
        self.pace.transmit(wire) * copies + self.star.crossing()
    }

    /// From the start of a full packet until its acknowledgement is back.
    pub(super) fn round_trip(&self) -> Time {
        self.packet(self.full()) + self.packet(self.framing.ack_wire(0).get())
    }

    fn full(&self) -> u64 {
        self.framing.wire(self.framing.mss().get()).get()
    }

    /// When segment `number` of a stream starts, counted from the first.
    ///
    /// Slow start: an acknowledgement releases two segments, one packet time after the one before, so
    /// each round sends twice the window of the last back to back, one round trip after it; until a
    /// window lasts a round trip, and the link never falls idle again.
    fn start(&self, number: u64) -> Time {
        let (packet, round_trip) = (self.pace.transmit(self.full()), self.round_trip());
        let (mut window, mut first, mut start) = (self.initial_window, 0, Time::ZERO);
        while number >= first + window && packet * window < round_trip {
            first += window;
            window *= 2;
            start += round_trip;
        }
        start + packet * (number - first)
    }

    /// Until the last byte of a stream of `bytes` is at the other end.
    pub(super) fn stream(&self, bytes: u64) -> Time {
        let last = self.framing.segments(bytes) - 1;
        let wire = self.framing.wire(self.framing.payload(bytes, last)).get();
        let mut start = self.start(u64::from(last));
        if !self.cut_through && last > 0 {
            // A short last packet waits in the switch for the full one before it.
            let full = self.pace.transmit(self.full());
            let behind = self.start(u64::from(last) - 1) + full * 2;
            start = start.max(behind.saturating_sub(self.pace.transmit(wire)));
        }
        start + self.packet(wire)
    }
}
