//! Random choice of a packet's route among the paths that the routing of its flow allows.

use super::Routing;
use crate::r2c2::packet::Route;
use crate::r2c2::weights::FlowPaths;
use crate::r2c2::weights::exact::{DimensionPath, legs};
use std::collections::HashMap;
use std::sync::Arc;
use unrack_rack::graph::{Cube, CubeStep, Graph, Towards};

/// Randomly chooses routes over a graph. If the graph is neither a torus nor a mesh, this needs 10 bytes of memory per node for each
/// destination.
#[derive(Debug, Clone)]
pub struct Router {
    graph: Arc<Graph>,
    fields: HashMap<u32, Field>,
}

/// For each node, its distance to one destination and the number of shortest paths to this destination.
#[derive(Debug, Clone)]
struct Field {
    distances: Vec<u16>,
    paths: Vec<f64>,
}

impl Router {
    /// Creates a router over a graph.
    pub fn new(graph: Arc<Graph>) -> Router {
        Router { graph, fields: HashMap::new() }
    }

    /// Randomly chooses the route of a packet. `random` returns 64 random bits on each call.
    pub fn draw(&mut self, ways: FlowPaths, random: &mut impl FnMut() -> u64) -> Route {
        let Router { graph, fields } = self;
        let graph = &**graph;
        let mut walk = RouteDraw { graph, at: ways.src, route: Route::default() };
        let FlowPaths { routing, src, dst, flow } = ways;
        match (routing, graph.as_cube()) {
            _ if src == dst => {}
            (Routing::Spraying, _) => spray(fields, &mut walk, dst, random),
            (Routing::DestinationTag, Some(cube)) => {
                let order: Vec<usize> = (0..cube.dimensions()).collect();
                let sides = choose(cube, (src, dst), false, random);
                walk.dimension_by_dimension(&order, |d| (sides[d].up, sides[d].hops));
            }
            (Routing::Vlb, _) => {
                let middle = below(random, graph.nodes());
                spray(fields, &mut walk, middle, random);
                spray(fields, &mut walk, dst, random);
            }
            (Routing::Wlb, Some(cube)) => through_a_box(&mut walk, cube, (src, dst), true, random),
            (Routing::Romm, Some(cube)) => through_a_box(&mut walk, cube, (src, dst), false, random),
            (Routing::Wlb | Routing::Romm, None) => unreachable!("refused by Routing::check"),
            (Routing::DestinationTag | Routing::Ecmp, _) => {
                let towards = Towards::new(graph, dst);
                while walk.at != dst {
                    let first = || towards.closer(walk.at).next().expect("a way to all nodes");
                    let link =
                        if routing == Routing::Ecmp { towards.by_hash(walk.at, flow) } else { first() };
                    walk.take(link);
                }
            }
        }
        walk.route
    }
}

/// Extends a partial route to `dst` along a random shortest path. All shortest paths are equally likely.
fn spray(fields: &mut HashMap<u32, Field>, walk: &mut RouteDraw, dst: u32, random: &mut impl FnMut() -> u64) {
    match walk.graph.as_cube() {
        Some(cube) => {
            let mut sides = choose(cube, (walk.at, dst), false, random);
            let mut left: u32 = sides.iter().map(|leg| leg.hops).sum();
            // The next hop is along a dimension with a probability equal to this dimension's share of the remaining hops.
            while left > 0 {
                let mut drawn = below(random, left);
                let fits = |leg: &DimensionPath| {
                    let fits = drawn < leg.hops;
                    drawn = drawn.wrapping_sub(leg.hops);
                    fits
                };
                let dimension = sides.iter().position(fits).expect("less than all hops that are left");
                walk.step(CubeStep { dimension, up: sides[dimension].up });
                sides[dimension].hops -= 1;
                left -= 1;
            }
        }
        None => {
            let graph = walk.graph;
            let field = fields.entry(dst).or_insert_with(|| Field::new(graph, dst));
            while walk.at != dst {
                walk.take(field.next(graph, walk.at, random));
            }
        }
    }
}

impl Field {
    fn new(graph: &Graph, dst: u32) -> Field {
        let distances = graph.distances_to(dst);
        let mut nodes: Vec<u32> = (0..graph.nodes()).collect();
        nodes.sort_by_key(|node| distances[*node as usize]);
        let mut paths = vec![0.0; nodes.len()];
        paths[dst as usize] = 1.0;
        for node in nodes.into_iter().skip(1) {
            let closer = graph.links_of(node).map(|link| graph.to(link) as usize);
            let closer = closer.filter(|to| distances[*to] < distances[node as usize]);
            paths[node as usize] = closer.map(|to| paths[to]).sum();
        }
        Field { distances, paths }
    }

    fn next(&self, graph: &Graph, at: u32, random: &mut impl FnMut() -> u64) -> u32 {
        let here = self.distances[at as usize];
        let closer = graph.links_of(at).filter(|link| self.distances[graph.to(*link) as usize] < here);
        let mut drawn = (random() >> 11) as f64 / (1u64 << 53) as f64 * self.paths[at as usize];
        let mut last = None;
        for link in closer {
            last = Some(link);
            drawn -= self.paths[graph.to(link) as usize];
            if drawn < 0.0 {
                break;
            }
        }
        last.expect("a way to all nodes")
    }
}

