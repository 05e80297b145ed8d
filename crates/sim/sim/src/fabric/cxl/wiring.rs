//! Numbers of links, and the devices at their ends. Links from nodes to their switches come first, ordered by node, followed by the links
//! of switch ports, ordered by port. Inputs and outputs of a switch have the numbers of its ports.

use super::link::{Link, Receiver, Sender};
use std::collections::BTreeMap;
use unrack_engine::events::LinkId;
use unrack_engine::topology::{self, LinkEnd, Topology};
use unrack_protocol::cxl::Params;

pub(super) struct CxlWiring {
    nodes: u32,
    /// First port of each switch, followed by the number of all ports.
    first: Vec<u32>,
    /// Number of the link that comes in by the same cable, by port.
    feeders: Vec<u32>,
    /// Switch port of each node.
    port_of: Vec<u32>,
}

impl CxlWiring {
    /// Numbers the links of a topology.
    pub(super) fn new(topology: &Topology) -> CxlWiring {
        let (nodes, ports) = (topology.nodes(), topology.ports());
        let mut first = vec![0; topology.switches() as usize];
        (0..ports).rev().for_each(|port| first[topology.owner(port) as usize] = port);
        first.push(ports);
        let mut port_of = vec![0; nodes as usize];
        // Ports, by the two switches that they connect (from, to).
        let mut between = BTreeMap::new();
        for port in 0..ports {
            match topology.end(port) {
                LinkEnd::Node(node) => port_of[node as usize] = port,
                LinkEnd::Switch(to) => {
                    between.insert((topology.owner(port), to), port);
                }
            }
        }
        let feeder = |port| match topology.end(port) {
            LinkEnd::Node(node) => node,
            LinkEnd::Switch(from) => nodes + between[&(from, topology.owner(port))],
        };
        CxlWiring { nodes, feeders: (0..ports).map(feeder).collect(), first, port_of }
    }

    /// Returns the number of ports of each switch.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u16> + '_ {
        self.first.windows(2).map(|two| (two[1] - two[0]) as u16)
    }

    /// Creates the links, in order of number, for runs of at most `run` lines.
    pub(super) fn links(&self, topology: &Topology, params: &Params, run: u32) -> Vec<Link> {
        let flit = |link: topology::Link| link.pace.transmit(params.flit.bytes().get());
        let slowest = (0..topology.ports()).map(|port| flit(topology.link(port))).max();
        let run = (run, slowest.unwrap_or_default().max(flit(topology.host_link())));
        let host = (0..self.nodes).map(|node| {
            let port = self.port_of[node as usize];
            let (link, switch) = (topology.host_link(), topology.owner(port));
            let receiver = Receiver::Input { switch, port: self.output(switch, port) };
            let times = (flit(link), link.propagation);
            Link::new(LinkId::Host(node), (Sender::Node(node as u16), receiver), times, params, run)
        });
        let from_switches = (0..topology.ports()).map(|port| {
            let (link, switch) = (topology.link(port), topology.owner(port));
            let sender = Sender::Output { switch, port: self.output(switch, port) };
            let receiver = match topology.end(port) {
                LinkEnd::Node(node) => Receiver::Node(node as u16),
                LinkEnd::Switch(to) => {
                    let comes_in = |other: &u32| self.feeders[*other as usize] == self.nodes + port;
                    let input = self.ports(to).find(comes_in).expect("a cable has two ends");
                    Receiver::Input { switch: to, port: self.output(to, input) }
                }
            };
            let times = (flit(link), link.propagation);
            Link::new(LinkId::Port(port), (sender, receiver), times, params, run)
        });
        host.chain(from_switches).collect()
    }

    fn ports(&self, switch: u32) -> std::ops::Range<u32> {
        self.first[switch as usize]..self.first[switch as usize + 1]
    }

    /// Returns the number of the link that leads to each input of a switch.
    pub(super) fn feeders(&self, switch: u32) -> &[u32] {
        let ports = self.ports(switch);
        &self.feeders[ports.start as usize..ports.end as usize]
    }

    /// Returns the number that this port has among the outputs of its switch.
    pub(super) fn output(&self, switch: u32, port: u32) -> u16 {
        (port - self.first[switch as usize]) as u16
    }

    /// Returns the number of the link that an output sends on.
    pub(super) fn link_of(&self, switch: u32, output: u16) -> u32 {
        self.nodes + self.first[switch as usize] + u32::from(output)
    }

    /// Returns the number of the link that leads to a node.
    pub(super) fn to_node(&self, node: u16) -> u32 {
        self.nodes + self.port_of[usize::from(node)]
    }
}
