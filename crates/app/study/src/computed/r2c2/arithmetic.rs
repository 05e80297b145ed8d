//! R2C2: the paper's two small examples, the cost of broadcasts, the limits of the formats, and the cost of a central
//! controller in place of broadcasts.

use crate::fluid::torus;
use std::sync::Arc;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::packet::{Assignment, BROADCAST, MOST_ASSIGNMENTS, Route};
use unrack_protocol::r2c2::rates::{Rates, Requirements, UNLIMITED};
use unrack_protocol::r2c2::routing::MOST_HOPS;
use unrack_protocol::r2c2::trees::Trees;
use unrack_protocol::r2c2::weights::{Exact, FlowPaths, LinkLoads, LinkShare, Weights};
use unrack_rack::graph::{Graph, MOST_NODES, MOST_PORTS, Sides};
use unrack_units::Rate;

/// Returns the values of the examples in figs. 3 and 4. `headroom` is the share of each link that stays free: none in the paper.
pub(super) fn examples(headroom: f64) -> Vec<(&'static str, f64)> {
    let square = Graph::cube(Sides::new(&[2, 2]).expect("sides"), false).expect("a mesh");
    let mut loads = LinkLoads::new(&square);
    Exact::new(&square).add(Routing::Spraying, (0, 3), 0, 1.0, &mut loads);
    let most = (0..square.links()).map(|link| loads.on_link(link)).fold(0.0, f64::max);
    // The links are, in this order: 1-4, 1-3, 2-3, 3-4.
    let rates = |first: &[(u32, u32)]| {
        let mut rates = Rates::new([Rate::from_gbps(1); 4], headroom);
        let share =
            |(link, halves): &(u32, u32)| LinkShare { link: *link, share: LinkShare::ONE / 2 * halves };
        let mut add =
            |links: &[(u32, u32)]| rates.add(Requirements::default(), links.iter().map(share).collect());
        let slots = [add(first), add(&[(2, 2), (3, 2)])];
        rates.settle();
        slots.map(|slot| f64::from(rates.kbps(slot)) / 1e6)
    };
    let [fixed_1, fixed_2] = rates(&[(0, 1), (1, 1), (3, 1)]);
    let [adapted_1, adapted_2] = rates(&[(0, 2)]);
    vec![
        ("square.weight", most),
        ("fixed.f1", fixed_1),
        ("fixed.f2", fixed_2),
        ("adapted.f1", adapted_1),
        ("adapted.f2", adapted_2),
    ]
}

/// Returns the cost of broadcasts, paths and weights (§3.2, §4.2, §5.1).
pub(super) fn broadcast() -> Vec<(&'static str, f64)> {
    let torus = torus(&[8, 8, 8]);
    let bytes = (Trees::new(torus.clone(), 4).links(0, 0).len() * BROADCAST) as f64;
    // The paper also counts flows from a node to itself, even in the mean length of paths.
    let nodes = f64::from(torus.nodes());
    let hops = mean_hops(&torus);
    let overhead_of = |bytes: f64, flow: f64| 2.0 * bytes / (flow * hops);
    let overhead = |flow| overhead_of(bytes, flow);
    // The paper takes a broadcast as 8 KB, and cuts its result off instead of rounding it.
    let rounded =
        |flow, digits: i32| (overhead_of(8e3, flow) * 10f64.powi(digits)).floor() / 10f64.powi(digits);
    vec![
        ("bytes", bytes),
        ("kib_per_link_all_pairs", nodes * nodes * bytes / f64::from(torus.links()) / 1024.0),
        ("overhead_10kB", overhead(10e3)),
        ("overhead_10MB", overhead(10e6)),
        ("overhead_5pct_small", 0.05 * overhead(10e3) + 0.95 * overhead(35e6)),
        ("overhead_10kB_of_8kB", rounded(10e3, 4)),
        ("overhead_10MB_of_8kB", rounded(10e6, 5)),
        ("overhead_5pct_small_of_8kB", 0.05 * overhead_of(8e3, 10e3) + 0.95 * overhead_of(8e3, 35e6)),
        ("mean_paths", mean_paths()),
        ("farthest_paths", farthest_paths()),
        ("weights_bytes", weights_bytes(&torus)),
    ]
}

