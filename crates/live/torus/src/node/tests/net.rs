//! Nodes and links without threads; the links lose, double and flip packets.

use super::script::described;
use super::*;
use crate::content::{self, Checks};
use crate::line::Line;
use std::collections::BTreeMap;

/// Rates of faults of packets, each in 1/256.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) lost: u8,
    pub(super) doubled: u8,
    pub(super) flipped: u8,
    /// Broadcasts refused for lack of room, and reports of that which are lost.
    pub(super) refused: u8,
    pub(super) unreported: u8,
}

/// Nodes and links without threads.
pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    pub(super) around: Wires,
    pub(super) now: Time,
}

pub(super) struct Wires {
    pub(super) plan: Arc<TorusPlan>,
    /// Links as each node knows them, by node.
    pub(super) maps: Vec<RackMap>,
    pub(super) links: Vec<LinkStates>,
    pub(super) lines: Vec<Line>,
    pub(super) down: Vec<u32>,
    pub(super) at: u32,
    /// Searches for better routings, with the nodes that started them.
    pub(super) sought: Vec<(u32, SelectionProblem)>,
    /// Frames that left the rack, each with its gateway.
    pub(super) to_hosts: Vec<(u32, Vec<u8>)>,
    /// Packets under way, each with its link, by arrival time and serial number.
    pub(super) crossings: BTreeMap<(Time, u64), (u32, Packet)>,
    pub(super) serial: u64,
    pub(super) random: u64,
    pub(super) faults: Faults,
    pub(super) checks: Checks,
    pub(super) opened: BTreeMap<SourceFlow, u32>,
    pub(super) complete: BTreeMap<u32, Time>,
    pub(super) acknowledged: Vec<u32>,
    pub(super) given_up: Vec<u32>,
    pub(super) wrong: u64,
    pub(super) arrived: BTreeMap<u32, u64>,
    /// Payload lost and doubled by faults, in bytes.
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Bytes carried, by link.
    pub(super) carried: Vec<u64>,
    /// Packets put on links, with the times at which they were, if they are to be described.
    pub(super) seen: Option<Vec<(Time, String)>>,
}

impl Wires {
    pub(super) fn strikes(&mut self, of: u8) -> bool {
        self.random = self.random.wrapping_add(GOLDEN_GAMMA);
        (mix(self.random) as u8) < of
    }

    pub(super) fn cross(&mut self, at: Time, link: u32, packet: Packet) {
        self.serial += 1;
        self.crossings.insert((at, self.serial), (link, packet));
    }
}

pub(super) fn payload(packet: &Packet) -> u64 {
    if Kind::from_packet(packet).is_some_and(Kind::is_data) { (packet.len() - DATA_HEADER) as u64 } else { 0 }
}

