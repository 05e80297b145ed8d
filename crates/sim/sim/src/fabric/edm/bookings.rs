//! One direction of a link that carries EDM blocks.
//!
//! Control blocks (notifications, grants, requests) take the next block slot, before waiting data: §3.2 puts control and data into the same
//! stream of 66-bit blocks, and control has a separate small queue. Data is sent in FIFO order, after all control.
//!
//! Departure: times are not rounded to the block clock, and a control block that is inserted into a chunk in transmission delays the data
//! after that chunk, but not the rest of the chunk. Each of these simplifications shifts a block by at most one block time (0.64 ns at 100
//! Gb/s) per control block; no bandwidth is lost or gained. The shifts do not add up, because the scheduler also reserves a port for its
//! control blocks.

use unrack_units::Time;

/// Bookings of one direction of a link. Data must be booked in order of time, and so must control. Control may be booked ahead of data by
/// one block (a grant that the scheduler holds).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinkBookings {
    control_until: Time,
    until: Time,
    /// Last control block booked: its start, its length, and the value of `until` without it.
    last: ControlBookings,
}

#[derive(Debug, Clone, Copy, Default)]
struct ControlBookings {
    at: Time,
    length: Time,
    until_without: Time,
}

impl LinkBookings {
    /// Books control blocks that are ready at `at`, and returns when the first one starts.
    pub(super) fn control(&mut self, at: Time, length: Time) -> Time {
        let start = self.control_until.max(at);
        self.control_until = start + length;
        self.last = ControlBookings { at, length, until_without: self.until };
        self.until = self.until.max(at) + length;
        start
    }

    /// Books data that is ready at `at`, and returns when the data starts.
    pub(super) fn data(&mut self, at: Time, length: Time) -> Time {
        if at < self.last.at {
            return self.data_before_control(at, length);
        }
        let start = self.until.max(at);
        self.until = start + length;
        start
    }

    /// Returns the time until all data and control that is ready by `at` has been sent.
    pub(super) fn backlog(&self, at: Time) -> Time {
        let until = if at < self.last.at { self.last.until_without } else { self.until };
        until.saturating_sub(at)
    }

    /// Books data that starts before the last booked control block. The control block will be inserted into this data while it is on the
    /// wire.
    fn data_before_control(&mut self, at: Time, length: Time) -> Time {
        let start = self.last.until_without.max(at);
        self.last.until_without = start + length;
        self.until = self.last.until_without.max(self.last.at) + self.last.length;
        start
    }
}
