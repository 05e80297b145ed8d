//! Constant settings that all nodes of a rack share.

use crate::r2c2::terms::Terms;
use crate::r2c2::{FirstRate, Params};
use std::sync::Arc;
use unrack_rack::graph::Graph;
use unrack_units::{Rate, Time};

/// Parameters of an R2C2 rack, the sizes of its packets, and the limits that its world imposes on nodes.
#[derive(Debug, Clone)]
pub struct RackSetup {
    pub params: Params,
    pub graph: Arc<Graph>,
    /// Payload of a full packet, in bytes.
    pub most: u64,
    /// Bytes that each packet takes on the wire in addition to its payload.
    pub header: u64,
    pub limits: WorldLimits,
    /// Rate of each node's fastest link, in Kb/s.
    fastest_kbps: Vec<u32>,
}

/// Limits that a [`World`](super::World), simulated or live, imposes on its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldLimits {
    /// Number of packets of one flow for which a destination has room, counted from the first packet that has not arrived.
    pub window: u32,
    /// Time by which a flow may send ahead of its rate, in addition to one packet. This sets the depth of the flow's token bucket.
    pub slack: Time,
    /// Number of timeouts in a row, without an acknowledgement, after which the source of a flow gives up. The source gives up earlier if
    /// TCP would.
    pub timeouts: u32,
}

impl WorldLimits {
    /// No limits, for a simulated world, which stores no bytes of packets and whose timers are never late.
    pub const NONE: WorldLimits = WorldLimits { window: u32::MAX, slack: Time::ZERO, timeouts: u32::MAX };
}

/// Minimum number of bytes that a packet takes on the wire. This applies to simulations that count no header bytes, because a packet
/// without payload would otherwise take none.
const SMALLEST: u64 = 8;

impl RackSetup {
    /// Describes a rack. A packet has at most `most` bytes of payload, and takes `header` more bytes on the wire. `rate` returns the rate
    /// of the link with a given number.
    pub fn new(
        params: &Params,
        graph: &Arc<Graph>,
        rate: impl Fn(u32) -> Rate,
        most: u64,
        header: u64,
        limits: WorldLimits,
    ) -> RackSetup {
        let kbps = |link| u32::try_from(rate(link).as_bps() / 1_000).unwrap_or(u32::MAX);
        let fastest = |node| graph.links_of(node).map(kbps).max().unwrap_or(0);
        let fastest_kbps = (0..graph.nodes()).map(fastest).collect();
        RackSetup { params: params.clone(), graph: graph.clone(), most, header, limits, fastest_kbps }
    }

    /// Returns the number of bytes that a packet with `payload` bytes of payload takes on the wire.
    pub fn wire(&self, payload: u64) -> u32 {
        (self.header + payload).max(SMALLEST) as u32
    }

    /// Returns the segments of a flow of `bytes` bytes.
    ///
    /// # Panics
    /// If there are 2^32 or more.
    pub fn segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.most).max(1)).expect("a message of less than 2^32 segments")
    }

    /// Returns the offset of a segment in its flow, in bytes.
    pub fn offset(&self, segment: u32) -> u64 {
        u64::from(segment) * self.most
    }

    /// Returns the payload of a segment of a flow of `bytes` bytes.
    pub fn payload(&self, bytes: u64, segment: u32) -> u64 {
        (bytes - self.offset(segment)).min(self.most)
    }

    /// Returns the rate of a node's fastest link, in Kb/s.
    pub fn fastest_kbps(&self, node: u32) -> u32 {
        self.fastest_kbps[node as usize]
    }

    /// Returns the rate in Kb/s at which a flow of node `src` starts. `alone_kbps` is the rate that the flow would get if it were the only
    /// flow.
    pub fn first_kbps(&self, alone_kbps: u32, src: u32) -> u32 {
        match self.params.first_rate {
            FirstRate::Link => alone_kbps.min(self.fastest_kbps(src)),
            FirstRate::Alone => alone_kbps,
        }
    }

    /// Returns the depth in bytes of the token bucket of a flow with this rate: one full packet, plus the bytes that the flow may send
    /// ahead of its rate.
    pub fn depth(&self, kbps: u32) -> u32 {
        let ahead = u64::from(kbps) * self.limits.slack.as_ns() / 8_000_000;
        self.wire(self.most).saturating_add(u32::try_from(ahead).unwrap_or(u32::MAX))
    }

    /// Returns the tree along which a source first sends a broadcast. `number` is the number of the broadcast at its source, so that
    /// successive broadcasts use different trees.
    pub fn tree(&self, number: u32) -> u8 {
        (number % u32::from(self.params.trees)) as u8
    }

    /// Returns the weight, priority, demand and routing of flows between these nodes. `since` is the time that has passed since the start
    /// of the run, to which the times of rules are relative.
    pub fn terms(&self, src: u32, dst: u32, since: Time) -> Terms {
        Terms::from_rules(&self.params.rules, self.params.routing, src, dst, since)
    }
}
