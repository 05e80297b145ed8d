//! DRack §4.1 and appendix A.1: properties of the wiring in the networks that the simulations use.

use crate::computed::Computed;
use std::collections::BTreeSet;
use unrack_rack::Wiring;
use unrack_sim::network::Pace;
use unrack_sim::topology::{Link, Topology};
use unrack_units::{Rate, Time};

/// Networks of the paper's examples, then its prototype: number of racks, and hosts per rack.
const NETWORKS: [(u32, u32); 5] = [(4, 8), (16, 8), (10, 20), (8, 20), (4, 2)];

/// Returns the counts of the wiring that the study compares with the paper.
pub(super) fn values() -> Computed {
    values_of(|_, wired| wired)
}

/// Returns the same values for a wiring in which the NICs of a rack are connected to one switch, as in a conventional rack.
pub(super) fn racks_apart() -> Computed {
    values_of(|(nic, racks, hosts), _| nic / hosts % racks)
}

/// Returns the values for a wiring. `switch` maps a NIC, the numbers of racks and of hosts in each, and the switch of the NIC in our
/// topology, to the switch of the NIC in this wiring.
fn values_of(switch: impl Fn((u32, u32, u32), u32) -> u32) -> Computed {
    let networks = NETWORKS.map(|(racks, hosts)| {
        let mut network = WiredNetwork::new(racks, hosts);
        (0..)
            .zip(&mut network.switches)
            .for_each(|(nic, wired)| *wired = switch((nic, racks, hosts), *wired));
        network
    });
    let misplaced: usize = networks.iter().map(WiredNetwork::misplaced).sum();
    let [a, b, even, odd, prototype] = networks;
    let count = |value: usize| value as f64;
    Computed::from([
        ("misplaced_nics".into(), count(misplaced)),
        ("fig12a_reached".into(), a.same(|network, rack| network.reached(rack).len())),
        ("fig12b_reached".into(), b.same(|network, rack| network.reached(rack).len())),
        ("fig12b_rack0_first".into(), count(b.first(0))),
        ("fig12b_rack1_first".into(), count(b.first(1))),
        ("fig12b_pods".into(), count(b.pods())),
        ("uplinks_10_20".into(), count(even.least_uplinks())),
        ("uplinks_8_20".into(), count(odd.least_uplinks())),
        ("uplinks_4_2".into(), count(prototype.least_uplinks())),
    ])
}

/// A network: its number of racks and hosts, and the aggregation switch of each NIC.
struct WiredNetwork {
    racks: u32,
    hosts: u32,
    switches: Vec<u32>,
}

impl WiredNetwork {
    fn new(racks: u32, hosts: u32) -> WiredNetwork {
        let link = Link { pace: Pace::new(Rate::from_gbps(10)), propagation: Time::ZERO };
        let wiring = Wiring { racks, hosts_per_rack: hosts, cores: Wiring::default_cores(racks, hosts) };
        let topology = Topology::drack(wiring, link, link, link);
        // CXL switches are numbered before the aggregation switches.
        let switch = |nic| topology.switch_at(nic) - racks;
        WiredNetwork { racks, hosts, switches: (0..racks * hosts).map(switch).collect() }
    }

    fn misplaced(&self) -> usize {
        (0..).zip(&self.switches).filter(|(nic, switch)| **switch != nic % self.racks).count()
    }

    fn nics(&self, rack: u32) -> &[u32] {
        &self.switches[(rack * self.hosts) as usize..((rack + 1) * self.hosts) as usize]
    }

    fn reached(&self, rack: u32) -> BTreeSet<u32> {
        self.nics(rack).iter().copied().collect()
    }

    fn first(&self, rack: u32) -> usize {
        self.reached(rack).first().copied().unwrap_or(0) as usize
    }

    /// Returns a count that is the same for all racks; NaN if they differ.
    fn same(&self, of: impl Fn(&WiredNetwork, u32) -> usize) -> f64 {
        let counts: BTreeSet<usize> = (0..self.racks).map(|rack| of(self, rack)).collect();
        if counts.len() == 1 { counts.first().map_or(f64::NAN, |count| *count as f64) } else { f64::NAN }
    }

    /// Returns the number of different sets of switches that racks reach. If two of these sets share a switch, returns 1.
    fn pods(&self) -> usize {
        let sets: BTreeSet<BTreeSet<u32>> = (0..self.racks).map(|rack| self.reached(rack)).collect();
        let all: usize = sets.iter().map(BTreeSet::len).sum();
        let union: BTreeSet<&u32> = sets.iter().flatten().collect();
        if all == union.len() { sets.len() } else { 1 }
    }

    /// Returns the minimum capacity between two racks over the switches that both reach, in NICs. Pairs that share no
    /// switch do not count.
    fn least_uplinks(&self) -> usize {
        let at = |rack, switch: u32| self.nics(rack).iter().filter(|nic| **nic == switch).count();
        let uplinks = |a, b| (0..self.racks).map(|switch| at(a, switch).min(at(b, switch))).sum::<usize>();
        let pairs = (0..self.racks).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.map(|(a, b)| uplinks(a, b)).filter(|uplinks| *uplinks > 0).min().unwrap_or(0)
    }
}
