//! `r2c2`: nodes that forward for each other and compute the rates of their flows (Costa et al., SIGCOMM 2015).
//!
//! A sender announces the start and the end of a flow to all nodes, each by a 16-byte packet along one of its broadcast trees. It sends at
//! once, at the rate that the flow would get alone, which is limited to that of a link unless configured otherwise. Once per interval, each
//! node computes the rates of all flows that it has known for an interval, and sends its flows at these rates. Packets follow the route
//! that their source drew. A node has one FIFO queue for each link.
//!
//! The paper leaves some points open, which are decided here as follows. Each node computes at a separate time, spread over the interval. A
//! packet is dropped if a queue has no room for it or a link loses it. A node that had to drop a broadcast informs its source, which
//! repeats the broadcast along the next of its trees. For other nodes, a flow ends when its last byte was sent. Receivers acknowledge
//! segments. After all segments were sent, segments without acknowledgement are retransmitted after a timeout, at the flow's rate. A flow
//! without any new acknowledgement, for as long as TCP would try, is given up. A packet has the size that the formats specify, without
//! other headers.
//!
//! The behaviour of a node is `protocol::r2c2::node`, which live racks use too. This module has the surroundings of nodes: queues, packets
//! as values, flows with their two ends, and the information that all nodes learn at once.
//!
//! With a controller, all of this is the same, except that nodes announce flows to the controller instead of all nodes, and the controller
//! sends rates back.

mod around;
mod arrivals;
mod central;
mod check;
mod control;
mod discovery;
mod event;
mod flow;
mod rack;
mod selecting;
mod unloaded;
mod wire;
mod wires;

use self::around::NodeSurroundings;
use self::central::Controller;
use self::check::check;
use self::discovery::Discovery;
pub use self::event::Event;
use self::flow::FlowRole;
use self::rack::Rack;
use self::selecting::Searches;
use self::unloaded::LoneFlow;
use self::wires::Wires;
use super::largest_in_packets;
use super::single_message::Lone;
use crate::acted::longest;
use crate::contract::{AssumedBuffer, Registered};
use crate::cost::Cost;
use crate::site::{Ethernet, FabricSite, SwitchBuffer};
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Observer};
use unrack_engine::network::Network;
use unrack_engine::run::Run;
use unrack_engine::{Fabric, Largest};
use unrack_protocol::r2c2::Params;
use unrack_protocol::r2c2::node::{Node, NodeTimer, RackSetup, WorldLimits};
use unrack_protocol::r2c2::packet::DATA_HEADER;
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::shared_rates::SharedRates;
use unrack_protocol::r2c2::weights::Weights;
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::{Bytes, Time, Warning};
use unrack_workload::{Message, MessageId};

/// R2C2 on a network whose nodes forward for each other.
pub struct R2c2 {
    rack: Rack,
    /// All nodes. Their flows are stored in `rack`.
    nodes: Vec<Node<u32>>,
    /// Number of flows of each node so far.
    numbers: Vec<u16>,
    discovery: Discovery,
    alone: LoneFlow,
    /// Parameters of the network, except its topology.
    ethernet: Ethernet,
    seed: u64,
    /// Completion times of messages that are alone, as far as they were simulated.
    lone: Lone,
    /// Controller that computes the rates of all flows, if there is one.
    controller: Option<Controller>,
    searches: Searches,
}

/// Limit of the number of node pairs times the number of broadcast trees, at one byte each. A torus needs only the trees of one node.
const MOST_BRANCHES: u64 = 1 << 32;

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
        let branches = u64::from(graph.nodes()) * u64::from(graph.nodes()) * u64::from(params.trees);
        let is_torus = graph.as_cube().is_some_and(|cube| cube.is_torus());
        if branches > MOST_BRANCHES && !is_torus {
            let rule = "is small enough for r2c2, whose trees take a byte for each pair of nodes: use fewer nodes, a torus, \
                        or less fabric.trees";
            let is = format!("{} nodes with {} trees, {} GB", graph.nodes(), params.trees, branches >> 30);
            return Err(SetupError::new("network.topology", rule, is));
        }
        check(params, &graph)?;
        let headroom = params.headroom.get();
        let SwitchBuffer::Private(buffer) = ethernet.buffer else {
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
        let rate = |link| topology.link(link).pace.rate();
        let rates = Rates::new((0..graph.links()).map(rate), headroom);
        let setup = RackSetup::new(params, &graph, rate, most, header, WorldLimits::NONE);
        let wires = Wires::new(topology, graph.links(), buffer.get(), ethernet.cut_through);
        let rack = Rack::new(setup, network, wires, rates.clone(), seed);
        let shared = SharedRates::new(rates.clone());
        Ok(R2c2 {
            rack,
            nodes: (0..graph.nodes()).map(|node| Node::new(node, shared.clone())).collect(),
            numbers: vec![0; graph.nodes() as usize],
            discovery: Discovery::default(),
            alone: LoneFlow::new(Weights::new(graph), rates),
            ethernet: *ethernet,
            seed,
            lone: Lone::default(),
            controller: Controller::from_params(params),
            searches: Searches::new(seed),
        })
    }

    /// Returns the fabric in its state before the first message, on a network without faults.
    fn afresh(&self) -> R2c2 {
        let network = &self.rack.network;
        let topology = network.topology.clone().without_faults();
        let network = Network { topology, ..network.clone() };
        let params = &self.rack.setup.params;
        R2c2::new(&network, &self.ethernet, params, self.seed).expect("made once already")
    }

    /// Returns a node and its surroundings.
    fn at<'a, O: Observer>(
        &'a mut self,
        core: &'a mut Core<Event, O>,
        node: u32,
    ) -> (&'a mut Node<u32>, NodeSurroundings<'a, O>) {
        (&mut self.nodes[node as usize], NodeSurroundings { node, core, rack: &mut self.rack })
    }

    /// Lets a node handle a timer.
    fn wake<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, timer: NodeTimer<u32>) {
        let (node, mut around) = self.at(core, node);
        node.wake(&mut around, timer);
    }
}

