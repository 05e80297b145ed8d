//! `r2c2`: nodes that forward for each other and compute their own rates (Costa et al., SIGCOMM 2015).
//!
//! A sender announces a flow's start and end to all nodes, each by a 16-byte packet along one of its broadcast trees.
//! It sends at once, at the rate that the flow would get alone, up to that of a link unless configured otherwise.
//! Once an interval it computes the rates of all flows that it has known for an interval, and sends its own flows at
//! theirs. Packets follow the route that their source drew; a node has one queue for each link, first in, first out.
//!
//! The paper leaves some points open, which are decided here as follows. Nodes compute at times of their own, spread
//! over the interval. A packet is dropped if a queue has no room for it or a link loses it; a node that had to drop a
//! broadcast tells its source, which repeats it along the next of its trees. A flow has ended for other nodes when
//! its last byte was sent. Receivers acknowledge. Segments that are not acknowledged when all were sent are sent
//! again after a timeout, at the flow's rate. A flow without any new acknowledgement, for as long as TCP would try,
//! is given up. A packet has the size that the formats say, without other headers.
//!
//! With a controller, all of this is the same, except that the controller is told of flows instead of all nodes, and
//! sends rates back.

mod alone;
mod broadcasts;
mod central;
mod discovery;
mod flow;
mod packets;
mod rating;
mod selecting;
mod sending;
mod wire;

use self::central::Controller;
use self::flow::{Flow, Role};
use self::wire::{Link, Packet, Spread};
use super::Fabric;
use super::slab::Slab;
use super::stream::{Buffer, Ethernet};
use crate::engine::{Core, Observer, Tie, Tied};
use crate::error::SetupError;
use crate::memory::Cost;
use crate::network::Network;
use crate::registry::{Registered, Site};
use std::cell::RefCell;
use std::sync::Arc;
use unrack_basis::{SplitMix64, mix};
use unrack_protocol::r2c2::map::Map;
use unrack_protocol::r2c2::news::{News, Reports};
use unrack_protocol::r2c2::packet::{Assignment, DATA_HEADER, Route};
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::selection::Selection;
use unrack_protocol::r2c2::view::View;
use unrack_protocol::r2c2::weights::{Ways, Weights};
use unrack_protocol::r2c2::{Control, FirstRate, Params, Routing};
use unrack_rack::graph::Graph;
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// R2C2 on a network whose nodes forward for each other.
pub struct R2c2 {
    params: Params,
    network: Network,
    graph: Arc<Graph>,
    /// Payload of a full packet.
    most: u64,
    /// Bytes on the wire around every payload.
    header: u64,
    buffer: u64,
    cut_through: bool,
    links: Vec<Link>,
    nodes: Vec<Node>,
    flows: Slab<Flow>,
    packets: Slab<Packet>,
    spreads: Slab<Spread>,
    /// Topology as nodes know it.
    map: Map,
    /// Links that nodes know to be down, sorted.
    down: Vec<u32>,
    discovers: bool,
    /// Weights in the whole topology, for the unloaded time of messages.
    weights: RefCell<Weights>,
    /// Rates of the whole topology, without flows.
    whole: Rates,
    /// Rates of the links that are not known to be down, without flows.
    empty: Rates,
    /// Controller that computes the rates of all flows, if there is one.
    controller: Option<Controller>,
    /// Lists of chosen routings that were announced so far.
    chosen: Vec<Arc<[Assignment]>>,
    /// The next choice of routings is scheduled.
    selects: bool,
    /// Number of choices of routings so far.
    selections: u32,
    /// Random numbers of the search. They are separate, so that packets take the same paths without a
    /// search.
    search_random: SplitMix64,
    /// Rules that hold from a later time on are scheduled.
    rules_told: bool,
    /// Number of events and timers named so far.
    turns: u32,
    random: SplitMix64,
}

