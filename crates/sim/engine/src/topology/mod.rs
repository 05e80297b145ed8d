//! Wiring of nodes and switches, and the routes of packets.
//!
//! Switch ports are numbered densely over all switches, so that a fabric can keep its state per port in an array.
//! Routes are computed, not looked up. A packet goes up to a switch that is above both ends; the hash of its flow
//! selects the switch (ECMP, RFC 2992). From there the packet goes down the only path. All packets of a flow take the
//! same path.
//!
//! On a leaf-spine network of r leaves with h hosts each and s spines, the ports of leaf l start at number l (h + s):
//! first the ports to its hosts, then those to the spines. The ports of the spines follow those of all leaves. Counted
//! from the first of them, spine i has the r ports from number i r on, one to each leaf. A packet with hash n takes
//! spine n mod s. The hash is the finalizer of MurmurHash3, applied to the name of the stream or transfer (with `cxl`:
//! to the numbers of its ends, `src << 16 | dst`). If packets of a node take all paths in turn, the hash is instead the
//! number of the packet among all packets that the node has sent, counted from 1.

mod attachment;
mod built;
mod cables;
mod drack;
mod draw;
mod route;

use self::built::BuiltTopology;
use self::cables::Cables;
use self::drack::DrackNumbering;
pub use self::draw::MOST_NODES as MOST_DRAWN;
use self::route::NextHops;
use crate::events::LinkId;
use crate::faults::FaultSchedule;
use crate::inside::HostModel;
use crate::link::{Departure, Pace};
pub use crate::link::{Link, LinkEnd};
use std::sync::Arc;
use unrack_rack::graph::{Graph, Towards};
use unrack_rack::{Switches, Wiring};
use unrack_units::{Rate, Time};
use unrack_workload::{BladeRacks, NodeId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopologyShape {
    /// All nodes around one switch.
    Star { nodes: u32 },
    /// Racks of hosts, each around its leaf. Every leaf is linked to every spine.
    LeafSpine { racks: u32, hosts: u32, spines: u32 },
    /// Three tiers of switches with `2 * half` ports each (Al-Fares et al., SIGCOMM 2008).
    FatTree { half: u32 },
    /// Racks that pool their NICs.
    Drack(DrackNumbering),
    /// Nodes that forward for each other. Each node is a switch with one link to each neighbour.
    Direct { nodes: u32, links: u32 },
    /// Switches whose routes are kept in tables.
    Built { nodes: u32 },
}

/// A network of nodes, switches and links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    shape: TopologyShape,
    host_link: Link,
    core_link: Link,
    /// Link of the CXL port of a host. In networks without CXL ports, it equals `host_link`.
    cxl_link: Link,
    faults: Option<Arc<FaultSchedule>>,
    /// Tables of [`TopologyShape::Built`].
    built: Option<Arc<BuiltTopology>>,
    /// Links between nodes, in a network without switches.
    graph: Option<Arc<Graph>>,
    /// Properties of the links between nodes, in a network without switches. `None` if all of them equal `core_link`.
    cables: Option<Arc<Cables>>,
    /// Components inside the nodes; `None` if nodes take no time.
    hosts: Option<Arc<HostModel>>,
}

impl Topology {
    fn new(shape: TopologyShape, host_link: Link, core_link: Link) -> Topology {
        Topology {
            shape,
            host_link,
            core_link,
            cxl_link: host_link,
            faults: None,
            built: None,
            graph: None,
            cables: None,
            hosts: None,
        }
    }

    /// Creates a network of nodes around one switch.
    pub fn star(nodes: u32, link: Link) -> Topology {
        Topology::new(TopologyShape::Star { nodes }, link, link)
    }

    /// Creates a network of `racks` leaves with `hosts` nodes each. `core_link` connects a leaf to a spine.
    pub fn leaf_spine(racks: u32, hosts: u32, spines: u32, host_link: Link, core_link: Link) -> Topology {
        Topology::new(TopologyShape::LeafSpine { racks, hosts, spines }, host_link, core_link)
    }

