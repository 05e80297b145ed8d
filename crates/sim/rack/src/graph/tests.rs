//! Tests of graphs: sizes, ports, refusals, and coordinates against a search.

use super::*;
use proptest::prelude::*;

fn cube(sides: &[u32], wraps: bool) -> Graph {
    Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap()
}

#[test]
fn cubes_of_the_paper() {
    // Sides, whether it wraps, nodes, links in both directions, diameter.
    let cases: [(&[u32], bool, u32, u32, u32); 8] = [
        (&[4, 4], true, 16, 64, 4),
        (&[8, 8], true, 64, 256, 8),
        (&[3, 3, 3], true, 27, 162, 3),
        (&[8, 8, 8], true, 512, 3072, 12),
        (&[2, 2], false, 4, 8, 2),
        (&[8, 8, 8], false, 512, 2688, 21),
        (&[3, 1, 2], true, 6, 18, 2),
        (&[2; 8], true, 256, 2048, 8),
    ];
    for (sides, wraps, nodes, links, diameter) in cases {
        let graph = cube(sides, wraps);
        assert_eq!((graph.nodes(), graph.links(), graph.diameter()), (nodes, links, diameter), "{sides:?}");
    }
}

#[test]
fn ports_follow_the_directions() {
    let graph = cube(&[3, 4], true);
    let ends: Vec<u32> = graph.links_of(5).map(|link| graph.to(link)).collect();
    // Node 5 is at (1, 1): up and down the first dimension, then the second.
    assert_eq!(ends, [9, 1, 6, 4]);
}

#[test]
fn what_is_no_rack_is_refused() {
    let refused = |nodes, cables: &[(u32, u32)]| Graph::of_cables(nodes, cables).unwrap_err();
    assert_eq!(refused(1, &[]), GraphError::Nodes(1));
    assert_eq!(refused(2, &[(0, 2)]), GraphError::NoSuchNode { cable: 0, node: 2 });
    assert_eq!(refused(2, &[(0, 1), (1, 1)]), GraphError::Loop { cable: 1, node: 1 });
    assert_eq!(refused(2, &[(0, 1), (1, 0)]), GraphError::Twice { cable: 1 });
    assert_eq!(refused(3, &[(0, 1)]), GraphError::Apart { node: 2 });
    let star: Vec<_> = (1..10).map(|leaf| (0, leaf)).collect();
    assert_eq!(refused(10, &star), GraphError::Degree { cable: 8, node: 0 });
    assert!(Sides::new(&[]).is_err() && Sides::new(&[0, 3]).is_err() && Sides::new(&[2; 9]).is_err());
    assert_eq!(Graph::cube(Sides::new(&[300, 300]).unwrap(), true).unwrap_err(), GraphError::Nodes(90_000));
    assert!(Graph::cube(Sides::new(&[3; 5]).unwrap(), true).is_err(), "ten links a node");
}

#[test]
fn what_is_left_of_a_graph_may_be_apart() {
    let line = Graph::of_cables(3, &[(0, 1), (1, 2)]).unwrap();
    let gone = line.link_to(2, 1).unwrap();
    let (left, links) = line.without(|link| link == gone);
    assert_eq!(left.distances_to(0), [0, 1, FAR]);
    assert_eq!((left.diameter(), links), (1, vec![line.link_to(0, 1).unwrap(), line.link_to(1, 0).unwrap()]));
    let torus = cube(&[4, 4], true);
    let (left, links) = torus.without(|_| false);
    assert_eq!((left.diameter(), links.len()), (4, 64));
    for (link, was) in links.iter().enumerate() {
        let link = link as u32;
        assert_eq!((left.from(link), left.to(link)), (torus.from(*was), torus.to(*was)));
    }
}

fn any_cube() -> impl Strategy<Value = Graph> {
    (prop::collection::vec(1u32..6, 1..4), any::<bool>())
        .prop_filter("at least two nodes", |(sides, _)| sides.iter().product::<u32>() > 1)
        .prop_map(|(sides, wraps)| cube(&sides, wraps))
}

fn assert_closer_is_closer(graph: &Graph, node: u32, to: u32) {
    let distances = graph.distances_to(to);
    let here = distances[node as usize];
    assert_eq!(graph.distance(node, to), u32::from(here));
    for (port, link) in graph.links_of(node).enumerate() {
        let is_closer = distances[graph.to(link) as usize] < here;
        assert_eq!(graph.closer(node, to) >> port & 1 == 1, is_closer, "{node} to {to} by {port}");
    }
}

proptest! {
    #[test]
    fn every_cable_has_two_ways(graph in any_cube()) {
        for link in 0..graph.links() {
            let back = graph.reverse(link);
            prop_assert_eq!((graph.from(back), graph.to(back)), (graph.to(link), graph.from(link)));
            prop_assert_eq!(graph.reverse(back), link);
            prop_assert_eq!(graph.cable(back), graph.cable(link));
            prop_assert_eq!(graph.links_of(graph.from(link)).start + graph.port(link), link);
        }
    }

    #[test]
    fn searched_ways_lead_closer(
        nodes in 2..20u32,
        drawn in prop::collection::vec((any::<u32>(), any::<u32>()), 0..20),
    ) {
        // A line of nodes, and those of the drawn cables that fit.
        let mut cables: Vec<_> = (1..nodes).map(|node| (node - 1, node)).collect();
        for (a, b) in drawn {
            cables.push((a % nodes, b % nodes));
            if Graph::of_cables(nodes, &cables).is_err() {
                cables.pop();
            }
        }
        let graph = Graph::of_cables(nodes, &cables).unwrap();
        for (node, to) in (0..nodes).flat_map(|node| (0..nodes).map(move |to| (node, to))) {
            assert_closer_is_closer(&graph, node, to);
        }
    }

    /// Distances by coordinates equal those of a search.
    #[test]
    fn coordinates_measure_as_the_links_do(graph in any_cube(), node in any::<u32>()) {
        let node = node % graph.nodes();
        let cube = graph.as_cube().unwrap();
        let searched = graph.distances_to(node);
        for other in 0..graph.nodes() {
            prop_assert_eq!(cube.distance(other, node), u32::from(searched[other as usize]));
            assert_closer_is_closer(&graph, other, node);
            for direction in cube.directions() {
                let Some(next) = cube.step(other, direction) else { continue };
                prop_assert!(graph.link_to(other, next).is_some());
            }
        }
    }
}
