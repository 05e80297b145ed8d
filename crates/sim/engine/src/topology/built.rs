//! Switches whose cables another crate describes, with routes in tables.
//!
//! A packet takes a shortest path. If several ports of a switch lead on, the hash of the flow selects one, and each
//! tier uses another part of the hash: a switch divides the hash by the product of the numbers of ports from which the
//! tiers below it choose. For leaf-spine networks and fat trees, the tables give the same routes as the formulas of
//! those topologies; tests check this. The formulas remain in use because a table has an entry for each pair of a
//! switch and a rack: 34 GB for 65,536 racks of one host under 64 spines.

use crate::link::LinkEnd;
use std::collections::{BTreeMap, VecDeque};
use unrack_rack::Switches;
use unrack_workload::{BladeRacks, NodeId};

/// Numbering and routes of a network of described switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuiltTopology {
    pub racks: BladeRacks,
    /// First port of each switch, followed by the number of all ports.
    first: Vec<u32>,
    /// Switch to which each port belongs.
    owner: Vec<u32>,
    /// Switch to which each port leads. Ports to hosts have an entry without meaning, because [`Built::end`] computes
    /// their host.
    to: Vec<u32>,
    /// Ports from each switch to each rack, as ranges of `ports`: start and length, by switch and then by rack.
    ranges: Vec<(u32, u32)>,
    ports: Vec<u32>,
    /// Number by which each switch divides the hash of a flow.
    divisor: Vec<u32>,
}

impl BuiltTopology {
    /// Creates the tables of switches that were already checked.
    pub(super) fn new(switches: &Switches) -> BuiltTopology {
        let racks = BladeRacks { racks: switches.racks, hosts: switches.hosts_per_rack };
        let number = switches.switches as usize;
        let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); number];
        for (a, b) in &switches.cables {
            neighbours[*a as usize].push(*b);
            neighbours[*b as usize].push(*a);
        }
        let hosts = |switch: usize| if switch < racks.racks as usize { racks.hosts } else { 0 };
        let (mut first, mut owner, mut to) = (vec![0], Vec::new(), Vec::new());
        for (switch, others) in neighbours.iter().enumerate() {
            to.resize(to.len() + hosts(switch) as usize, u32::MAX);
            to.extend(others);
            owner.resize(to.len(), switch as u32);
            first.push(to.len() as u32);
        }
        let mut built = BuiltTopology {
            racks,
            first,
            owner,
            to,
            ranges: Vec::new(),
            ports: Vec::new(),
            divisor: Vec::new(),
        };
        built.find_routes(&neighbours);
        built.divisor = built.divisors(&neighbours);
        built
    }

    /// Fills the routing tables: for each switch and each rack, the ports to neighbours that are nearer to the rack.
    fn find_routes(&mut self, neighbours: &[Vec<u32>]) {
        let distances: Vec<Vec<u32>> =
            (0..self.racks.racks).map(|rack| distances(neighbours, &[rack])).collect();
        for switch in 0..neighbours.len() {
            // Racks that are reached through the same ports share a range.
            let mut known: BTreeMap<Vec<u32>, (u32, u32)> = BTreeMap::new();
            for distance in &distances {
                let here = distance[switch];
                let nearer =
                    |port: &u32| distance.get(self.to[*port as usize] as usize).is_some_and(|it| *it < here);
                let ports: Vec<u32> = (self.first[switch]..self.first[switch + 1]).filter(nearer).collect();
                let range = known.entry(ports).or_insert_with_key(|ports| {
                    let start = self.ports.len();
                    self.ports.extend(ports);
                    let start = u32::try_from(start).expect("checked switches have fewer choices");
                    (start, ports.len() as u32)
                });
                self.ranges.push(*range);
            }
        }
    }

    /// Returns, for each switch, the product of the maximum numbers of choices at all tiers below it.
    fn divisors(&self, neighbours: &[Vec<u32>]) -> Vec<u32> {
        let leaves: Vec<u32> = (0..self.racks.racks).collect();
        let tier = distances(neighbours, &leaves);
        let tiers = tier.iter().copied().filter(|it| *it != u32::MAX).max().unwrap_or(0) as usize + 1;
        let mut widest = vec![1u32; tiers];
        for (switch, tier) in tier.iter().enumerate().filter(|(_, tier)| **tier != u32::MAX) {
            let widths = (0..self.racks.racks).map(|rack| self.range(switch as u32, rack).1);
            widest[*tier as usize] = widths.fold(widest[*tier as usize], u32::max);
        }
        let below = |tier: u32| {
            widest[..tier.min(tiers as u32) as usize].iter().fold(1u32, |a, b| a.saturating_mul(*b))
        };
        tier.iter().map(|tier| if *tier == u32::MAX { 1 } else { below(*tier) }).collect()
    }

    fn range(&self, switch: u32, rack: u32) -> (u32, u32) {
        self.ranges[switch as usize * self.racks.racks as usize + rack as usize]
    }

    /// Returns the ports by which a switch can send a packet on its way to a host of another switch.
    pub(super) fn next_ports(&self, switch: u32, dst: NodeId) -> &[u32] {
        let (start, length) = self.range(switch, dst / self.racks.hosts);
        &self.ports[start as usize..(start + length) as usize]
    }

    /// Returns the port by which a switch sends a packet on its way to a host. `hash` is the hash of the flow.
    pub(super) fn route(&self, switch: u32, dst: NodeId, hash: u32) -> u32 {
        if let Some(port) = self.port_to_host(switch, dst) {
            return port;
        }
        let ports = self.next_ports(switch, dst);
        ports[self.turn(switch, hash) as usize % ports.len()]
    }

    /// Returns the port to a host, if the host is connected to this switch.
    pub(super) fn port_to_host(&self, switch: u32, dst: NodeId) -> Option<u32> {
        (dst / self.racks.hosts == switch).then(|| self.first[switch as usize] + dst % self.racks.hosts)
    }

    /// Returns the number that selects among equal-cost paths at a switch.
    pub(super) fn turn(&self, switch: u32, hash: u32) -> u32 {
        hash / self.divisor[switch as usize]
    }

    /// Returns the number of switches.
    pub(super) fn switches(&self) -> u32 {
        self.divisor.len() as u32
    }

    /// Returns the number of ports.
    pub(super) fn ports(&self) -> u32 {
        self.owner.len() as u32
    }

    /// Returns the switch to which a port belongs.
    pub(super) fn owner(&self, port: u32) -> u32 {
        self.owner[port as usize]
    }

    /// Returns the device to which a port leads.
    pub(super) fn end(&self, port: u32) -> LinkEnd {
        let switch = self.owner(port);
        match port - self.first[switch as usize] {
            host if switch < self.racks.racks && host < self.racks.hosts => {
                LinkEnd::Node(switch * self.racks.hosts + host)
            }
            _ => LinkEnd::Switch(self.to[port as usize]),
        }
    }
}