    /// Creates a fat tree of switches with `k` ports. `k` is even, and the network has k^3 / 4 nodes.
    pub fn fat_tree(k: u32, host_link: Link, core_link: Link) -> Topology {
        Topology::new(TopologyShape::FatTree { half: k / 2 }, host_link, core_link)
    }

    /// Creates a network of switches from a description of their cables.
    pub fn built(switches: &Switches, host_link: Link, core_link: Link) -> Topology {
        let topology = Topology::new(TopologyShape::Built { nodes: switches.nodes() }, host_link, core_link);
        Topology { built: Some(Arc::new(BuiltTopology::new(switches))), ..topology }
    }

    /// Returns the tables of a network whose routes are kept in tables.
    fn tables(&self) -> &BuiltTopology {
        self.built.as_ref().expect("a built network has tables")
    }

    /// Creates a network of racks that pool their NICs. `nic_link` connects a NIC to its aggregation switch.
    pub fn drack(wiring: Wiring, nic_link: Link, core_link: Link, cxl_link: Link) -> Topology {
        Topology {
            cxl_link,
            ..Topology::new(TopologyShape::Drack(DrackNumbering { wiring }), nic_link, core_link)
        }
    }

    /// Creates a network of nodes that are linked to each other without switches. Each node has a switch inside, and
    /// reaches it at the rate of all links of the node together.
    ///
    /// The ports are the links of the graph, followed by one port of each inner switch to its node.
    pub fn direct(graph: Arc<Graph>, link: Link) -> Topology {
        let (nodes, links) = (graph.nodes(), graph.links());
        let degree = (0..nodes).map(|node| graph.links_of(node).len() as u64).max().unwrap_or(1);
        let all = Rate::from_bps(link.pace.rate().as_bps() * degree);
        let inside = Link { pace: Pace::new(all), propagation: Time::ZERO };
        let topology = Topology::new(TopologyShape::Direct { nodes, links }, inside, link);
        Topology { graph: Some(graph), ..topology }
    }

    /// Creates a network like [`Topology::direct`] whose links differ. `cables` holds the link of each cable, by its
    /// number ([`Graph::cable`]). Every node reaches its inner switch at the rate of the node whose links are fastest
    /// together.
    pub fn direct_by(graph: Arc<Graph>, cables: &[Link]) -> Topology {
        if cables.iter().all(|cable| *cable == cables[0]) {
            return Topology::direct(graph, cables[0]);
        }
        let (nodes, links) = (graph.nodes(), graph.links());
        let cables = Cables::new(graph.clone(), cables);
        let ways = || (0..links).map(|link| cables.link(link));
        let fastest = ways().map(|link| link.pace).max_by_key(|pace| pace.rate()).expect("a graph has links");
        let nearest = ways().map(|link| link.propagation).min().expect("a graph has links");
        let all = (0..nodes).map(|node| cables.all_of(node)).max_by_key(|pace| pace.rate());
        let inside = Link { pace: all.expect("a graph has nodes"), propagation: Time::ZERO };
        let best = Link { pace: fastest, propagation: nearest };
        let topology = Topology::new(TopologyShape::Direct { nodes, links }, inside, best);
        Topology { graph: Some(graph), cables: Some(Arc::new(cables)), ..topology }
    }

    /// Returns the best rate and the best propagation of any link on the shortest paths between two nodes that forward
    /// for each other. This is a bound: no single link may have both.
    pub fn best_link(&self, src: NodeId, dst: NodeId) -> Link {
        self.cables.as_ref().map_or(self.core_link, |cables| cables.best(src, dst))
    }

    /// Returns a bound for two nodes whose links differ: the least propagation from one to the other, and the lower of
    /// the two rates at which one node can send and the other can receive. `None` if all links are alike.
    pub fn nearest(&self, src: NodeId, dst: NodeId) -> Option<(Time, Pace)> {
        let cables = self.cables.as_ref()?;
        let slower = [src, dst].map(|node| cables.all_of(node)).into_iter().min_by_key(|pace| pace.rate());
        Some((cables.nearest(src, dst), slower.expect("two nodes")))
    }

