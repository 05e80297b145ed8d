//! Building blocks of networks: links and their ends, the pace of a link, and a port whose departures are known on
//! arrival.

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
pub enum End {
    Switch(u32),
    Node(NodeId),
}

/// Transmission times at one rate, exact and cheap: a multiplication where a byte takes a whole
/// number of picoseconds (10, 25, 40, 100, 200, 400 Gb/s), else rounded up per packet.
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

    /// Returns the time to put `bytes` on the wire.
    #[inline]
    pub fn transmit(self, bytes: u64) -> Time {
        match self.ps_per_byte {
            // A division of 64 bits where they are enough.
            0 => match bytes.checked_mul(8_000_000_000_000) {
                Some(bits) => Time::from_ps(bits.div_ceil(self.rate.as_bps())),
                None => self.rate.transmit(Bytes::new(bytes)),
            },
            ps => Time::from_ps(bytes.saturating_mul(ps)),
        }
    }

    /// Returns the number of bytes sent in `time`, rounded down.
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

/// Sending end of a link, first in first out. No event is needed when a packet leaves: everything ahead of a packet
/// is known when it arrives, and so is its departure.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    pace: Pace,
    free_at: Time,
}

/// Times at which a packet is on the wire.
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

    /// Returns the bytes not yet on the wire at `now`: those that wait, and the rest of the packet in transmission.
    #[inline]
    pub fn backlog(&self, now: Time) -> u64 {
        self.pace.bytes_in(self.free_at.saturating_sub(now))
    }

    /// Returns the time at which the last queued packet has left.
    #[inline]
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Queues a packet at `now`, and returns its departure. Calls must not go back in time.
    #[inline]
    pub fn enqueue(&mut self, now: Time, bytes: u64) -> Departure {
        let first = self.free_at.max(now);
        self.free_at = first + self.pace.transmit(bytes);
        Departure { first, last: self.free_at }
    }
}
