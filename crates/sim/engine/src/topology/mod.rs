//! Wiring of nodes and switches, and routes of packets.
//!
//! Switch ports are numbered densely over all switches, so that a fabric can keep its state per port in an array.
//! Routes are computed, not looked up: a packet goes up to a switch that is above both ends, chosen by the hash of
//! its flow (ECMP, RFC 2992), and down the only path there is. All packets of a flow take the same path.
//!
//! On a leaf-spine network of r leaves with h hosts each and s spines, the ports of leaf l are those from l (h + s) on,
//! to its hosts and then to the spines; after those of all leaves, the ports of spine i are the r from i r on, to the
//! leaves. A packet with hash n goes by spine n mod s. Its hash is the finalizer of MurmurHash3 of the name of its
//! stream or transfer (with `cxl`: of the numbers of its ends, `src << 16 | dst`); where packets of a node take all
//! paths in turn, it is the packet's number among all that the node has sent, from 1.

mod attachment;
mod built;
mod cables;
mod drack;
mod draw;
mod route;

use self::built::Built;
use self::cables::Cables;
use self::drack::Drack;
pub use self::draw::MOST_NODES as MOST_DRAWN;
use self::route::Route;
use crate::events::LinkId;
use crate::faults::FaultSchedule;
use crate::inside::Inside;
use crate::link::{Departure, Pace};
pub use crate::link::{End, Link};
use std::sync::Arc;
use unrack_rack::graph::{Graph, Towards};
use unrack_rack::{Switches, Wiring};
use unrack_units::{Rate, Time};
use unrack_workload::{NodeId, Racks};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// All nodes around one switch.
    Star { nodes: u32 },
    /// Racks of hosts around a leaf each; every leaf is linked to every spine.
    LeafSpine { racks: u32, hosts: u32, spines: u32 },
    /// Three tiers of switches with `2 * half` ports each (Al-Fares et al., SIGCOMM 2008).
    FatTree { half: u32 },
    /// Racks that pool their NICs.
    Drack(Drack),
    /// Nodes that forward for each other: each is a switch with as many links as it has neighbours.
    Direct { nodes: u32, links: u32 },
    /// Switches whose routes are in tables.
    Built { nodes: u32 },
}

/// A network of switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    shape: Shape,
    host_link: Link,
    core_link: Link,
    /// CXL ports of hosts; in networks without, equal to `host_link`.
    cxl_link: Link,
    faults: Option<Arc<FaultSchedule>>,
    /// Tables of [`Shape::Built`].
    built: Option<Arc<Built>>,
    /// Links between nodes, in a network without switches.
    graph: Option<Arc<Graph>>,
    /// Properties of the links of such a network, unless they are all equal to `core_link`.
    cables: Option<Arc<Cables>>,
    /// Insides of the nodes, if they take time.
    hosts: Option<Arc<Inside>>,
}

impl Topology {
    fn new(shape: Shape, host_link: Link, core_link: Link) -> Topology {
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
        Topology::new(Shape::Star { nodes }, link, link)
    }

    /// Creates a network of `racks` leaves with `hosts` nodes each. `core_link` is that of a leaf to a spine.
    pub fn leaf_spine(racks: u32, hosts: u32, spines: u32, host_link: Link, core_link: Link) -> Topology {
        Topology::new(Shape::LeafSpine { racks, hosts, spines }, host_link, core_link)
    }

    /// Creates a fat tree of switches with `k` ports, an even number; it has k^3 / 4 nodes.
    pub fn fat_tree(k: u32, host_link: Link, core_link: Link) -> Topology {
        Topology::new(Shape::FatTree { half: k / 2 }, host_link, core_link)
    }

    /// Creates a network of switches that are connected as another crate says.
    pub fn built(switches: &Switches, host_link: Link, core_link: Link) -> Topology {
        let topology = Topology::new(Shape::Built { nodes: switches.nodes() }, host_link, core_link);
        Topology { built: Some(Arc::new(Built::new(switches))), ..topology }
    }

    /// Returns the tables of a network that has some.
    fn tables(&self) -> &Built {
        self.built.as_ref().expect("a built network has tables")
    }

    /// Creates a network of racks that pool their NICs. `nic_link` is that of a NIC to its aggregation switch.
    pub fn drack(wiring: Wiring, nic_link: Link, core_link: Link, cxl_link: Link) -> Topology {
        Topology { cxl_link, ..Topology::new(Shape::Drack(Drack { wiring }), nic_link, core_link) }
    }