    /// Returns the graph of links between nodes; `None` in a network with switches.
    #[inline]
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        self.graph.as_ref()
    }

    /// Returns the network with these faults added.
    pub fn with_faults(self, faults: FaultSchedule) -> Topology {
        Topology { faults: Some(Arc::new(faults)), ..self }
    }

    /// Returns the network without faults.
    pub fn without_faults(self) -> Topology {
        Topology { faults: None, ..self }
    }

    /// Returns the network with these components inside the nodes, in which packets take time.
    pub fn with_hosts(self, hosts: HostModel) -> Topology {
        Topology { hosts: Some(Arc::new(hosts)), ..self }
    }

    /// Returns the components inside the nodes; `None` if nodes take no time.
    #[inline]
    pub fn hosts(&self) -> Option<&HostModel> {
        self.hosts.as_deref()
    }

    /// Returns the fault schedule, if the network has one.
    #[inline]
    pub fn faults(&self) -> Option<&Arc<FaultSchedule>> {
        self.faults.as_ref()
    }

    /// Returns whether a packet that crosses a link at these times is lost. The caller should ask once for each packet
    /// and link. A lost packet still occupies the link for its transmission time.
    #[inline]
    pub fn loses(&self, link: LinkId, crossing: Departure) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.loses(self, link, crossing))
    }

    /// Returns the number of nodes.
    #[inline]
    pub fn nodes(&self) -> u32 {
        match self.shape {
            TopologyShape::Star { nodes } => nodes,
            TopologyShape::LeafSpine { racks, hosts, .. } => racks * hosts,
            TopologyShape::FatTree { half } => 2 * half * half * half,
            TopologyShape::Drack(DrackNumbering { wiring }) => wiring.nics(),
            TopologyShape::Direct { nodes, .. } | TopologyShape::Built { nodes } => nodes,
        }
    }

    /// Returns how the nodes are grouped by switch.
    pub fn racks(&self) -> BladeRacks {
        match self.shape {
            TopologyShape::Star { nodes } => BladeRacks { racks: 1, hosts: nodes },
            TopologyShape::LeafSpine { racks, hosts, .. } => BladeRacks { racks, hosts },
            TopologyShape::FatTree { half } => BladeRacks { racks: 2 * half * half, hosts: half },
            TopologyShape::Drack(DrackNumbering { wiring }) => {
                BladeRacks { racks: wiring.racks, hosts: wiring.hosts_per_rack }
            }
            TopologyShape::Direct { nodes, .. } => BladeRacks { racks: 1, hosts: nodes },
            TopologyShape::Built { .. } => self.tables().racks,
        }
    }

    /// Divides the switches into `number` parts, and returns the part of each switch. Each part gets a share of the
    /// racks, or of the pods in a fat tree. Returns `None` if there are fewer racks or pods than parts, or if no
    /// switches are above the racks.
    pub fn parts(&self, number: u32) -> Option<Arc<[u32]>> {
        let (groups, of_group): (u32, Box<dyn Fn(u32) -> Option<u32>>) = match self.shape {
            TopologyShape::Star { .. } | TopologyShape::Drack(_) | TopologyShape::Direct { .. } => {
                return None;
            }
            TopologyShape::Built { .. } => {
                let racks = self.tables().racks.racks;
                (racks, Box::new(move |switch| (switch < racks).then_some(switch)))
            }
            TopologyShape::LeafSpine { racks, .. } => {
                (racks, Box::new(move |switch| (switch < racks).then_some(switch)))
            }
            TopologyShape::FatTree { half } => {
                let tier = 2 * half * half;
                (2 * half, Box::new(move |switch| (switch < 2 * tier).then_some(switch % tier / half)))
            }
        };
        let part = |switch| match of_group(switch) {
            Some(group) => (u64::from(group) * u64::from(number) / u64::from(groups)) as u32,
            None => switch % number,
        };
        (number <= groups).then(|| (0..self.switches()).map(part).collect())
    }

    /// Returns whether all nodes are connected to one switch.
    #[inline]
    pub fn is_star(&self) -> bool {
        matches!(self.shape, TopologyShape::Star { .. })
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> u32 {
        match self.shape {
            TopologyShape::Star { .. } => 1,
            TopologyShape::LeafSpine { racks, spines, .. } => racks + spines,
            TopologyShape::FatTree { half } => 5 * half * half,
            TopologyShape::Drack(drack) => drack.switches(),
            TopologyShape::Direct { nodes, .. } => nodes,
            TopologyShape::Built { .. } => self.tables().switches(),
        }
    }

    /// Returns whether the links between nodes that forward for each other differ.
    pub fn is_uneven(&self) -> bool {
        self.cables.is_some()
    }

    /// Returns the number of ports of all switches.
    pub fn ports(&self) -> u32 {
        match self.shape {
            TopologyShape::Star { nodes } => nodes,
            TopologyShape::LeafSpine { racks, hosts, spines } => racks * (hosts + spines) + spines * racks,
            TopologyShape::FatTree { half } => 5 * half * half * 2 * half,
            TopologyShape::Drack(drack) => drack.ports(),
            TopologyShape::Direct { nodes, links } => links + nodes,
            TopologyShape::Built { .. } => self.tables().ports(),
        }
    }

    /// Returns the link between each node and its switch, or between each NIC and its switch where NICs are pooled.
    #[inline]
    pub fn host_link(&self) -> Link {
        self.host_link
    }

    /// Returns the link between switches; on a star, the link of the nodes. Where links differ, the result has the best
    /// rate and the best propagation of any link.
    #[inline]
    pub fn core_link(&self) -> Link {
        self.core_link
    }

    /// Returns the switch of a node, or its CXL switch where NICs are pooled.
    #[inline]
    pub fn switch_of(&self, node: NodeId) -> u32 {
        match self.shape {
            TopologyShape::Drack(drack) => drack.rack_of(node),
            TopologyShape::Star { .. } => 0,
            TopologyShape::LeafSpine { hosts, .. } => node / hosts,
            TopologyShape::FatTree { half } => node / half,
            TopologyShape::Direct { .. } => node,
            TopologyShape::Built { .. } => node / self.tables().racks.hosts,
        }
    }

    /// Returns the port by which `switch` sends a packet on its way to `dst` when all links are up. `hash` is the hash
    /// of the flow.
    #[inline]
    pub fn route(&self, switch: u32, dst: NodeId, hash: u32) -> u32 {
        match (self.shape, &self.graph) {
            (TopologyShape::Direct { links, .. }, Some(graph)) => match switch == dst {
                true => links + dst,
                false => Towards::new(graph, dst).by_hash(switch, hash),
            },
            (TopologyShape::Built { .. }, _) => self.tables().route(switch, dst, hash),
            _ => {
                let ports = self.next_ports(switch, dst);
                ports.nth(self.turn(switch, hash) % ports.len())
            }
        }
    }

    /// Returns the port like [`Topology::route`], but avoids links that are known to be down at `now`. If no path
    /// avoids them, it returns the same port.
    #[inline]
    pub fn route_at(&self, switch: u32, dst: NodeId, hash: u32, now: Time) -> u32 {
        let port = self.route(switch, dst, hash);
        match &self.faults {
            Some(faults) if faults.any_known(now) => {
                self.around(faults, switch, dst, hash, now).unwrap_or(port)
            }
            _ => port,
        }
    }

    /// Returns a port that avoids links known to be down; `None` if there is no such port. A flow keeps its path while
    /// that path is up; the other flows share the remaining ports.
    fn around(&self, faults: &FaultSchedule, switch: u32, dst: NodeId, hash: u32, now: Time) -> Option<u32> {
        if let (Some(graph), TopologyShape::Direct { .. }) = (&self.graph, self.shape)
            && switch != dst
        {
            let towards = Towards::new(graph, dst);
            let mut up = towards.closer(switch).filter(|link| !faults.known_down(*link, now));
            let port = self.route(switch, dst, hash);
            return if faults.known_down(port, now) { up.next() } else { Some(port) };
        }
        let port = self.route(switch, dst, hash);
        let is_up = |port: &u32| self.leads_on(faults, *port, dst, now);
        if is_up(&port) {
            return Some(port);
        }
        let up = || self.all_next_ports(switch, dst).filter(is_up);
        let turn = self.turn(switch, hash) as usize;
        up().nth(turn % up().count().max(1))
    }

    /// Returns whether some path through this port to `dst` has no link that is known to be down.
    fn leads_on(&self, faults: &FaultSchedule, port: u32, dst: NodeId, now: Time) -> bool {
        !faults.known_down(port, now)
            && match self.end(port) {
                LinkEnd::Node(_) => true,
                LinkEnd::Switch(next) => {
                    self.all_next_ports(next, dst).any(|port| self.leads_on(faults, port, dst, now))
                }
            }
    }

    /// Returns the ports by which a switch can send a packet on its way to `dst`, for any kind of network.
    fn all_next_ports(&self, switch: u32, dst: NodeId) -> impl Iterator<Item = u32> + '_ {
        let tables = self.built.as_ref();
        let computed = tables.is_none().then(|| self.next_ports(switch, dst).ports());
        let listed = tables.map(|tables| tables.next_ports(switch, dst)).unwrap_or_default();
        let host = tables.and_then(|tables| tables.port_to_host(switch, dst));
        computed.into_iter().flatten().chain(listed.iter().copied()).chain(host)
    }

    /// Returns the ports by which a switch can send a packet on its way to `dst`, for networks without tables. The
    /// switches of a fat tree are numbered by tier: edge and aggregation switches, each by pod, then core switches. The
    /// ports of each switch are numbered down first, then up.
    fn next_ports(&self, switch: u32, dst: NodeId) -> NextHops {
        let (only, among) = (NextHops::only, NextHops::among);
        match self.shape {
            TopologyShape::Star { .. } => only(dst),
            TopologyShape::LeafSpine { racks, hosts, spines } => {
                let rack = dst / hosts;
                if switch >= racks {
                    return only(racks * (hosts + spines) + (switch - racks) * racks + rack);
                }
                let first = switch * (hosts + spines);
                match rack == switch {
                    true => only(first + dst % hosts),
                    false => among(first + hosts..first + hosts + spines),
                }
            }
            TopologyShape::FatTree { half } => {
                let (tier, first) = (2 * half * half, switch * 2 * half);
                let (edge, pod) = (dst / half, dst / (half * half));
                let up = first + half..first + 2 * half;
                match switch / tier {
                    0 if edge == switch => only(first + dst % half),
                    1 if pod == (switch - tier) / half => only(first + edge % half),
                    0 | 1 => among(up),
                    _ => only(first + pod),
                }
            }
            TopologyShape::Drack(drack) => drack.next_ports(switch, dst),
            TopologyShape::Direct { links, .. } => only(links + dst),
            TopologyShape::Built { .. } => unreachable!("its ports are in tables"),
        }
    }

    /// Returns the number that selects among equal-cost paths at this switch. Each tier uses another part of the hash,
    /// so that flows spread at each tier.
    fn turn(&self, switch: u32, hash: u32) -> u32 {
        match self.shape {
            TopologyShape::FatTree { half } if switch >= 2 * half * half => hash / half,
            TopologyShape::Drack(drack) => drack.turn(switch, hash),
            TopologyShape::Built { .. } => self.tables().turn(switch, hash),
            _ => hash,
        }
    }

    /// Returns the switch to which a port belongs.
    #[inline]
    pub fn owner(&self, port: u32) -> u32 {
        match self.shape {
            TopologyShape::Star { .. } => 0,
            TopologyShape::LeafSpine { racks, hosts, spines } => {
                match port.checked_sub(racks * (hosts + spines)) {
                    Some(port) => racks + port / racks,
                    None => port / (hosts + spines),
                }
            }
            TopologyShape::FatTree { half } => port / (2 * half),
            TopologyShape::Drack(drack) => drack.owner(port),
            TopologyShape::Direct { links, .. } => self.sender(port, links),
            TopologyShape::Built { .. } => self.tables().owner(port),
        }
    }

    fn sender(&self, port: u32, links: u32) -> u32 {
        match (&self.graph, port.checked_sub(links)) {
            (Some(graph), None) => graph.from(port),
            (_, node) => node.unwrap_or_default(),
        }
    }

    /// Returns the device to which a port leads.
    #[inline]
    pub fn end(&self, port: u32) -> LinkEnd {
        match self.shape {
            TopologyShape::Star { .. } => LinkEnd::Node(port),
            TopologyShape::LeafSpine { racks, hosts, spines } => {
                let ups = racks * (hosts + spines);
                if port >= ups {
                    return LinkEnd::Switch((port - ups) % racks);
                }
                let (leaf, n) = (port / (hosts + spines), port % (hosts + spines));
                if n < hosts { LinkEnd::Node(leaf * hosts + n) } else { LinkEnd::Switch(racks + n - hosts) }
            }
            TopologyShape::FatTree { half } => {
                let (tier, k) = (2 * half * half, 2 * half);
                let (switch, n) = (port / k, port % k);
                let (pod, place) = (switch % tier / half, switch % half);
                match (switch / tier, n < half) {
                    (0, true) => LinkEnd::Node(switch * half + n),
                    (0, false) => LinkEnd::Switch(tier + pod * half + (n - half)),
                    (1, true) => LinkEnd::Switch(pod * half + n),
                    (1, false) => LinkEnd::Switch(2 * tier + place * half + (n - half)),
                    // Core switch g * half + i is linked to aggregation switch g of every pod.
                    _ => LinkEnd::Switch(tier + n * half + (switch - 2 * tier) / half),
                }
            }
            TopologyShape::Drack(drack) => drack.end(port),
            TopologyShape::Built { .. } => self.tables().end(port),
            TopologyShape::Direct { links, .. } => match (&self.graph, port.checked_sub(links)) {
                (Some(graph), None) => LinkEnd::Switch(graph.to(port)),
                (_, node) => LinkEnd::Node(node.unwrap_or_default()),
            },
        }
    }

    /// Returns the link of a port.
    #[inline]
    pub fn link(&self, port: u32) -> Link {
        match (self.end(port), self.pooled_shape()) {
            (LinkEnd::Switch(_), None) if let Some(cables) = &self.cables => cables.link(port),
            (LinkEnd::Node(_), Some(drack)) if drack.is_cxl(port) => self.cxl_link,
            (LinkEnd::Node(_), _) => self.host_link,
            (LinkEnd::Switch(_), _) => self.core_link,
        }
    }

    /// Returns the number of disjoint paths between two nodes. Packets with this many successive hashes share no link
    /// between switches.
    pub fn ways(&self, src: NodeId, dst: NodeId) -> u32 {
        match self.shape {
            _ if self.switch_of(src) == self.switch_of(dst) => 1,
            TopologyShape::Star { .. } | TopologyShape::Direct { .. } => 1,
            TopologyShape::LeafSpine { spines, .. } => spines,
            TopologyShape::FatTree { half } => half,
            TopologyShape::Built { .. } => self.tables().next_ports(self.switch_of(src), dst).len() as u32,
            TopologyShape::Drack(DrackNumbering { wiring }) => wiring.hosts_per_rack,
        }
    }

    /// Returns the propagation from one end of a link to the other.
    #[inline]
    pub fn propagation(&self, link: LinkId) -> Time {
        match link {
            LinkId::Host(link) => self.attachment_link(link).propagation,
            LinkId::Port(port) => self.link(port).propagation,
        }
    }

    /// Returns the switch ports on the path of a flow, in order.
    pub fn path(&self, src: NodeId, dst: NodeId, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = LinkEnd::Switch(self.switch_at(self.attachment(src, dst, hash)));
        std::iter::from_fn(move || {
            let LinkEnd::Switch(switch) = at else { return None };
            let port = self.route(switch, dst, hash);
            at = self.end(port);
            Some(port)
        })
    }
}

#[cfg(test)]
mod tests;
