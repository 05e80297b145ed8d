//! Routes on random topologies lead where they should, and flows spread over all of them.

use super::*;
use proptest::prelude::*;

pub(super) fn link(gbps: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(10) }
}

fn any_topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (2u32..40).prop_map(|nodes| Topology::star(nodes, link(100))),
        (1u32..9, 1u32..9, 1u32..5).prop_map(|(racks, hosts, spines)| Topology::leaf_spine(
            racks,
            hosts,
            spines,
            link(100),
            link(400)
        )),
        (1u32..5).prop_map(|half| Topology::fat_tree(2 * half, link(100), link(100))),
    ]
}

proptest! {
    #[test]
    fn every_node_is_reached_up_and_then_down(
        topology in any_topology(), src in any::<u32>(), dst in any::<u32>(), hash in any::<u32>(),
    ) {
        let (src, dst) = (src % topology.nodes(), dst % topology.nodes());
        let path: Vec<u32> = topology.path(src, dst, hash).take(10).collect();
        prop_assert!(path.iter().all(|port| *port < topology.ports()));
        prop_assert_eq!(topology.end(*path.last().unwrap()), LinkEnd::Node(dst));
        prop_assert!([1, 3, 5].contains(&path.len()), "{path:?}");
        prop_assert_eq!(path.len() == 1, topology.switch_of(src) == topology.switch_of(dst));
        // The path back of the same flow's acknowledgements is as long.
        prop_assert_eq!(topology.path(dst, src, hash).count(), path.len());
    }

    #[test]
    fn the_rack_of_a_node_is_its_switch(topology in any_topology(), node in any::<u32>()) {
        let node = node % topology.nodes();
        prop_assert_eq!(topology.racks().rack_of(node), topology.switch_of(node));
        prop_assert_eq!(topology.racks().nodes(), topology.nodes());
    }

    #[test]
    fn parts_have_their_share_of_the_nodes(topology in any_topology(), number in 1u32..5) {
        let Some(parts) = topology.parts(number) else { return Ok(()) };
        prop_assert_eq!(parts.len(), topology.switches() as usize);
        let mut nodes = vec![0; number as usize];
        (0..topology.nodes()).for_each(|node| nodes[parts[topology.switch_of(node) as usize] as usize] += 1);
        // At most one rack or pod apart.
        let group = match topology.shape {
            TopologyShape::FatTree { half } => half * half,
            _ => topology.racks().hosts,
        };
        let (least, most) = (nodes.iter().min().unwrap(), nodes.iter().max().unwrap());
        prop_assert!(*least > 0 && most - least <= group, "{nodes:?}");
    }

    #[test]
    fn every_cable_has_two_ends(topology in any_topology()) {
        let mut to_nodes = vec![0; topology.nodes() as usize];
        let mut cables = std::collections::BTreeMap::new();
        for port in 0..topology.ports() {
            let from = topology.owner(port);
            match topology.end(port) {
                LinkEnd::Node(node) => {
                    prop_assert_eq!(topology.switch_of(node), from);
                    to_nodes[node as usize] += 1;
                }
                LinkEnd::Switch(to) => {
                    prop_assert!(to < topology.switches() && to != from);
                    *cables.entry((from.min(to), from.max(to))).or_insert(0) += if from < to { 1 } else { 100 };
                }
            }
        }
        prop_assert!(to_nodes.iter().all(|n| *n == 1));
        prop_assert!(cables.values().all(|n| *n == 101), "{cables:?}");
    }
}

#[test]
fn flows_spread_over_all_ways() {
    let topology = Topology::fat_tree(8, link(100), link(100));
    let mut used = std::collections::BTreeSet::new();
    for hash in 0..1000u32 {
        used.extend(topology.path(0, topology.nodes() - 1, hash.wrapping_mul(0x9E37_79B9)));
    }
    // Up: 4 aggregation and 16 core switches; down: 16 to 4 aggregation switches, 4, 1.
    assert_eq!(used.len(), 4 + 16 + 16 + 4 + 1);
}
