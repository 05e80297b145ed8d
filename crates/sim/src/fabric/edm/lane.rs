//! One direction of a link that carries EDM blocks.
//!
//! Control blocks (notifications, grants, requests) take the next block slot, before data that
//! waits: §3.2 builds both into the same stream of 66-bit blocks, and control has its own small
//! queue. Data is first in first out behind all of it.
//!
//! Departure: times are not rounded to the block clock, and a control block that slips into a chunk
//! already under way delays what comes after that chunk, not the rest of the chunk. Both shift a
//! block by at most one block time (0.64 ns at 100 Gb/s) per control block; no bandwidth is lost
//! or gained.

use unrack_units::Time;

/// Bookings must be made in order of their times.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lane {
    control_until: Time,
    until: Time,
}

impl Lane {
    /// Books control blocks that are ready at `at`; when the first starts.
    pub fn control(&mut self, at: Time, length: Time) -> Time {
        let start = self.control_until.max(at);
        self.control_until = start + length;
        self.until = self.until.max(at) + length;
        start
    }

    /// Books data that is ready at `at`; when it starts.
    pub fn data(&mut self, at: Time, length: Time) -> Time {
        let start = self.until.max(at);
        self.until = start + length;
        start
    }

    /// Time until all that is booked has left.
    pub fn backlog(&self, at: Time) -> Time {
        self.until.saturating_sub(at)
    }
}