/// Draws a direction in each dimension.
fn choose(
    cube: &Cube,
    ends: (u32, u32),
    weighted: bool,
    random: &mut impl FnMut() -> u64,
) -> Vec<DimensionPath> {
    let one = |dimension| {
        let ways = legs(cube, dimension, ends, weighted);
        let mut drawn = if ways.len() > 1 { (random() >> 11) as f64 / (1u64 << 53) as f64 } else { 0.0 };
        let fits = |leg: &&DimensionPath| {
            drawn -= leg.chance;
            drawn < 0.0
        };
        *ways.iter().find(fits).unwrap_or(&ways[ways.len() - 1])
    };
    (0..cube.dimensions()).map(one).collect()
}

/// Extends a partial route to a random node of the box between source and destination, and from there to the destination, which is the
/// opposite corner of the box.
fn through_a_box(
    walk: &mut RouteDraw,
    cube: &Cube,
    ends: (u32, u32),
    weighted: bool,
    random: &mut impl FnMut() -> u64,
) {
    let sides = choose(cube, ends, weighted, random);
    let there: Vec<u32> = sides.iter().map(|leg| below(random, leg.hops + 1)).collect();
    let order = shuffled(sides.len(), random);
    walk.dimension_by_dimension(&order, |d| (sides[d].up, there[d]));
    let order = shuffled(sides.len(), random);
    walk.dimension_by_dimension(&order, |d| (sides[d].up, sides[d].hops - there[d]));
}

fn shuffled(count: usize, random: &mut impl FnMut() -> u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(random, last as u32 + 1) as usize);
    }
    order
}

/// Returns a random number below `limit`. Its bias is less than 2^-32.
fn below(random: &mut impl FnMut() -> u64, limit: u32) -> u32 {
    ((u128::from(random()) * u128::from(limit)) >> 64) as u32
}

/// Route under construction.
struct RouteDraw<'a> {
    graph: &'a Graph,
    at: u32,
    route: Route,
}

impl RouteDraw<'_> {
    fn take(&mut self, link: u32) {
        self.route.push(self.graph.port(link));
        self.at = self.graph.to(link);
    }

    fn step(&mut self, direction: CubeStep) {
        let cube = self.graph.as_cube().expect("steps are those of a cube");
        let next = cube.step(self.at, direction).expect("a way within the cube");
        self.take(self.graph.link_to(self.at, next).expect("a step is a link"));
    }

    fn dimension_by_dimension(&mut self, order: &[usize], hops: impl Fn(usize) -> (bool, u32)) {
        for &dimension in order {
            let (up, hops) = hops(dimension);
            (0..hops).for_each(|_| self.step(CubeStep { dimension, up }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r2c2::weights::{Exact, LinkLoads};
    use unrack_basis::SplitMix64;
    use unrack_rack::graph::Sides;

    fn graphs() -> Vec<Graph> {
        let cube = |sides: &[u32], wraps| Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap();
        let cables = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4), (0, 3)];
        let chords = Graph::of_cables(6, &cables).unwrap();
        vec![cube(&[4, 4], true), cube(&[3, 2, 4], true), cube(&[4, 3], false), chords]
    }

    /// Packets with random routes cross each link as often as the exact link shares predict, within five standard deviations.
    #[test]
    fn packets_go_where_the_weights_say() {
        const PACKETS: u32 = 20_000;
        let mut random = SplitMix64::new(1);
        let mut random = || random.next_u64();
        for graph in graphs().into_iter().map(Arc::new) {
            let mut router = Router::new(graph.clone());
            let allowed = Routing::ALL.into_iter().filter(|routing| routing.check(&graph).is_ok());
            for routing in allowed {
                for (src, dst) in [(0, graph.nodes() - 1), (1, graph.nodes() / 2)] {
                    let mut crossed = vec![0u32; graph.links() as usize];
                    for _ in 0..PACKETS {
                        let route = router.draw(FlowPaths { routing, src, dst, flow: 3 }, &mut random);
                        assert!(route.hops() <= routing.longest(&graph));
                        let mut at = src;
                        for hop in 0..route.hops() {
                            let link = graph.links_of(at).start + route.port(hop).unwrap();
                            crossed[link as usize] += 1;
                            at = graph.to(link);
                        }
                        assert_eq!(at, dst);
                    }
                    let mut loads = LinkLoads::new(&graph);
                    Exact::new(&graph).add(routing, (src, dst), 3, 1.0, &mut loads);
                    for (link, crossed) in crossed.iter().enumerate() {
                        let expected = loads.on_link(link as u32) * f64::from(PACKETS);
                        let spread = 5.0 * expected.max(1.0).sqrt() * f64::sqrt(2.0);
                        let off = (f64::from(*crossed) - expected).abs();
                        assert!(off <= spread, "{routing} {src} {dst} link {link}: {crossed} for {expected}");
                    }
                }
            }
        }
    }
}