/// Returns the cost of a controller relative to a broadcast (fig. 19).
pub(super) fn controller() -> Vec<(&'static str, f64)> {
    let torus = torus(&[8, 8, 8]);
    let (nodes, hops) = (f64::from(torus.nodes()), mean_hops(&torus));
    let tree = (nodes - 1.0) * BROADCAST as f64;
    let of = |flows| central(flows, hops, nodes) / tree;
    vec![("central_1", of(1.0)), ("central_10", of(10.0))]
}

/// Returns the bytes × hops that a controller needs for one event. A packet reports the event to the controller, which sends
/// a packet to every node with the rates of the node's flows. That packet has the size of a broadcast, which contains one
/// rate, and 4 bytes more for each other rate.
fn central(flows: f64, hops: f64, nodes: f64) -> f64 {
    let message = BROADCAST as f64 + 4.0 * (flows - 1.0);
    hops * (BROADCAST as f64 + nodes * message)
}

fn mean_hops(torus: &Graph) -> f64 {
    let distances = torus.distances_to(0);
    distances.iter().map(|hops| f64::from(*hops)).sum::<f64>() / distances.len() as f64
}

/// Returns the mean number of shortest paths between two different nodes of a 6x6x6 torus. For nodes that are half a ring
/// apart, the paths in both directions of the ring count.
fn mean_paths() -> f64 {
    let paths = paths(&torus(&[6, 6, 6]));
    paths[1..].iter().sum::<f64>() / (paths.len() - 1) as f64
}

/// Returns the number of shortest paths between two nodes that are half a ring apart in each dimension of a 6x6x6 torus, if
/// only one direction of each ring counts: the paths between opposite corners of a mesh with four nodes per side.
fn farthest_paths() -> f64 {
    let mesh = Graph::cube(Sides::new(&[4, 4, 4]).expect("sides"), false).expect("a mesh");
    *paths(&mesh).last().expect("a mesh has nodes")
}

/// Returns the number of shortest paths to node 0, by node.
fn paths(graph: &Graph) -> Vec<f64> {
    let distances = graph.distances_to(0);
    let mut paths = vec![0.0; distances.len()];
    let mut nodes: Vec<u32> = (0..graph.nodes()).collect();
    nodes.sort_by_key(|node| distances[*node as usize]);
    paths[0] = 1.0;
    for node in nodes.into_iter().skip(1) {
        let nearer = graph.links_of(node).map(|link| graph.to(link) as usize);
        let nearer = nearer.filter(|to| distances[*to] < distances[node as usize]);
        paths[node as usize] = nearer.map(|to| paths[to]).sum();
    }
    paths
}

/// Returns the bytes of stored weights for the routing that stores most, after the weights of all pairs were requested.
fn weights_bytes(torus: &Arc<Graph>) -> f64 {
    let mut weights = Weights::new(torus.clone());
    let mut most = 0;
    for routing in [Routing::Spraying, Routing::DestinationTag, Routing::Vlb, Routing::Romm] {
        for dst in 1..torus.nodes() {
            weights.shares(FlowPaths { routing, src: 0, dst, flow: 0 });
        }
        most = most.max(weights.bytes(routing));
    }
    most as f64
}

/// Returns the limits of the formats (§3.4, §4.2).
pub(super) fn formats() -> Vec<(&'static str, f64)> {
    let mut longest = Route::default();
    (0..MOST_HOPS).for_each(|_| longest.push(MOST_PORTS - 1));
    let pairs = [Assignment { src: 0, flow: 0, routing: Routing::Vlb }; MOST_ASSIGNMENTS + 1];
    let (pairs, bytes) = Assignment::encode(&pairs, &mut [0; 1_500]);
    vec![
        ("hops", f64::from(longest.hops())),
        ("ports", f64::from(MOST_PORTS)),
        ("nodes", f64::from(MOST_NODES)),
        ("broadcast_bytes", BROADCAST as f64),
        ("demand_tbps", f64::from(UNLIMITED) * 1e3 / 1e12),
        ("pairs", pairs as f64),
        ("pairs_bytes", bytes as f64),
    ]
}
