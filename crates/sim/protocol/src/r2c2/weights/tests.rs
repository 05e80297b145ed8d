//! Tests of the weights: flow is conserved, cached shares equal computed ones, and examples of the paper come out.

use super::*;
use proptest::prelude::*;
use unrack_rack::graph::Sides;

pub(crate) fn cube(sides: &[u32], wraps: bool) -> Arc<Graph> {
    Arc::new(Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap())
}

fn any_graph() -> impl Strategy<Value = Arc<Graph>> {
    let cube = (prop::collection::vec(1u32..6, 1..4), any::<bool>())
        .prop_filter("at least two nodes", |(sides, _)| sides.iter().product::<u32>() > 1)
        .prop_map(|(sides, wraps)| cube(&sides, wraps));
    // A ring, so that the graph is connected, plus chords.
    let drawn =
        (3u32..20, prop::collection::vec((any::<u32>(), any::<u32>()), 0..20)).prop_map(|(n, chords)| {
            let mut cables: Vec<_> = (0..n).map(|node| (node, (node + 1) % n)).collect();
            for (a, b) in chords {
                let (a, b) = (a % n, b % n);
                let with = [&cables[..], &[(a, b)]].concat();
                if Graph::of_cables(n, &with).is_ok() {
                    cables = with;
                }
            }
            Arc::new(Graph::of_cables(n, &cables).unwrap())
        });
    prop_oneof![cube, drawn]
}

fn allowed(graph: &Graph) -> impl Iterator<Item = Routing> + '_ {
    Routing::ALL.into_iter().filter(|routing| routing.check(graph).is_ok())
}

fn exact(graph: &Graph, routing: Routing, ends: (u32, u32)) -> LinkLoads {
    let mut loads = LinkLoads::new(graph);
    Exact::new(graph).add(routing, ends, 7, 1.0, &mut loads);
    loads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One unit leaves the source and one arrives at the destination; at every other node, as much leaves as arrives.
    /// Minimal paths are as long as the distance.
    #[test]
    fn flows_are_conserved(graph in any_graph(), src in any::<u32>(), dst in any::<u32>()) {
        let (src, dst) = (src % graph.nodes(), dst % graph.nodes());
        let distance = f64::from(graph.distances_to(dst)[src as usize]);
        for routing in allowed(&graph) {
            let loads = exact(&graph, routing, (src, dst));
            for node in 0..graph.nodes() {
                let out: f64 = graph.links_of(node).map(|link| loads.on_link(link)).sum();
                let into: f64 = graph.links_of(node).map(|link| loads.on_link(graph.reverse(link))).sum();
                let expected = f64::from(u8::from(node == src)) - f64::from(u8::from(node == dst));
                prop_assert!((out - into - expected).abs() < 1e-9, "{routing} {node}");
            }
            let hops: f64 = (0..graph.links()).map(|link| loads.on_link(link)).sum();
            match routing {
                Routing::Vlb | Routing::Wlb => prop_assert!(hops > distance - 1e-9),
                _ => prop_assert!((hops - distance).abs() < 1e-9, "{routing}"),
            }
            prop_assert!(hops <= f64::from(routing.longest(&graph)) + 1e-9);
        }
    }

    /// Cached shares, after reflection and translation, equal computed ones to the precision of a share.
    #[test]
    fn what_is_kept_is_exact(graph in any_graph(), pairs in prop::collection::vec((any::<u32>(), any::<u32>()), 1..6)) {
        let mut weights = Weights::new(graph.clone());
        for (src, dst) in pairs {
            let (src, dst) = (src % graph.nodes(), dst % graph.nodes());
            for routing in allowed(&graph) {
                let loads = exact(&graph, routing, (src, dst));
                let shares = weights.shares(FlowPaths { routing, src, dst, flow: 7 });
                let mut got = vec![0.0; graph.links() as usize];
                for &LinkShare { link, share } in &*shares {
                    prop_assert_eq!(got[link as usize], 0.0, "each link once");
                    got[link as usize] = f64::from(share) / f64::from(LinkShare::ONE);
                }
                for link in 0..graph.links() {
                    let (got, exact) = (got[link as usize], loads.on_link(link));
                    let close = if routing == Routing::Vlb && src == dst { exact > 0.0 } else { true };
                    prop_assert!(!close || (got - exact).abs() < 1e-6, "{routing} {src} {dst}: {got} for {exact}");
                }
            }
        }
    }
}

/// Spraying gives the same shares as an enumeration of all shortest paths.
#[test]
fn spraying_takes_all_shortest_paths_equally() {
    for graph in [cube(&[4, 4], true), cube(&[3, 3, 3], true), cube(&[4, 3], false), cube(&[2, 2], false)] {
        for (src, dst) in [(0, graph.nodes() - 1), (1, 3), (0, graph.nodes() / 2)] {
            let distances = graph.distances_to(dst);
            let mut paths: Vec<Vec<u32>> = vec![vec![]];
            for _ in 0..distances[src as usize] {
                let on = |path: Vec<u32>| {
                    let at = path.last().map_or(src, |link| graph.to(*link));
                    let closer = |link: &u32| distances[graph.to(*link) as usize] < distances[at as usize];
                    let links: Vec<u32> = graph.links_of(at).filter(closer).collect();
                    links.into_iter().map(move |link| [&path[..], &[link]].concat())
                };
                paths = paths.into_iter().flat_map(on).collect();
            }
            let loads = exact(&graph, Routing::Spraying, (src, dst));
            for link in 0..graph.links() {
                let through = paths.iter().filter(|path| path.contains(&link)).count();
                let expected = through as f64 / paths.len() as f64;
                assert!((loads.on_link(link) - expected).abs() < 1e-12);
            }
        }
    }
}

/// Example of R2C2 fig. 3: half of the flow on either side of a square.
#[test]
fn the_square_of_the_paper() {
    let square = cube(&[2, 2], false);
    let loads = exact(&square, Routing::Spraying, (0, 3));
    let on: Vec<f64> = (0..8).map(|link| loads.on_link(link)).collect();
    assert_eq!(on.iter().filter(|load| **load == 0.5).count(), 4);
    assert_eq!(on.iter().sum::<f64>(), 2.0);
}

#[test]
fn what_is_kept_has_a_bound() {
    // In a mesh each source needs a separate computation, therefore fewer pairs are tested.
    for (graph, pairs) in [(cube(&[8, 8, 8], true), 500), (cube(&[8, 8, 8], false), 40)] {
        let mut weights = Weights::new(graph.clone());
        for routing in [Routing::Spraying, Routing::DestinationTag, Routing::Vlb, Routing::Romm] {
            for n in 0..pairs {
                let (src, dst) = (n * 7 % 512, n * 131 % 512);
                weights.shares(FlowPaths { routing, src, dst, flow: n });
                assert!(weights.bytes(routing) <= MOST_BYTES, "{routing}: {}", weights.bytes(routing));
            }
        }
    }
}

#[test]
fn ways_that_do_not_fit_are_refused() {
    assert!(Routing::Spraying.check(&cube(&[8, 8, 8], true)).is_ok());
    assert!(Routing::Vlb.check(&cube(&[8, 8, 8], false)).is_ok(), "42 hops");
    assert!(Routing::Vlb.check(&cube(&[9, 8, 8], false)).is_err(), "44 hops");
    assert!(Routing::Spraying.check(&cube(&[90], true)).is_err());
    let triangle = Graph::of_cables(3, &[(0, 1), (1, 2), (2, 0)]).unwrap();
    assert!(Routing::Wlb.check(&triangle).is_err() && Routing::Vlb.check(&triangle).is_ok());
}
