//! The network of a run, and the star for fabrics that know only one switch. This module also exports the links and
//! ports from which fabrics are built.

use crate::error::SetupError;
pub use crate::link::{Departure, Pace, PacketSize, Port};
use crate::link::{Link, LinkEnd};
use crate::topology::Topology;
use unrack_units::{Rate, Time};
use unrack_workload::{Message, NodeId};

/// Topology that connects the nodes of a run, and the latency of its switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub topology: Topology,
    /// Time from the arrival of a bit at a switch to its departure if no packet is ahead of it. All switches have the
    /// same latency.
    pub switch_latency: Time,
}

impl Network {
    /// Creates the network of a star.
    pub fn star(star: &StarNetwork) -> Network {
        let link = Link { pace: star.pace(), propagation: star.propagation };
        Network { topology: Topology::star(star.nodes, link), switch_latency: star.switch_latency }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.topology.nodes()
    }

    /// Returns the rate of the link of a node. Loads are relative to this rate.
    #[inline]
    pub fn host_rate(&self) -> Rate {
        self.topology.host_link().pace.rate()
    }

    /// Returns the network as a star, for a fabric that is built around one switch.
    ///
    /// # Errors
    /// If the topology is not a star.
    pub fn as_star(&self, fabric: &'static str) -> Result<StarNetwork, SetupError> {
        if !self.topology.is_star() {
            let rule = "is star for a fabric that is built around one switch";
            return Err(SetupError::new("network.topology.kind", rule, format!("another for {fabric}")));
        }
        let link = self.topology.host_link();
        let (rate, propagation) = (link.pace.rate(), link.propagation);
        Ok(StarNetwork { nodes: self.nodes(), rate, propagation, switch_latency: self.switch_latency })
    }

    /// Returns the links between two nodes, in order of the path. All paths between them are alike. Where the links
    /// between nodes differ, each returned link has the best rate and propagation of any link on the shortest paths.
    pub fn links(&self, src: NodeId, dst: NodeId) -> impl Iterator<Item = Link> + '_ {
        let ports = self.topology.path(src, dst, 0);
        let first = self.topology.attachment(src, dst, 0);
        let best = self.topology.graph().map(|_| self.topology.best_link(src, dst));
        let link = move |port| match (self.topology.end(port), best) {
            (LinkEnd::Switch(_), Some(best)) => best,
            _ => self.topology.link(port),
        };
        std::iter::once(self.topology.attachment_link(first)).chain(ports.map(link))
    }

    /// Returns a lower bound of the completion time of a message on any fabric: the time of its bits at the rate of the
    /// slowest link, plus propagation. If the message has an answer, the answer starts only after the request has
    /// arrived.
    pub fn ideal(&self, message: &Message) -> Time {
        if let Some((distance, pace)) = self.topology.nearest(message.src, message.dst) {
            let bits = pace.transmit(message.bytes);
            return match message.kind.is_answered() {
                true => pace.transmit(u64::from(message.request)) + bits + distance * 2,
                false => bits + distance,
            };
        }
        // Without switches, a message may use all links of its two ends at once. Only the first link bounds the rate,
        // because it has the rate of all links of a node together.
        let is_direct = self.topology.graph().is_some();
        let (mut slowest, mut distance) = (Time::ZERO, Time::ZERO);
        // Between racks, each pooled NIC may carry a share of the message.
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

/// Nodes around one switch, each with its own full-duplex link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StarNetwork {
    pub nodes: u32,
    pub rate: Rate,
    /// Propagation of one link, one way.
    pub propagation: Time,
    /// Time from the arrival of a bit at the switch to its departure if no packet is ahead of it.
    pub switch_latency: Time,
}

impl StarNetwork {
    /// Returns the pace of every link.
    #[inline]
    pub fn pace(&self) -> Pace {
        Pace::new(self.rate)
    }

    /// Returns the time from the departure of a bit at one node to its arrival at another, through an idle cut-through
    /// switch.
    #[inline]
    pub fn crossing(&self) -> Time {
        self.propagation * 2 + self.switch_latency
    }
}
