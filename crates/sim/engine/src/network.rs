//! Building blocks of fabrics: the pace of a link, a port whose departures are known on arrival, and the network of a
//! run; for fabrics that know one switch only, the star.

use crate::error::SetupError;
use crate::topology::{End, Link, Topology};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Message, NodeId};

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

/// Topology and switch latency that connect the nodes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub topology: Topology,
    /// Time from a bit's arrival at a switch to its departure, when nothing is ahead of it; the same for every
    /// switch.
    pub switch_latency: Time,
}

impl Network {
    /// Creates the network of a star.
    pub fn star(star: &Star) -> Network {
        let link = Link { pace: star.pace(), propagation: star.propagation };
        Network { topology: Topology::star(star.nodes, link), switch_latency: star.switch_latency }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.topology.nodes()
    }

    /// Returns the rate of a node's link: loads are relative to it.
    #[inline]
    pub fn host_rate(&self) -> Rate {
        self.topology.host_link().pace.rate()
    }

    /// Returns the network as a star, for a fabric that is built around one switch.
    ///
    /// # Errors
    /// If the topology is not a star.
    pub fn as_star(&self, fabric: &'static str) -> Result<Star, SetupError> {
        if !self.topology.is_star() {
            let rule = "is star for a fabric that is built around one switch";
            return Err(SetupError::new("network.topology.kind", rule, format!("another for {fabric}")));
        }
        let link = self.topology.host_link();
        let (rate, propagation) = (link.pace.rate(), link.propagation);
        Ok(Star { nodes: self.nodes(), rate, propagation, switch_latency: self.switch_latency })
    }

    /// Returns the links between two nodes, in order. All paths between them are alike; where links between nodes
    /// differ, each is taken to be as good as the best on the shortest paths.
    pub fn links(&self, src: NodeId, dst: NodeId) -> impl Iterator<Item = Link> + '_ {
        let ports = self.topology.path(src, dst, 0);
        let first = self.topology.attachment(src, dst, 0);
        let best = self.topology.graph().map(|_| self.topology.best_link(src, dst));
        let link = move |port| match (self.topology.end(port), best) {
            (End::Switch(_), Some(best)) => best,
            _ => self.topology.link(port),
        };
        std::iter::once(self.topology.attachment_link(first)).chain(ports.map(link))
    }

    /// Returns a lower bound of the completion time of a message on any fabric: its bits at the rate of the slowest
    /// link, plus propagation. The bits of an answer cannot start before the request has arrived.
    pub fn ideal(&self, message: &Message) -> Time {
        if let Some((distance, pace)) = self.topology.nearest(message.src, message.dst) {
            let bits = pace.transmit(message.bytes);
            return match message.kind.is_answered() {
                true => pace.transmit(u64::from(message.request)) + bits + distance * 2,
                false => bits + distance,
            };
        }
        // Without switches, a message may take many paths at once: all links of its two ends.
        let is_direct = self.topology.graph().is_some();
        let (mut slowest, mut distance) = (Time::ZERO, Time::ZERO);
        // Pooled NICs may each carry a part.
        let between = self.topology.switch_of(message.src) != self.topology.switch_of(message.dst);
        let shares = if between { u64::from(self.topology.pooled()) } else { 1 };
        let (mut request, bytes) = (Time::ZERO, message.bytes / shares);
        for (n, link) in self.links(message.src, message.dst).enumerate() {
            distance += link.propagation;
            if is_direct && n > 0 {
                continue;
            }
            slowest = slowest.max(link.pace.transmit(bytes));
            request = request.max(link.pace.transmit(u64::from(message.request) / shares));
        }
        match message.kind.is_answered() {
            true => request + slowest + distance * 2,
            false => slowest + distance,
        }
    }
}

/// N nodes around one switch, each on a full-duplex link of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Star {
    pub nodes: u32,
    pub rate: Rate,
    /// Propagation of one link, one way.
    pub propagation: Time,
    /// Time from a bit's arrival at the switch to its departure, when nothing is ahead of it.
    pub switch_latency: Time,
}

impl Star {
    /// Returns the pace of every link.
    #[inline]
    pub fn pace(&self) -> Pace {
        Pace::new(self.rate)
    }

    /// Returns the time from a bit leaving one node to its arrival at another, cut-through, with nothing in the way.
    #[inline]
    pub fn crossing(&self) -> Time {
        self.propagation * 2 + self.switch_latency
    }
}
