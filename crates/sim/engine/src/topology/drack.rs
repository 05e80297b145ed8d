//! Network of racks with pooled NICs: numbers of switches and ports, and the paths between them.
//!
//! A host has two kinds of links. Its CXL port leads to the CXL switch of its rack, and from there to the other hosts
//! of the rack. The NICs of the rack, which all its hosts share, lead to the aggregation switches. NIC i has the number
//! of host i. Switches are numbered in this order: CXL switches by rack, aggregation switches, core switches. Ports are
//! numbered in the order of these switches: each CXL switch has ports to its hosts; each aggregation switch to its
//! NICs, then to the core switches; each core switch to the aggregation switches.
//!
//! At the sender, the hash of a flow selects one of the NICs with a shortest path. A packet to a rack arrives at a NIC
//! that the network selects, and every NIC reaches all hosts of its rack. Suppose that all racks have the same number
//! of NICs at each switch, and that n NICs lead to a rack. Then flows with the hashes 0 to n - 1 leave by different
//! NICs and share no link between NICs.

use super::route::NextHops;
use crate::link::LinkEnd;
use std::ops::Range;
use unrack_rack::Wiring;
use unrack_workload::NodeId;

/// Numbering of switches and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DrackNumbering {
    pub wiring: Wiring,
}

impl DrackNumbering {
    fn nodes(&self) -> u32 {
        self.wiring.nics()
    }

    /// Returns the number of ports of an aggregation switch.
    fn radix(&self) -> u32 {
        self.wiring.hosts_per_rack + self.wiring.cores
    }

    /// Returns the first port of a core switch.
    fn first_of_cores(&self) -> u32 {
        self.nodes() + self.wiring.racks * self.radix()
    }

    /// Returns the number of switches.
    pub(super) fn switches(&self) -> u32 {
        2 * self.wiring.racks + self.wiring.cores
    }

    /// Returns the number of ports.
    pub(super) fn ports(&self) -> u32 {
        self.first_of_cores() + self.wiring.cores * self.wiring.racks
    }

    /// Returns the CXL switch of a host.
    pub(super) fn rack_of(&self, node: NodeId) -> u32 {
        self.wiring.rack_of(node)
    }

    /// Returns the links by which a host can send to another (see [`super::Topology::attachment`]).
    pub(super) fn attachments(&self, src: NodeId, dst: NodeId) -> NextHops {
        let (from, to) = (self.rack_of(src), self.rack_of(dst));
        if from == to {
            return NextHops::only(self.nodes() + src);
        }
        let first = from * self.wiring.hosts_per_rack;
        let (a, b) = self.wiring.direct(from, to);
        match a.len() + b.len() {
            0 => NextHops::among(first..first + self.wiring.hosts_per_rack),
            _ => NextHops { first: shifted(a, first), then: shifted(b, first) },
        }
    }

    /// Returns the switch to which a link of a host leads.
    pub(super) fn switch_at(&self, attachment: u32) -> u32 {
        match attachment.checked_sub(self.nodes()) {
            Some(node) => self.rack_of(node),
            None => self.wiring.racks + self.wiring.switch_of(attachment),
        }
    }

    /// Returns the ports by which a switch can forward a packet to `dst`.
    pub(super) fn next_ports(&self, switch: u32, dst: NodeId) -> NextHops {
        let (m, rack) = (self.wiring.racks, self.rack_of(dst));
        let Some(agg) = switch.checked_sub(m) else { return NextHops::only(dst) };
        let Some(core) = agg.checked_sub(m) else {
            let first = self.nodes() + agg * self.radix();
            let places = self.wiring.places(agg, rack);
            return NextHops::among(match places.is_empty() {
                false => shifted(places, first),
                true => first + self.wiring.hosts_per_rack..first + self.radix(),
            });
        };
        let first = self.first_of_cores() + core * m;
        let (a, b) = self.wiring.reached(rack);
        NextHops { first: shifted(a, first), then: shifted(b, first) }
    }

    /// Returns the number that selects among equal-cost paths at a switch.
    pub(super) fn turn(&self, switch: u32, hash: u32) -> u32 {
        let (m, n) = (self.wiring.racks, self.wiring.hosts_per_rack);
        match switch.checked_sub(m) {
            // The NICs of one rack at a switch are every m-th. Flows that left by the k-th of them arrive at the k-th
            // of them.
            Some(agg) if agg < m && n >= m => hash % n / m,
            Some(agg) if agg < m => hash / n + agg,
            // Flows of one rack arrive at different switches. Adding the number of the switch makes them leave to
            // different core switches.
            _ => hash,
        }
    }

    /// Returns the switch to which a port belongs.
    pub(super) fn owner(&self, port: u32) -> u32 {
        let m = self.wiring.racks;
        if port < self.nodes() {
            return self.rack_of(port);
        }
        match port.checked_sub(self.first_of_cores()) {
            Some(port) => 2 * m + port / m,
            None => m + (port - self.nodes()) / self.radix(),
        }
    }