struct Node {
    view: View,
    /// Flows that the node sends.
    own: Vec<u32>,
    /// Number of its flows so far.
    numbers: u16,
    /// The node computes rates once an interval.
    ticks: bool,
    /// News that the node is about to repeat: another loss of the same news does not repeat it twice.
    repeats: Vec<News>,
    reports: Reports,
}

/// Events of [`R2c2`].
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet can leave the node at the end of this link, or has arrived at its destination.
    Arrive {
        packet: u32,
        link: u32,
    },
    /// A broadcast has arrived over this link.
    Heard {
        spread: u32,
        link: u32,
    },
    Send {
        flow: u32,
        turn: u32,
    },
    Tick(u32),
    Alarm {
        flow: u32,
        turn: u32,
    },
    /// A source repeats news, since a copy of it was lost.
    Repeat {
        spread: u32,
    },
    /// A node reports again a broadcast that it had to drop.
    Report(u32),
    /// A rule begins to hold.
    Rule(u32),
    /// A node chooses routings.
    Select,
    /// Nodes find out that a part of the network is down, or up again.
    Discover,
}

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::Arrive { link, .. } | Event::Heard { link, .. } => link + 1,
            Event::Alarm { .. } => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}

/// Limit of nodes times links: 13 GB as measured; a torus of 6,600 nodes in three dimensions.
const MOST_KNOWN: u64 = 1 << 28;

impl R2c2 {
    /// Creates the nodes and links of a network.
    ///
    /// # Errors
    /// If nodes do not forward for each other, the network is too large, or a parameter is out of range.
    pub fn new(
        network: &Network,
        ethernet: &Ethernet,
        params: &Params,
        seed: u64,
    ) -> Result<R2c2, SetupError> {
        let topology = &network.topology;
        let Some(graph) = topology.graph().cloned() else {
            let rule = "is torus, mesh or graph for r2c2, whose nodes forward for each other";
            return Err(SetupError::new("network.topology.kind", rule, "one with switches"));
        };
        let known = u64::from(graph.nodes()) * u64::from(graph.links());
        if known > MOST_KNOWN {
            let rule = "is small enough for r2c2, whose nodes each keep about 50 B for every link";
            let is = format!(
                "{} nodes with {} links, {} GB",
                graph.nodes(),
                graph.links(),
                known * 50 / 1_000_000_000
            );
            return Err(SetupError::new("network.topology", rule, is));
        }
        check(params, &graph)?;
        let headroom = params.headroom.get();
        let Buffer::Private(buffer) = ethernet.buffer else {
            return Err(SetupError::new("network.switch.buffer", "is of each link for r2c2", "shared"));
        };
        let header = if ethernet.headers { DATA_HEADER as u64 } else { 0 };
        let most = ethernet.mtu.get().saturating_sub(header).min(u64::from(u16::MAX));
        if most == 0 {
            return Err(SetupError::new(
                "network.mtu",
                "has room for a header of 36 B and data",
                ethernet.mtu,
            ));
        }
        let rates = Rates::new((0..graph.links()).map(|link| topology.link(link).pace.rate()), headroom);
        let node = |_| Node {
            view: View::new(rates.clone()),
            own: Vec::new(),
            numbers: 0,
            ticks: false,
            repeats: Vec::new(),
            reports: Reports::default(),
        };
        Ok(R2c2 {
            params: params.clone(),
            network: network.clone(),
            most,
            header,
            buffer: buffer.get(),
            cut_through: ethernet.cut_through,
            links: Link::all(topology, graph.links()),
            nodes: (0..graph.nodes()).map(node).collect(),
            flows: Slab::new(),
            packets: Slab::new(),
            spreads: Slab::new(),
            map: Map::whole(&graph, params.trees),
            down: Vec::new(),
            discovers: false,
            weights: RefCell::new(Weights::new(graph.clone())),
            graph,
            whole: rates.clone(),
            empty: rates,
            controller: Controller::of(params),
            chosen: Vec::new(),
            selects: false,
            selections: 0,
            search_random: SplitMix64::new(mix(seed ^ SEARCH)).after(1),
            rules_told: false,
            turns: 0,
            random: SplitMix64::new(mix(seed)).after(1),
        })
    }

    fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1).max(1);
        self.turns
    }

    /// Draws a route; `None` if no path is known.
    fn draw(&mut self, ways: Ways) -> Option<Route> {
        let random = &mut self.random;
        self.map.draw(ways, &mut || random.next_u64())
    }

    fn wire(&self, payload: u64) -> u32 {
        (self.header + payload).max(SMALLEST) as u32
    }

    fn segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.most).max(1)).expect("a message of less than 2^32 segments")
    }

    fn payload(&self, bytes: u64, segment: u32) -> u64 {
        (bytes - u64::from(segment) * self.most).min(self.most)
    }

    /// Returns the rate in Kb/s at which a flow begins, before its rate has been computed.
    fn first_kbps(&mut self, ways: Ways) -> u32 {
        let alone = self.empty.alone_kbps(&self.map.weights.shares(ways));
        self.first_of(alone, ways.src)
    }

    /// Returns the rate in Kb/s at which a flow begins that would get `alone_kbps` alone.
    fn first_of(&self, alone_kbps: u32, src: u32) -> u32 {
        match self.params.first_rate {
            FirstRate::Link => alone_kbps.min(self.fastest_kbps(src)),
            FirstRate::Alone => alone_kbps,
        }
    }

    /// Returns the rate of the fastest link of a node in Kb/s.
    fn fastest_kbps(&self, node: u32) -> u32 {
        let of = |link: u32| self.links[link as usize].pace.rate().as_bps() / 1_000;
        let fastest = self.graph.links_of(node).map(of).max().unwrap_or(0);
        u32::try_from(fastest).unwrap_or(u32::MAX)
    }
}

fn check(params: &Params, graph: &Graph) -> Result<(), SetupError> {
    let routing = |key, routing: Routing| {
        routing
            .check(graph)
            .map_err(|why| SetupError::new(key, "fits the topology", format!("{routing} ({why})")))
    };
    routing("fabric.routing", params.routing)?;
    let positive = [("fabric.interval", params.interval), ("fabric.timeout", params.timeout)];
    if let Some((key, time)) = positive.into_iter().find(|(_, time)| *time == Time::ZERO) {
        return Err(SetupError::new(key, "is above 0", time));
    }
    if params.trees == 0 {
        return Err(SetupError::new("fabric.trees", "is at least 1", 0));
    }
    if !(1..=64).contains(&params.ack_every) {
        return Err(SetupError::new("fabric.ack_every", "is from 1 to 64", params.ack_every));
    }
    if params.headroom.get() >= 1.0 {
        return Err(SetupError::new("fabric.headroom", "leaves something to flows", params.headroom));
    }
    if params.demand_gain.get() <= 0.0 {
        return Err(SetupError::new("fabric.demand_gain", "is above 0", params.demand_gain));
    }
    if params.controller >= graph.nodes() {
        let of = format!("node {} of {}", params.controller, graph.nodes());
        return Err(SetupError::new("fabric.controller", "is a node of the network", of));
    }
    if params.control == Control::Central && params.selection.is_some() {
        let rule =
            "is \"decentralized\" with fabric.selection: other nodes know of no flows to choose routings for";
        return Err(SetupError::new("fabric.control", rule, "central"));
    }
    if let Some(Selection { period, routings, search, .. }) = &params.selection {
        if *period == Time::ZERO {
            return Err(SetupError::new("fabric.selection.period", "is above 0", period));
        }
        if routings.is_empty() {
            return Err(SetupError::new("fabric.selection.routings", "names at least one", "none"));
        }
        routings.iter().try_for_each(|of| routing("fabric.selection.routings", *of))?;
        if !(1..=10_000).contains(&search.population) {
            let key = "fabric.selection.search.population";
            return Err(SetupError::new(key, "is from 1 to 10000", search.population));
        }
        let shares = [
            ("fabric.selection.search.mutation", search.mutation),
            ("fabric.selection.search.survivors", search.survivors),
        ];
        if let Some((key, share)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(SetupError::new(key, "is from 0 to 1", share));
        }
    }
    for rule in &params.rules {
        let nodes = [("fabric.rules.src", &rule.src), ("fabric.rules.dst", &rule.dst)];
        for (key, node) in
            nodes.into_iter().flat_map(|(key, nodes)| nodes.iter().flatten().map(move |n| (key, n)))
        {
            if *node >= graph.nodes() {
                let of = format!("node {node} of {}", graph.nodes());
                return Err(SetupError::new(key, "names nodes of the network", of));
            }
        }
        if rule.weight == Some(0) {
            return Err(SetupError::new("fabric.rules.weight", "is from 1 to 255", 0));
        }
        if let Some(demand) = rule.demand.filter(|demand| demand.as_bps() < 1_000) {
            return Err(SetupError::new("fabric.rules.demand", "is at least 1 Kbps", demand));
        }
        if let Some(of_rule) = rule.routing {
            routing("fabric.rules.routing", of_rule)?;
        }
    }
    Ok(())
}

