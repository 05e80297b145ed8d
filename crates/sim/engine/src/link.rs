//! Parts of networks: links and their ends, the pace of a link, and a port that computes the departure of a packet on
//! its arrival.

use unrack_units::{Bytes, Rate, Time};
use unrack_workload::NodeId;

/// One direction of a full-duplex link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub pace: Pace,
    pub propagation: Time,
}

/// Device at the end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkEnd {
    Switch(u32),
    Node(NodeId),
}

/// Transmission times at one rate, exact and cheap. Where a byte takes a whole number of picoseconds (10, 25, 40, 100,
/// 200, 400 Gb/s), a time is one multiplication; otherwise the time of each packet is rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    rate: Rate,
    /// Picoseconds per byte; 0 if that is not a whole number.
    ps_per_byte: u64,
}

impl Pace {
    /// Creates the pace of a link of this rate.
    pub fn new(rate: Rate) -> Pace {
        let bps = rate.as_bps();
        let exact = 8_000_000_000_000u64.is_multiple_of(bps);
        Pace { rate, ps_per_byte: if exact { 8_000_000_000_000 / bps } else { 0 } }
    }

    /// Returns the rate of the link.
    #[inline]
    pub fn rate(self) -> Rate {
        self.rate
    }

    /// Returns the time that a link of this pace needs to put `bytes` on the wire.
    #[inline]
    pub fn transmit(self, bytes: u64) -> Time {
        match self.ps_per_byte {
            // A 64-bit division is faster than the general one; therefore it is used where the product fits.
            0 => match bytes.checked_mul(8_000_000_000_000) {
                Some(bits) => Time::from_ps(bits.div_ceil(self.rate.as_bps())),
                None => self.rate.transmit(Bytes::new(bytes)),
            },
            ps => Time::from_ps(bytes.saturating_mul(ps)),
        }
    }

    /// Returns the number of bytes that the link sends in `time`, rounded down.
    #[inline]
    pub fn bytes_in(self, time: Time) -> u64 {
        match self.ps_per_byte {
            0 => (time.as_ps() as u128 * self.rate.as_bps() as u128 / 8_000_000_000_000) as u64,
            ps => time.as_ps() / ps,
        }
    }
}

/// Size of a packet in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSize {
    /// Bytes on the wire, headers included.
    pub wire: u32,
    pub payload: u32,
}

/// Sending end of a link: a first-in, first-out queue. A departure needs no event, because everything ahead of a packet
/// is known when the packet arrives, and therefore its departure is known too.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    pace: Pace,
    free_at: Time,
}

/// Times at which a packet leaves onto the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Time at which the first bit leaves.
    pub first: Time,
    /// Time at which the last bit has left.
    pub last: Time,
}

impl Port {
    /// Creates the idle port of a link of this pace.
    pub fn new(pace: Pace) -> Port {
        Port { pace, free_at: Time::ZERO }
    }

    /// Returns the number of bytes that have not left at `now`: the waiting packets, and the rest of the packet in
    /// transmission.
    #[inline]
    pub fn backlog(&self, now: Time) -> u64 {
        self.pace.bytes_in(self.free_at.saturating_sub(now))
    }

    /// Returns the time at which the last queued packet will have left.
    #[inline]
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Queues a packet at `now` and returns its departure. `now` must not be earlier than in the previous call.
    #[inline]
    pub fn enqueue(&mut self, now: Time, bytes: u64) -> Departure {
        let first = self.free_at.max(now);
        self.free_at = first + self.pace.transmit(bytes);
        Departure { first, last: self.free_at }
    }
}