    /// Returns the device to which a port leads.
    pub(super) fn end(&self, port: u32) -> LinkEnd {
        let m = self.wiring.racks;
        if port < self.nodes() {
            return LinkEnd::Node(port);
        }
        if let Some(port) = port.checked_sub(self.first_of_cores()) {
            return LinkEnd::Switch(m + port % m);
        }
        let (agg, n) = ((port - self.nodes()) / self.radix(), (port - self.nodes()) % self.radix());
        match n.checked_sub(self.wiring.hosts_per_rack) {
            Some(core) => LinkEnd::Switch(2 * m + core),
            None => LinkEnd::Node(self.wiring.nic_at(agg, n)),
        }
    }

    /// Returns the link (see [`super::Topology::attachment`]) at the other end of a port: the link of a NIC, or of the
    /// CXL port of a host.
    pub(super) fn attachment_of(&self, port: u32) -> Option<u32> {
        match self.end(port) {
            LinkEnd::Node(node) if port < self.nodes() => Some(self.nodes() + node),
            LinkEnd::Node(nic) => Some(nic),
            LinkEnd::Switch(_) => None,
        }
    }

    /// Returns whether a port belongs to a CXL switch.
    pub(super) fn is_cxl(&self, port: u32) -> bool {
        port < self.nodes()
    }
}

fn shifted(range: Range<u32>, by: u32) -> Range<u32> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::super::tests::link;
    use super::super::{LinkEnd, Topology};
    use crate::events::LinkId;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use unrack_rack::Wiring;

    fn drack(racks: u32, hosts_per_rack: u32) -> Topology {
        let cores = Wiring::default_cores(racks, hosts_per_rack);
        Topology::drack(Wiring { racks, hosts_per_rack, cores }, link(100), link(100), link(500))
    }

    proptest! {
        #[test]
        fn every_host_is_reached(m in 1u32..20, n in 1u32..20, src: u32, dst: u32, hash: u32) {
            let topology = drack(m, n);
            let (src, dst) = (src % topology.nodes(), dst % topology.nodes());
            let path: Vec<u32> = topology.path(src, dst, hash).take(10).collect();
            prop_assert!(path.iter().all(|port| *port < topology.ports()));
            let LinkEnd::Node(last) = topology.end(*path.last().unwrap()) else { panic!("{path:?}") };
            // A path through the CXL switch ends at the host itself; any other path ends at a NIC of its rack.
            let (from, to) = (src / n, dst / n);
            match path.len() {
                1 if from == to => prop_assert_eq!(last, dst),
                1 | 3 => prop_assert!(from != to && last / n == to),
                other => prop_assert!(false, "{} ports", other),
            }
            if m > n && m % n == 0 && from != to {
                let same_pod = from % (m / n) == to % (m / n);
                prop_assert_eq!(path.len(), if same_pod { 1 } else { 3 });
            }
            prop_assert_eq!(topology.path(dst, src, hash).count(), path.len());
        }

        #[test]
        fn every_cable_has_two_ends(m in 1u32..20, n in 1u32..20) {
            let topology = drack(m, n);
            let (mut at_nodes, mut cables) = (BTreeSet::new(), BTreeMap::new());
            for port in 0..topology.ports() {
                let from = topology.owner(port);
                match (topology.end(port), topology.attachment_of(port)) {
                    (LinkEnd::Node(_), Some(attachment)) => {
                        prop_assert_eq!(topology.switch_at(attachment), from);
                        prop_assert!(at_nodes.insert(attachment));
                    }
                    (LinkEnd::Switch(to), None) => {
                        prop_assert!(to < topology.switches() && to != from);
                        *cables.entry((from.min(to), from.max(to))).or_insert(0) += if from < to { 1 } else { 100 };
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(at_nodes.len() as u32, topology.attachments());
            prop_assert!(cables.values().all(|n| *n == 101), "{cables:?}");
        }

        /// Checks that paths are disjoint: "there are n uplinks for every pair of racks without uplink
        /// oversubscription".
        #[test]
        fn as_many_flows_as_nics_share_no_link(k in 1u32..5, m in 2u32..9, src: u32, dst: u32) {
            // Either every switch has the same number of NICs of each rack, or the racks form pods.
            for (m, n) in [(m, m * k), (m * k, m)] {
                let topology = drack(m, n);
                let (src, dst) = (src % topology.nodes(), dst % topology.nodes());
                prop_assume!(src / n != dst / n);
                let mut links = BTreeSet::new();
                for hash in 0..n {
                    prop_assert!(links.insert(LinkId::Host(topology.attachment(src, dst, hash))));
                    let free = topology.path(src, dst, hash).all(|port| links.insert(LinkId::Port(port)));
                    prop_assert!(free, "{m} x {n}, {src} to {dst}");
                }
            }
        }
    }
}
