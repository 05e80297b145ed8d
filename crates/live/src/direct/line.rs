//! The pace of a link: when a packet leaves is known when it comes, as in the simulator.

use unrack_units::{Bytes, Rate, Time};

/// One way of a link, with the queue before it: first in, first out.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    rate: Rate,
    buffer: u64,
    free_at: Time,
}

/// When a packet is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    pub first: Time,
    pub last: Time,
}

impl Line {
    pub fn new(rate: Rate, buffer: u64) -> Line {
        Line { rate, buffer, free_at: Time::ZERO }
    }

    /// Bytes that are not yet on the wire.
    pub fn backlog(&self, now: Time) -> u64 {
        let left = u128::from(self.free_at.saturating_sub(now).as_ps());
        (left * u128::from(self.rate.as_bps()) / 8_000_000_000_000) as u64
    }

    /// When there is room for so many bytes.
    pub fn room_at(&self, now: Time, bytes: u64) -> Time {
        match (self.backlog(now) + bytes).saturating_sub(self.buffer) {
            0 => now,
            over => now + self.rate.transmit(Bytes::new(over)),
        }
    }

    /// Queues a packet, if there is room.
    pub fn enqueue(&mut self, now: Time, bytes: u64) -> Option<Departure> {
        if self.backlog(now) + bytes > self.buffer {
            return None;
        }
        let first = self.free_at.max(now);
        self.free_at = first + self.rate.transmit(Bytes::new(bytes));
        Some(Departure { first, last: self.free_at })
    }
}