impl NodeServices for Wires {
    fn map(&mut self) -> &mut RackMap {
        &mut self.maps[self.at as usize]
    }
    fn links(&mut self) -> &mut LinkStates {
        &mut self.links[self.at as usize]
    }
    fn empty(&mut self) -> Packet {
        Packet::new()
    }
    fn spare(&mut self, _packet: Packet) {}
    fn room_at(&self, now: Time, port: u32, bytes: u64) -> Time {
        self.lines[(self.plan.setup.graph.links_of(self.at).start + port) as usize].room_at(now, bytes)
    }
    fn put(&mut self, now: Time, port: u32, mut packet: Packet) -> Result<(), Packet> {
        let link = self.plan.setup.graph.links_of(self.at).start + port;
        if Broadcast::is(&packet) && self.strikes(self.faults.refused) {
            return Err(packet);
        }
        let Some(departure) = self.lines[link as usize].enqueue(now, packet.len() as u64) else {
            return Err(packet);
        };
        self.carried[link as usize] += packet.len() as u64;
        let (first, last) = (departure.first, departure.last);
        if let Some(seen) = &mut self.seen {
            seen.push((now, described(&self.plan, link, &packet, (first, last))));
        }
        // As in a site, a node is told what the plan's links lose.
        if self.plan.loses(link, first, last, packet.len() as u64, 0) {
            return Err(packet);
        }
        let at = departure.last + self.plan.link(link).propagation;
        let Faults { lost, doubled, flipped, unreported, .. } = self.faults;
        let is_report = Kind::from_packet(&packet) == Some(Kind::Lost);
        if self.down.contains(&link) || self.strikes(lost) || (is_report && self.strikes(unreported)) {
            self.lost += payload(&packet);
            return Ok(());
        }
        if self.strikes(doubled) {
            self.doubled += payload(&packet);
            self.cross(at, link, packet.clone());
        }
        if self.strikes(flipped) {
            let bit = mix(self.random) as usize % (packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        self.cross(at, link, packet);
        Ok(())
    }
    fn fill(&mut self, flow: SourceFlow, offset: u64, into: &mut [u8]) {
        content::fill(flow, offset, into);
    }
    fn deliver(&mut self, flow: SourceFlow, offset: u64, bytes: &[u8]) {
        self.checks.deliver(flow, offset, bytes);
    }
    fn to_host(&mut self, frame: &[u8]) {
        self.to_hosts.push((self.at, frame.to_vec()));
    }
    fn seek(&mut self, problem: SelectionProblem) {
        self.sought.push((self.at, problem));
    }
    fn happened(&mut self, now: Time, event: Event) {
        match event {
            Event::Opened { message, flow } => {
                self.opened.insert(flow, message);
            }
            Event::Complete { flow } => {
                let arrived = self.checks.close(flow);
                self.wrong += arrived.wrong;
                // A forged flow has no message.
                let Some(message) = self.opened.get(&flow).copied() else { return };
                assert!(self.complete.insert(message, now).is_none(), "complete twice");
                self.arrived.insert(message, arrived.bytes);
            }
            Event::Acknowledged { message, .. } => self.acknowledged.push(message),
            Event::GivenUp { message, .. } => self.given_up.push(message),
        }
    }
}

impl Net {
    pub(super) fn new(plan: Arc<TorusPlan>, faults: Faults, seed: u64) -> Net {
        let links = plan.setup.graph.links() as usize;
        let around = Wires {
            maps: (0..plan.nodes())
                .map(|_| RackMap::whole(&plan.setup.graph, plan.setup.params.trees))
                .collect(),
            links: vec![LinkStates::default(); plan.nodes() as usize],
            sought: Vec::new(),
            to_hosts: Vec::new(),
            down: Vec::new(),
            lines: (0..plan.setup.graph.links())
                .map(|link| Line::new(plan.link(link).rate, plan.buffer))
                .collect(),
            at: 0,
            crossings: BTreeMap::new(),
            serial: 0,
            random: seed,
            faults,
            checks: Checks::default(),
            opened: BTreeMap::new(),
            complete: BTreeMap::new(),
            acknowledged: Vec::new(),
            given_up: Vec::new(),
            wrong: 0,
            arrived: BTreeMap::new(),
            lost: 0,
            doubled: 0,
            carried: vec![0; links],
            seen: None,
            plan: plan.clone(),
        };
        Net { nodes: (0..plan.nodes()).map(|node| Node::new(&plan, node)).collect(), around, now: Time::ZERO }
    }

    pub(super) fn submit(&mut self, message: u32, (src, dst): (u32, u32), bytes: u64) {
        self.around.at = src;
        self.nodes[src as usize].submit(self.now, message, dst, bytes, &mut self.around);
    }

    /// Runs until `until`, or until nothing is left to do.
    pub(super) fn run(&mut self, until: Time) {
        loop {
            let arrival = self.around.crossings.first_key_value().map(|((at, _), _)| *at);
            let wakes = self.nodes.iter().enumerate().filter_map(|(n, node)| Some((node.next_wake()?, n)));
            let wake = wakes.min();
            let next = arrival.into_iter().chain(wake.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|next| *next <= until) else { return };
            assert!(next >= self.now || wake.is_some_and(|(at, _)| at == next), "time goes back");
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (link, packet)) = self.around.crossings.pop_first().unwrap();
                let graph = self.around.plan.setup.graph.clone();
                let (to, port) = (graph.to(link), graph.port(graph.reverse(link)));
                self.around.at = to;
                self.nodes[to as usize].take(self.now, packet, &mut self.around);
                self.nodes[to as usize].heard(self.now, port as usize, &mut self.around);
                self.look(to);
            } else if let Some((_, node)) = wake {
                self.around.at = node as u32;
                self.nodes[node].wake(self.now, &mut self.around);
                self.look(node as u32);
            }
        }
    }

    /// Does what a thread with this one node does when states of links changed.
    pub(super) fn look(&mut self, node: u32) {
        let around = &mut self.around;
        let place = node as usize;
        if around.links[place].take_news() {
            self.nodes[place].tell_links(self.now, around);
            let down = around.links[place].down(&around.plan.setup.graph);
            around.maps[place] = around.maps[place].without(|link| down.contains(&link));
            self.nodes[place].discover(self.now, around);
        }
    }

    /// Has all nodes send keep-alives.
    pub(super) fn start(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.start(self.now));
    }

    /// Returns the number of nodes that know exactly these links to be down.
    pub(super) fn know(&self, down: &[u32]) -> usize {
        let left = |map: &RackMap| map.links().collect::<BTreeSet<u32>>();
        let links = self.around.plan.setup.graph.links();
        let expected: BTreeSet<u32> = (0..links).filter(|link| !down.contains(link)).collect();
        self.around.maps.iter().filter(|map| left(map) == expected).count()
    }

    /// Cuts all cables of a node: packets on them are lost from now on.
    pub(super) fn fail(&mut self, node: u32) {
        let graph = &self.around.plan.setup.graph;
        let cables = graph.links_of(node).flat_map(|link| [link, graph.reverse(link)]);
        self.around.down = cables.collect();
    }

    /// Tells all nodes which links are down.
    pub(super) fn discover(&mut self) {
        let down = self.around.down.clone();
        self.learn(&down);
    }

    /// Tells all nodes that these links are down, and no others.
    pub(super) fn learn(&mut self, down: &[u32]) {
        self.around.maps.iter_mut().for_each(|map| *map = map.without(|link| down.contains(&link)));
        for (number, node) in self.nodes.iter_mut().enumerate() {
            self.around.at = number as u32;
            node.discover(self.now, &mut self.around);
        }
    }

    pub(super) fn counters(&self) -> LiveCounters {
        let mut sum = LiveCounters::default();
        self.nodes.iter().for_each(|node| sum += node.own.counters);
        sum
    }
}
