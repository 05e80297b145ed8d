//! Timing of packets on a link. The departure of a packet is computed when the packet enters the queue, as in the simulator.

use unrack_units::{Bytes, Rate, Time};

/// One direction of a link, with the FIFO queue in front of it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    rate: Rate,
    buffer: u64,
    free_at: Time,
    /// Time at which the last packet entered the queue. The next packet enters no earlier, even if its thread handles an older packet late.
    joined: Time,
}

/// Times at which a packet's first and last bit leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketDeparture {
    pub first: Time,
    pub last: Time,
}

impl Line {
    /// Returns an idle link of this rate, whose queue holds `buffer` bytes.
    pub(crate) fn new(rate: Rate, buffer: u64) -> Line {
        Line { rate, buffer, free_at: Time::ZERO, joined: Time::ZERO }
    }

    /// Returns the number of bytes that are not yet on the wire.
    pub(crate) fn backlog(&self, now: Time) -> u64 {
        let left = u128::from(self.free_at.saturating_sub(now.max(self.joined)).as_ps());
        (left * u128::from(self.rate.as_bps()) / 8_000_000_000_000) as u64
    }

    /// Returns the earliest time at which `bytes` more fit into the queue.
    pub(crate) fn room_at(&self, now: Time, bytes: u64) -> Time {
        match (self.backlog(now) + bytes).saturating_sub(self.buffer) {
            0 => now,
            over => now + self.rate.transmit(Bytes::new(over)),
        }
    }

    /// Queues a packet. Returns `None` if it does not fit.
    pub(crate) fn enqueue(&mut self, now: Time, bytes: u64) -> Option<PacketDeparture> {
        if self.backlog(now) + bytes > self.buffer {
            return None;
        }
        self.joined = self.joined.max(now);
        let first = self.free_at.max(self.joined);
        self.free_at = first + self.rate.transmit(Bytes::new(bytes));
        Some(PacketDeparture { first, last: self.free_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet that is handled late finds the queue as the last packet left it, not as it was when the late packet was due.
    #[test]
    fn a_late_packet_joins_after_those_before_it() {
        let mut line = Line::new(Rate::from_gbps(8), 3_000);
        let us = Time::from_us;
        assert_eq!(line.enqueue(us(100), 1_000), Some(PacketDeparture { first: us(100), last: us(101) }));
        assert_eq!((line.backlog(us(10)), line.backlog(us(100)), line.backlog(us(101))), (1_000, 1_000, 0));
        assert_eq!(line.enqueue(us(10), 2_000), Some(PacketDeparture { first: us(101), last: us(103) }));
        assert_eq!(line.enqueue(us(10), 1), None);
        assert_eq!(line.room_at(us(101), 2_000), us(102));
        // Packets that are late together do not fill the queue together.
        assert!((0..100).all(|n| line.enqueue(us(200 + n), 1_000).is_some()));
    }
}