/// Makes the random numbers of the search differ from those of packets.
const SEARCH: u64 = 0x5EA2_C4E2;

/// Fewest bytes of a packet on the wire, as in simulators without headers.
const SMALLEST: u64 = 8;

/// Flow of packets that belong to no flow.
const NONE: u32 = u32::MAX;

impl Registered for R2c2 {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "r2c2",
        about: "nodes that know of all flows compute their rates; for racks without switches",
        networks: Networks::Direct,
        no_shared_buffer: Some("a node of `r2c2` has a queue of its own for each link"),
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        port: 200.0,
        open: 300.0,
        overhead: Cost::ETHERNET,
        link_at_node: 75.0,
        open_at_node: 145.0,
        // Two broadcasts of 16 B, of a flow's start and end (R2C2 §3.2).
        broadcast: 2.0 * 16.0,
        ..Cost::NONE
    };
    type Params = Params;

    fn build(site: &Site, params: &Params) -> Result<R2c2, SetupError> {
        R2c2::new(site.network, site.ethernet, params, site.seed)
    }
}

impl Fabric for R2c2 {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), Role::Request),
            false => (message.bytes, Role::Data),
        };
        self.open(core, id, (message.src, message.dst), bytes, role);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Arrive { packet, link } => self.arrive(core, packet, link),
            Event::Heard { spread, link } => self.heard(core, spread, link),
            Event::Send { flow, turn } => self.send(core, flow, turn),
            Event::Tick(node) => self.tick(core, node),
            Event::Alarm { flow, turn } => self.alarm(core, flow, turn),
            Event::Repeat { spread } => self.repeat(core, spread),
            Event::Report(node) => self.report_again(core, node),
            Event::Rule(rule) => self.rule(core, rule),
            Event::Select => self.select(core),
            Event::Discover => self.discover(core),
        }
    }

    /// Returns a lower bound: the shortest path, with no packet or broadcast in another's way, in the first interval
    /// at the rate at which flows begin, then at the rate of a flow alone. It is exact for one packet, and for full
    /// packets within an interval by a single path of like links.
    fn unloaded(&self, message: &Message) -> Time {
        let alone = |src, dst, bytes| self.alone(src, dst, bytes);
        let request = match message.kind.is_answered() {
            true => alone(message.src, message.dst, u64::from(message.request)),
            false => Time::ZERO,
        };
        let (src, dst) = match message.kind.is_answered() {
            true => (message.dst, message.src),
            false => (message.src, message.dst),
        };
        // Where links differ, the time by the best of them may be less than the ideal time.
        (request + alone(src, dst, message.bytes)).max(self.network.ideal(message))
    }
}
