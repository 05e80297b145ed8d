//! What a rack without switches is, as far as its nodes need to know.

use crate::error::Error;
use std::sync::Arc;
use unrack_protocol::r2c2::packet::DATA_HEADER;
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::terms::Rule;
use unrack_protocol::r2c2::{Params, Routing};
use unrack_rack::graph::Graph;
use unrack_rack::graph::list::Cable;
use unrack_rack::{Buffer, Cabling, Headers, Link, Network, Topology};
use unrack_units::{Bytes, Time};
use unrack_workload::random::mix;

/// A torus, mesh or graph of nodes that run R2C2.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) graph: Arc<Graph>,
    pub(crate) params: Params,
    /// Routings whose ways there are here.
    allowed: Vec<Routing>,
    pub(crate) link: Link,
    /// Payload of a full packet.
    pub(crate) most: u64,
    /// What each queue of a link holds.
    pub(crate) buffer: u64,
    pub(crate) cut_through: bool,
    /// Of a node that forwards.
    pub(crate) latency: Time,
    pub(crate) seed: u64,
}

/// Queues are memory here.
const MOST_BUFFER: Bytes = Bytes::new(16 << 20);

impl Plan {
    /// Of a scenario that the simulator accepts.
    ///
    /// # Errors
    /// [`Error::Usage`] if only the simulator can do it.
    pub fn new(network: &Network, params: &Params, seed: u64) -> Result<Plan, Error> {
        let refuse = |key: &str, rule: String| Err(Error::Usage(format!("{key}: {rule}")));
        let Some(graph) = network.topology.graph() else {
            return refuse(
                "network.topology.kind",
                "only a torus, mesh or graph has nodes that run r2c2".into(),
            );
        };
        if let Topology::Graph(Cabling { cables, .. }) = &network.topology
            && cables.iter().any(|cable| *cable != Cable::default())
        {
            let rule = "live links are all alike: leave out rates and propagations".into();
            return refuse("network.topology.file", rule);
        }
        if params.selection.is_some() {
            return refuse("fabric.selection", "live flows keep their routings: leave it out".into());
        }
        let changes = |rule: &&Rule| rule.at > Time::ZERO || rule.demand.is_some();
        if params.rules.iter().find(changes).is_some() {
            return refuse(
                "fabric.rules",
                "a live rack keeps weight, priority and routing of a flow: no `at`, no `demand`".into(),
            );
        }
        let routings = params.rules.iter().filter_map(|rule| rule.routing).chain([params.routing]);
        if let Some(why) = routings.filter_map(|routing| routing.check(&graph).err()).next() {
            return refuse("fabric.routing", why.to_string());
        }
        let buffer = match network.switch.buffer {
            Buffer::Limited(size) if size <= MOST_BUFFER => size.get(),
            _ => {
                let rule = format!("a live link holds at most {MOST_BUFFER}: say how much, such as \"1MiB\"");
                return refuse("network.switch.buffer", rule);
            }
        };
        if network.headers != Headers::Ethernet {
            return refuse("network.headers", "live packets have headers".into());
        }
        let most = network.mtu.get().saturating_sub(DATA_HEADER as u64).min(u64::from(u16::MAX));
        if most == 0 || buffer < most + DATA_HEADER as u64 {
            return refuse(
                "network.mtu",
                "a packet has 36 B of header and some payload, and fits in a queue".into(),
            );
        }
        let allowed = Routing::ALL.into_iter().filter(|routing| routing.check(&graph).is_ok()).collect();
        Ok(Plan {
            allowed,
            graph,
            params: params.clone(),
            link: network.link,
            most,
            buffer,
            cut_through: network.switch.cut_through,
            latency: network.switch.latency,
            seed,
        })
    }

    pub fn nodes(&self) -> u32 {
        self.graph.nodes()
    }

    /// The same for the same rack, on every machine.
    pub(crate) fn fingerprint(&self) -> u64 {
        let Plan { graph, params, link, most, buffer, cut_through, latency, seed, .. } = self;
        let wires: Vec<u32> = (0..graph.links()).map(|link| graph.to(link)).collect();
        let text = format!("{wires:?}{params:?}{link:?}{most}{buffer}{cut_through}{latency}{seed}");
        text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    /// Whether a flow may be routed so here.
    pub(crate) fn allows(&self, routing: Routing) -> bool {
        self.allowed.contains(&routing)
    }

    pub(crate) fn degree(&self, node: u32) -> u32 {
        self.graph.links_of(node).len() as u32
    }

    pub(crate) fn link_kbps(&self) -> u32 {
        u32::try_from(self.link.rate.as_bps() / 1_000).unwrap_or(u32::MAX)
    }

    pub(crate) fn rates(&self) -> Rates {
        Rates::new((0..self.graph.links()).map(|_| self.link.rate), self.params.headroom.get())
    }

    pub(crate) fn segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.most).max(1)).expect("a workload's messages are below 4 GiB")
    }

    pub(crate) fn offset(&self, segment: u32) -> u64 {
        u64::from(segment) * self.most
    }

    pub(crate) fn payload(&self, bytes: u64, segment: u32) -> u64 {
        (bytes - self.offset(segment)).min(self.most)
    }
}
