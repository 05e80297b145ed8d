//! Static description of a rack without switches, as its nodes need it.

use unrack_basis::mix;
use unrack_live::Error;
use unrack_protocol::r2c2::bridge::most_mtu;
use unrack_protocol::r2c2::map::RackMap;
use unrack_protocol::r2c2::node::{RackSetup, WorldLimits};
use unrack_protocol::r2c2::packet::DATA_HEADER;
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::{Params, RateControl, Routing};
use unrack_rack::graph::Graph;
use unrack_rack::{
    BufferSize, Cabling, Faults, Headers, LinkSpec, NetworkSpec, Outage, ScheduledFailure, TopologySpec,
};
use unrack_units::{Bytes, Time};

/// A torus, mesh or graph of nodes that run R2C2.
#[derive(Debug, Clone)]
pub struct TorusPlan {
    pub(crate) setup: RackSetup,
    /// Routings that the topology supports.
    allowed: Vec<Routing>,
    /// Rate and propagation delay, by link number.
    links: Vec<LinkSpec>,
    /// Outages, by cable number.
    outages: Vec<Vec<Outage>>,
    /// Probability that a bit is flipped on a link.
    bit_errors: f64,
    /// Capacity of the queue of each link, in bytes.
    pub(crate) buffer: u64,
    pub(crate) cut_through: bool,
    /// Forwarding latency of a node.
    pub(crate) latency: Time,
    /// Nodes with hosts behind them.
    pub(crate) gateways: Vec<u16>,
    pub(crate) seed: u64,
}

/// Time by which a flow may be ahead of its rate, in addition to one packet. Threads that are late by less than this do not slow the flow
/// down. On a machine with other work, they may be late by more.
pub const SLACK: Time = Time::from_us(1_000);
/// Size of a flow's re-order window: the most packets by which a packet may be ahead of the next packet in order. It is twenty times the
/// content of the paper's longest re-order buffer (§5.2).
pub(crate) const WINDOW: u32 = 1_024;
/// Limits of real nodes, whose memory is limited, whose threads wake up late, and which can fail. A source gives up after thirteen timeouts
/// in a row, which are 16 seconds if they start at a millisecond and double. With longer timeouts it gives up no later than TCP would.
const LIMITS: WorldLimits = WorldLimits { window: WINDOW, slack: SLACK, timeouts: 13 };

/// Largest queue of a link. A live link needs real memory for it.
const MOST_BUFFER: Bytes = Bytes::new(16 << 20);

impl TorusPlan {
    /// Derives the plan from the parts of a scenario, which the simulator has accepted.
    ///
    /// # Errors
    /// [`Error::Usage`] if only the simulator supports such a rack.
    pub fn new(
        network: &NetworkSpec,
        faults: &Faults,
        params: &Params,
        seed: u64,
    ) -> Result<TorusPlan, Error> {
        let Some(graph) = network.topology.graph() else {
            return refuse("network.topology.kind", "only a torus, mesh or graph has nodes that run r2c2");
        };
        if params.control == RateControl::Central {
            return refuse("fabric.control", "every node of a live rack computes rates: leave it out");
        }
        let rules = params.rules.iter().filter_map(|rule| rule.routing);
        let chosen = params.selection.iter().flat_map(|selection| selection.routings.iter().copied());
        let mut routings = [params.routing].into_iter().chain(rules).chain(chosen);
        if let Some(why) = routings.find_map(|routing| routing.check(&graph).err()) {
            return refuse("fabric.routing", &why.to_string());
        }
        let buffer = match network.switch.buffer {
            BufferSize::Limited(size) if size <= MOST_BUFFER => size.get(),
            _ => {
                let rule = format!("a live link holds at most {MOST_BUFFER}: give a size, such as \"1MiB\"");
                return refuse("network.switch.buffer", &rule);
            }
        };
        if network.headers != Headers::Ethernet {
            return refuse("network.headers", "live packets have headers");
        }
        let most = network.mtu.get().saturating_sub(DATA_HEADER as u64).min(u64::from(u16::MAX));
        if most == 0 || buffer < most + DATA_HEADER as u64 {
            let rule = "a packet has 36 B of header and some payload, and fits in a queue";
            return refuse("network.mtu", rule);
        }
        let links = links(network, &graph);
        let rate = |link| links[link as usize].rate;
        Ok(TorusPlan {
            setup: RackSetup::new(params, &graph, rate, most, DATA_HEADER as u64, LIMITS),
            allowed: Routing::ALL.into_iter().filter(|routing| routing.check(&graph).is_ok()).collect(),
            outages: outages(&graph, &faults.failures)?,
            bit_errors: faults.bit_errors.core_link,
            links,
            buffer,
            cut_through: network.switch.cut_through,
            latency: network.switch.latency,
            gateways: Vec::new(),
            seed,
        })
    }