/// Returns the number of cables from each switch to the nearest of the switches `from`; `u32::MAX` if no path exists.
fn distances(neighbours: &[Vec<u32>], from: &[u32]) -> Vec<u32> {
    let mut distance = vec![u32::MAX; neighbours.len()];
    let mut queue: VecDeque<u32> = from.iter().copied().collect();
    from.iter().for_each(|switch| distance[*switch as usize] = 0);
    while let Some(switch) = queue.pop_front() {
        for next in &neighbours[switch as usize] {
            if distance[*next as usize] == u32::MAX {
                distance[*next as usize] = distance[switch as usize] + 1;
                queue.push_back(*next);
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::super::Topology;
    use super::super::tests::link;
    use proptest::prelude::*;
    use unrack_rack::Switches;
    use unrack_units::Time;

    fn leaf_spine(racks: u32, hosts: u32, spines: u32) -> [Topology; 2] {
        let cables =
            (0..racks).flat_map(|leaf| (0..spines).map(move |spine| (leaf, racks + spine))).collect();
        let switches = Switches { racks, hosts_per_rack: hosts, switches: racks + spines, cables };
        [
            Topology::leaf_spine(racks, hosts, spines, link(100), link(400)),
            Topology::built(&switches, link(100), link(400)),
        ]
    }

    fn fat_tree(half: u32) -> [Topology; 2] {
        let (tier, pods) = (2 * half * half, 2 * half);
        let mut cables = Vec::new();
        for pod in 0..pods {
            let edges = (0..half).flat_map(|edge| (0..half).map(move |agg| (edge, agg)));
            cables.extend(edges.map(|(edge, agg)| (pod * half + edge, tier + pod * half + agg)));
        }
        for pod in 0..pods {
            let ups = (0..half).flat_map(|agg| (0..half).map(move |core| (agg, core)));
            cables.extend(ups.map(|(agg, core)| (tier + pod * half + agg, 2 * tier + agg * half + core)));
        }
        let switches = Switches { racks: tier, hosts_per_rack: half, switches: 5 * half * half, cables };
        [Topology::fat_tree(2 * half, link(100), link(400)), Topology::built(&switches, link(100), link(400))]
    }

    /// Compares all properties that fabrics request from a topology.
    fn same([one, other]: &[Topology; 2], asked: &[(u32, u32, u32)]) {
        assert_eq!(
            (one.nodes(), one.switches(), one.ports()),
            (other.nodes(), other.switches(), other.ports())
        );
        for port in 0..one.ports() {
            assert_eq!(
                (one.owner(port), one.end(port), one.link(port)),
                (other.owner(port), other.end(port), other.link(port))
            );
        }
        for (a, b, hash) in asked {
            let (src, dst) = (a % one.nodes(), b % one.nodes());
            assert_eq!(
                (one.switch_of(src), one.ways(src, dst)),
                (other.switch_of(src), other.ways(src, dst))
            );
            let path = |it: &Topology| it.path(src, dst, *hash).collect::<Vec<_>>();
            assert_eq!(path(one), path(other), "{src} to {dst}, hash {hash}");
            let now = Time::ZERO;
            assert_eq!(
                one.route_at(one.switch_of(src), dst, *hash, now),
                other.route_at(one.switch_of(src), dst, *hash, now)
            );
        }
    }

    proptest! {
        #[test]
        fn a_built_leaf_spine_is_the_one_of_arithmetic(
            racks in 2u32..8, hosts in 1u32..6, spines in 1u32..6,
            asked in prop::collection::vec((0u32..1000, 0u32..1000, 0u32..u32::MAX), 20),
        ) {
            same(&leaf_spine(racks, hosts, spines), &asked);
        }

        #[test]
        fn a_built_fat_tree_is_the_one_of_arithmetic(
            half in 1u32..5,
            asked in prop::collection::vec((0u32..1000, 0u32..1000, 0u32..u32::MAX), 40),
        ) {
            same(&fat_tree(half), &asked);
        }
    }
}