    /// Creates a network of nodes that are linked to each other. A node reaches its own switch at the rate of all its
    /// links together.
    ///
    /// Ports are the links of the graph and, after those, one of each switch to its node.
    pub fn direct(graph: Arc<Graph>, link: Link) -> Topology {
        let (nodes, links) = (graph.nodes(), graph.links());
        let degree = (0..nodes).map(|node| graph.links_of(node).len() as u64).max().unwrap_or(1);
        let all = Rate::from_bps(link.pace.rate().as_bps() * degree);
        let inside = Link { pace: Pace::new(all), propagation: Time::ZERO };
        let topology = Topology::new(Shape::Direct { nodes, links }, inside, link);
        Topology { graph: Some(graph), ..topology }
    }

    /// Creates a network like that of [`Topology::direct`] with different links, by number of their cable
    /// ([`Graph::cable`]). Each node reaches its own switch at the rate of the node with most.
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
        let topology = Topology::new(Shape::Direct { nodes, links }, inside, best);
        Topology { graph: Some(graph), cables: Some(Arc::new(cables)), ..topology }
    }

    /// Returns the best rate and propagation of any link on the shortest paths between two nodes that forward for each
    /// other. A bound.
    pub fn best_link(&self, src: NodeId, dst: NodeId) -> Link {
        self.cables.as_ref().map_or(self.core_link, |cables| cables.best(src, dst))
    }

    /// Returns, for two such nodes whose links are not all alike, the least propagation from one to the other, and
    /// the lower of the rates at which one can send and the other receive.
    pub fn nearest(&self, src: NodeId, dst: NodeId) -> Option<(Time, Pace)> {
        let cables = self.cables.as_ref()?;
        let slower = [src, dst].map(|node| cables.all_of(node)).into_iter().min_by_key(|pace| pace.rate());
        Some((cables.nearest(src, dst), slower.expect("two nodes")))
    }

    /// Returns the links between nodes, in a network without switches.
    #[inline]
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        self.graph.as_ref()
    }

    /// Adds faults of links.
    pub fn with_faults(self, faults: FaultSchedule) -> Topology {
        Topology { faults: Some(Arc::new(faults)), ..self }
    }

    /// Removes the faults.
    pub fn without_faults(self) -> Topology {
        Topology { faults: None, ..self }
    }

    /// Adds insides of nodes, in which packets take time.
    pub fn with_hosts(self, hosts: Inside) -> Topology {
        Topology { hosts: Some(Arc::new(hosts)), ..self }
    }

    /// Returns the insides of nodes, if they take time.
    #[inline]
    pub fn hosts(&self) -> Option<&Inside> {
        self.hosts.as_deref()
    }

    /// Returns the faults, if there are any.
    #[inline]
    pub fn faults(&self) -> Option<&Arc<FaultSchedule>> {
        self.faults.as_ref()
    }

    /// Returns whether a packet that crosses a link at these times is lost; to be asked once for each packet and
    /// link. A lost packet has taken its time on the link all the same.
    #[inline]
    pub fn loses(&self, link: LinkId, crossing: Departure) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.loses(self, link, crossing))
    }

    /// Returns the number of nodes.
    #[inline]
    pub fn nodes(&self) -> u32 {
        match self.shape {
            Shape::Star { nodes } => nodes,
            Shape::LeafSpine { racks, hosts, .. } => racks * hosts,
            Shape::FatTree { half } => 2 * half * half * half,
            Shape::Drack(Drack { wiring }) => wiring.nics(),
            Shape::Direct { nodes, .. } | Shape::Built { nodes } => nodes,
        }
    }

    /// Returns the nodes by the switch that they are at.
    pub fn racks(&self) -> Racks {
        match self.shape {
            Shape::Star { nodes } => Racks { racks: 1, hosts: nodes },
            Shape::LeafSpine { racks, hosts, .. } => Racks { racks, hosts },
            Shape::FatTree { half } => Racks { racks: 2 * half * half, hosts: half },
            Shape::Drack(Drack { wiring }) => Racks { racks: wiring.racks, hosts: wiring.hosts_per_rack },
            Shape::Direct { nodes, .. } => Racks { racks: 1, hosts: nodes },
            Shape::Built { .. } => self.tables().racks,
        }
    }

    /// Deals the switches to `number` parts, each with a share of the racks (in a fat tree: of the pods), and returns
    /// the part of each switch. `None` if there are fewer racks or pods, or no switches above them.
    pub fn parts(&self, number: u32) -> Option<Arc<[u32]>> {
        let (groups, of_group): (u32, Box<dyn Fn(u32) -> Option<u32>>) = match self.shape {
            Shape::Star { .. } | Shape::Drack(_) | Shape::Direct { .. } => return None,
            Shape::Built { .. } => {
                let racks = self.tables().racks.racks;
                (racks, Box::new(move |switch| (switch < racks).then_some(switch)))
            }
            Shape::LeafSpine { racks, .. } => {
                (racks, Box::new(move |switch| (switch < racks).then_some(switch)))
            }
            Shape::FatTree { half } => {
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

    /// Returns whether all nodes are around one switch.
    #[inline]
    pub fn is_star(&self) -> bool {
        matches!(self.shape, Shape::Star { .. })
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> u32 {
        match self.shape {
            Shape::Star { .. } => 1,
            Shape::LeafSpine { racks, spines, .. } => racks + spines,
            Shape::FatTree { half } => 5 * half * half,
            Shape::Drack(drack) => drack.switches(),
            Shape::Direct { nodes, .. } => nodes,
            Shape::Built { .. } => self.tables().switches(),
        }
    }

    /// Returns whether links between nodes that forward for each other are not all alike.
    pub fn is_uneven(&self) -> bool {
        self.cables.is_some()
    }

    /// Returns the number of ports of all switches.
    pub fn ports(&self) -> u32 {
        match self.shape {
            Shape::Star { nodes } => nodes,
            Shape::LeafSpine { racks, hosts, spines } => racks * (hosts + spines) + spines * racks,
            Shape::FatTree { half } => 5 * half * half * 2 * half,
            Shape::Drack(drack) => drack.ports(),
            Shape::Direct { nodes, links } => links + nodes,
            Shape::Built { .. } => self.tables().ports(),
        }
    }

    /// Returns the link between each node and its switch; with pooled NICs, that of each NIC.
    #[inline]
    pub fn host_link(&self) -> Link {
        self.host_link
    }

    /// Returns the link between switches; on a star, that of nodes. Where links are not all alike, it has the best
    /// rate and propagation of any.
    #[inline]
    pub fn core_link(&self) -> Link {
        self.core_link
    }

    /// Returns the switch of a node; where NICs are pooled, its CXL switch.
    #[inline]
    pub fn switch_of(&self, node: NodeId) -> u32 {
        match self.shape {
            Shape::Drack(drack) => drack.rack_of(node),
            Shape::Star { .. } => 0,
            Shape::LeafSpine { hosts, .. } => node / hosts,
            Shape::FatTree { half } => node / half,
            Shape::Direct { .. } => node,
            Shape::Built { .. } => node / self.tables().racks.hosts,
        }
    }

    /// Returns the port by which `switch` sends a packet of the flow with this hash on its way to `dst`, when all
    /// links are up.
    #[inline]
    pub fn route(&self, switch: u32, dst: NodeId, hash: u32) -> u32 {
        match (self.shape, &self.graph) {
            (Shape::Direct { links, .. }, Some(graph)) => match switch == dst {
                true => links + dst,
                false => Towards::new(graph, dst).by_hash(switch, hash),
            },
            (Shape::Built { .. }, _) => self.tables().route(switch, dst, hash),
            _ => {
                let ports = self.next_ports(switch, dst);
                ports.nth(self.turn(switch, hash) % ports.len())
            }
        }
    }

    /// Returns the port as [`Topology::route`] does, but avoids links that are known to be down at `now`. If there is
    /// no way around them, it returns the same port.
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

    /// Returns a port that avoids links known to be down. A flow keeps its path while it is up; others share what is
    /// left.
    fn around(&self, faults: &FaultSchedule, switch: u32, dst: NodeId, hash: u32, now: Time) -> Option<u32> {
        if let (Some(graph), Shape::Direct { .. }) = (&self.graph, self.shape)
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

    /// Returns whether a path from this port to `dst` is known to have no link that is down.
    fn leads_on(&self, faults: &FaultSchedule, port: u32, dst: NodeId, now: Time) -> bool {
        !faults.known_down(port, now)
            && match self.end(port) {
                End::Node(_) => true,
                End::Switch(next) => {
                    self.all_next_ports(next, dst).any(|port| self.leads_on(faults, port, dst, now))
                }
            }
    }

    /// Returns the ports by which a switch can send a packet on its way to `dst`, of any network.
    fn all_next_ports(&self, switch: u32, dst: NodeId) -> impl Iterator<Item = u32> + '_ {
        let tables = self.built.as_ref();
        let computed = tables.is_none().then(|| self.next_ports(switch, dst).ports());
        let listed = tables.map(|tables| tables.next_ports(switch, dst)).unwrap_or_default();
        let host = tables.and_then(|tables| tables.port_to_host(switch, dst));
        computed.into_iter().flatten().chain(listed.iter().copied()).chain(host)
    }

    /// Returns the ports by which a switch can send a packet on its way to `dst`; not for networks with tables.
    /// Switches of a fat tree are numbered
    /// edge, aggregation (both by pod), core; ports of each switch down, then up.
    fn next_ports(&self, switch: u32, dst: NodeId) -> Route {
        let (only, among) = (Route::only, Route::among);
        match self.shape {
            Shape::Star { .. } => only(dst),
            Shape::LeafSpine { racks, hosts, spines } => {
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
            Shape::FatTree { half } => {
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
            Shape::Drack(drack) => drack.next_ports(switch, dst),
            Shape::Direct { links, .. } => only(links + dst),
            Shape::Built { .. } => unreachable!("its ports are in tables"),
        }
    }

    /// Returns the number that decides between equal-cost paths at this switch: another part of the hash at each tier.
    fn turn(&self, switch: u32, hash: u32) -> u32 {
        match self.shape {
            Shape::FatTree { half } if switch >= 2 * half * half => hash / half,
            Shape::Drack(drack) => drack.turn(switch, hash),
            Shape::Built { .. } => self.tables().turn(switch, hash),
            _ => hash,
        }
    }

    /// Returns the switch that a port belongs to.
    #[inline]
    pub fn owner(&self, port: u32) -> u32 {
        match self.shape {
            Shape::Star { .. } => 0,
            Shape::LeafSpine { racks, hosts, spines } => match port.checked_sub(racks * (hosts + spines)) {
                Some(port) => racks + port / racks,
                None => port / (hosts + spines),
            },
            Shape::FatTree { half } => port / (2 * half),
            Shape::Drack(drack) => drack.owner(port),
            Shape::Direct { links, .. } => self.sender(port, links),
            Shape::Built { .. } => self.tables().owner(port),
        }
    }

    fn sender(&self, port: u32, links: u32) -> u32 {
        match (&self.graph, port.checked_sub(links)) {
            (Some(graph), None) => graph.from(port),
            (_, node) => node.unwrap_or_default(),
        }
    }

    /// Returns the device that a port leads to.
    #[inline]
    pub fn end(&self, port: u32) -> End {
        match self.shape {
            Shape::Star { .. } => End::Node(port),
            Shape::LeafSpine { racks, hosts, spines } => {
                let ups = racks * (hosts + spines);
                if port >= ups {
                    return End::Switch((port - ups) % racks);
                }
                let (leaf, n) = (port / (hosts + spines), port % (hosts + spines));
                if n < hosts { End::Node(leaf * hosts + n) } else { End::Switch(racks + n - hosts) }
            }
            Shape::FatTree { half } => {
                let (tier, k) = (2 * half * half, 2 * half);
                let (switch, n) = (port / k, port % k);
                let (pod, place) = (switch % tier / half, switch % half);
                match (switch / tier, n < half) {
                    (0, true) => End::Node(switch * half + n),
                    (0, false) => End::Switch(tier + pod * half + (n - half)),
                    (1, true) => End::Switch(pod * half + n),
                    (1, false) => End::Switch(2 * tier + place * half + (n - half)),
                    // Core switch g * half + i is above aggregation switch g of every pod.
                    _ => End::Switch(tier + n * half + (switch - 2 * tier) / half),
                }
            }
            Shape::Drack(drack) => drack.end(port),
            Shape::Built { .. } => self.tables().end(port),
            Shape::Direct { links, .. } => match (&self.graph, port.checked_sub(links)) {
                (Some(graph), None) => End::Switch(graph.to(port)),
                (_, node) => End::Node(node.unwrap_or_default()),
            },
        }
    }

    /// Returns the link of a port.
    #[inline]
    pub fn link(&self, port: u32) -> Link {
        match (self.end(port), self.pooled_shape()) {
            (End::Switch(_), None) if let Some(cables) = &self.cables => cables.link(port),
            (End::Node(_), Some(drack)) if drack.is_cxl(port) => self.cxl_link,
            (End::Node(_), _) => self.host_link,
            (End::Switch(_), _) => self.core_link,
        }
    }

    /// Returns the number of disjoint paths between two nodes: packets with this many successive hashes share no link
    /// between switches.
    pub fn ways(&self, src: NodeId, dst: NodeId) -> u32 {
        match self.shape {
            _ if self.switch_of(src) == self.switch_of(dst) => 1,
            Shape::Star { .. } | Shape::Direct { .. } => 1,
            Shape::LeafSpine { spines, .. } => spines,
            Shape::FatTree { half } => half,
            Shape::Built { .. } => self.tables().next_ports(self.switch_of(src), dst).len() as u32,
            Shape::Drack(Drack { wiring }) => wiring.hosts_per_rack,
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
        let mut at = End::Switch(self.switch_at(self.attachment(src, dst, hash)));
        std::iter::from_fn(move || {
            let End::Switch(switch) = at else { return None };
            let port = self.route(switch, dst, hash);
            at = self.end(port);
            Some(port)
        })
    }
}

#[cfg(test)]
mod tests;