impl Registered for R2c2 {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "r2c2",
        about: "nodes that know of all flows compute their rates; for racks without switches",
        networks: Networks::Direct,
        no_shared_buffer: Some("a node of `r2c2` has a separate queue for each link"),
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        port: 200.0,
        open: 300.0,
        segment: 2.0 * Cost::BIT,
        overhead: Cost::ETHERNET,
        open_at_node: 145.0,
        // Two broadcasts of 16 B: a flow's start and its end (R2C2 §3.2).
        broadcast: 2.0 * 16.0,
        ..Cost::NONE
    };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<R2c2, SetupError> {
        R2c2::new(site.network, site.ethernet, params, site.seed)
    }

    /// Returns a note if all flows ended before they were older than one interval, which is the least age at which a rate is computed
    /// for a flow (§3.3.2).
    fn never_acted(params: &Params, run: &Run) -> Vec<Warning> {
        let (longest, interval) = (longest(run), params.interval);
        let text = format!(
            "r2c2 computed no rates: the longest message took {longest}, and `fabric.interval` is {interval}, so that all flows kept their \
             first rate, and `fabric.headroom` had no effect"
        );
        (longest <= interval).then(|| Warning::new("rates", text)).into_iter().collect()
    }

    /// Returns the queue length that only one packet in [`RARELY`] meets, if packets that take random paths arrive as a Poisson process:
    /// for M/D/1 at utilization rho, the tail decays as exp(-2 (1 - rho) n / rho) in packets (heavy traffic).
    fn assumed_buffer(site: &FabricSite, params: &Params) -> Option<AssumedBuffer> {
        let free = params.headroom.get().max(LEAST_HEADROOM);
        let packets = (RARELY.ln() * (1.0 - free) / (2.0 * free)).ceil();
        let bytes = Bytes::new(packets as u64 * site.ethernet.mtu.get());
        Some(AssumedBuffer {
            bytes,
            holds: "a queue met by one packet in a million at the share of links given to flows",
            is_default: true,
        })
    }
}

/// Number of packets of which one may find the queue full. It is large because a lost packet costs its flow a timeout, and a flow of a
/// thousand packets meets some ten thousand queues.
const RARELY: f64 = 1e6;
/// Minimum headroom for the calculation of the buffer. A smaller headroom does not increase the buffer further.
const LEAST_HEADROOM: f64 = 0.01;

impl Fabric for R2c2 {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), FlowRole::Request),
            false => (message.bytes, FlowRole::Data),
        };
        self.open(core, id, message.endpoints(), bytes, role);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Arrive { packet, link } => self.arrive(core, packet, link),
            Event::Heard { spread, link } => self.heard(core, spread, link),
            Event::Send { flow, turn } => {
                self.wake(core, self.rack.flows[flow].src(), NodeTimer::Send { flow, turn });
            }
            Event::Tick(node) => self.tick(core, node),
            Event::Alarm { flow, turn } => {
                self.wake(core, self.rack.flows[flow].src(), NodeTimer::Alarm { flow, turn });
            }
            Event::Repeat(node) => self.wake(core, node, NodeTimer::Repeat),
            Event::Report(node) => self.wake(core, node, NodeTimer::Report),
            Event::Rule(rule) => self.rule(core, rule),
            Event::Select => self.select(core),
            Event::Discover => self.discover(core),
        }
    }

    fn largest(&self) -> Option<Largest> {
        Some(largest_in_packets(Bytes::new(self.rack.setup.most)))
    }

    /// Returns the completion time of a message that is alone. It is computed for one packet, and simulated otherwise. Very long messages
    /// get a lower bound: see [`Alone::time`].
    fn unloaded(&self, message: &Message) -> Time {
        let (src, dst) = (message.src, message.dst);
        let (request, (from, to)) = match message.kind.is_answered() {
            true => (u64::from(message.request), (dst, src)),
            false => (0, (src, dst)),
        };
        let segments = self.rack.setup.segments(request).max(self.rack.setup.segments(message.bytes));
        if LoneFlow::is_simulated(&self.rack, segments) {
            return self.lone.completion(&self.rack.network, message, || self.afresh());
        }
        let asked = if request > 0 { self.alone.time(&self.rack, src, dst, request) } else { Time::ZERO };
        (asked + self.alone.time(&self.rack, from, to, message.bytes)).max(self.rack.network.ideal(message))
    }

    fn draws_routes(&self) -> bool {
        true
    }
}