    /// Returns the same plan with hosts behind these nodes.
    ///
    /// # Errors
    /// [`Error::Usage`] if a node does not exist, or is given twice.
    pub fn with_gateways(self, gateways: &[u32]) -> Result<TorusPlan, Error> {
        if let Some(node) = gateways.iter().find(|node| **node >= self.nodes()) {
            return Err(Error::Usage(format!("--gateway: there is no node {node} of {}", self.nodes())));
        }
        let twice = gateways.iter().enumerate().find(|(n, node)| gateways[..*n].contains(node));
        if let Some((_, node)) = twice {
            return Err(Error::Usage(format!("--gateway: node {node} has two devices")));
        }
        Ok(TorusPlan { gateways: gateways.iter().map(|node| *node as u16).collect(), ..self })
    }

    /// Returns the MTU of hosts behind a gateway, in bytes.
    pub(crate) fn hosts_mtu(&self) -> u64 {
        most_mtu(self.setup.most)
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.setup.graph.nodes()
    }

    /// Returns a hash of the plan, which is equal on all machines of one rack.
    pub(crate) fn fingerprint(&self) -> u64 {
        let TorusPlan { setup, links, buffer, cut_through, latency, seed, .. } = self;
        let RackSetup { params, graph, most, .. } = setup;
        let wires: Vec<u32> = (0..graph.links()).map(|link| graph.to(link)).collect();
        let text = format!("{wires:?}{params:?}{links:?}{most}{buffer}{cut_through}{latency}{seed}");
        text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    /// Returns whether the topology supports this routing.
    pub(crate) fn allows(&self, routing: Routing) -> bool {
        self.allowed.contains(&routing)
    }

    pub(crate) fn degree(&self, node: u32) -> u32 {
        self.setup.graph.links_of(node).len() as u32
    }

    pub(crate) fn link(&self, link: u32) -> LinkSpec {
        self.links[link as usize]
    }

    /// Returns the rates of the links that are up, without any flows.
    pub(crate) fn rates(&self, map: &RackMap) -> Rates {
        Rates::new(map.links().map(|link| self.link(link).rate), self.setup.params.headroom.get())
    }
}

/// Failures. Times are relative to the start of the run.
impl TorusPlan {
    fn outages_of(&self, link: u32) -> &[Outage] {
        &self.outages[self.setup.graph.cable(link) as usize]
    }

    /// Returns whether a packet of `bytes` bytes that is on a link from `first` to `last` is lost. It is lost if the link is down
    /// meanwhile, or if a bit is flipped, which the check sequence of the frame reveals. `random` decides whether a bit is flipped.
    pub(crate) fn loses(&self, link: u32, first: Time, last: Time, bytes: u64, random: u64) -> bool {
        let arrived = last + self.link(link).propagation;
        if self.outages_of(link).iter().any(|outage| outage.meets(first, arrived)) {
            return true;
        }
        // The probability of a flip is 1 - (1 - p)^bits.
        let flips = || -((bytes * 8) as f64 * (-self.bit_errors).ln_1p()).exp_m1();
        self.bit_errors > 0.0 && (random >> 11) as f64 / (1u64 << 53) as f64 <= flips()
    }

    /// Returns the links that are known to be down.
    pub(crate) fn known_down(&self, since: Time) -> Vec<u32> {
        let is_known = |link: &u32| self.outages_of(*link).iter().any(|outage| outage.is_known(since));
        (0..self.setup.graph.links()).filter(is_known).collect()
    }

    /// Returns the next time at which [`TorusPlan::known_down`] may change.
    pub(crate) fn next_known(&self, since: Time) -> Option<Time> {
        self.outages.iter().flatten().filter_map(|outage| outage.next_known(since)).min()
    }
}

fn refuse<T>(key: &str, rule: &str) -> Result<T, Error> {
    Err(Error::Usage(format!("{key}: {rule}")))
}

fn links(network: &NetworkSpec, graph: &Graph) -> Vec<LinkSpec> {
    let cable = |link| match &network.topology {
        TopologySpec::Graph(Cabling { cables, .. }) => {
            let cable = cables[graph.cable(link) as usize];
            let LinkSpec { rate, propagation } = network.link;
            LinkSpec {
                rate: cable.rate.unwrap_or(rate),
                propagation: cable.propagation.unwrap_or(propagation),
            }
        }
        _ => network.link,
    };
    (0..graph.links()).map(cable).collect()
}

/// Returns the outages by cable. If a node or switch is down, all of its cables are down.
fn outages(graph: &Graph, failures: &[ScheduledFailure]) -> Result<Vec<Vec<Outage>>, Error> {
    let mut outages = vec![Vec::new(); graph.links() as usize];
    for ScheduledFailure { node, switch, between, from, until, every, detected_after } in failures {
        let outage = Outage::new(*from, until.unwrap_or(Time::MAX), *every, *detected_after)
            .map_err(|(rule, value)| Error::Usage(format!("failures: {rule}: {value}")))?;
        let broken: Vec<u32> = match (node.or(*switch), between) {
            (Some(node), _) if node < graph.nodes() => graph.links_of(node).collect(),
            (None, Some((a, b))) => graph.link_to(*a, *b).into_iter().collect(),
            _ => Vec::new(),
        };
        if broken.is_empty() {
            return refuse("failures", "there is no such node or cable");
        }
        broken.into_iter().for_each(|link| outages[graph.cable(link) as usize].push(outage));
    }
    Ok(outages)
}
