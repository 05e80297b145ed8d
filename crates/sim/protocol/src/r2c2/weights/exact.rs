//! Exact computation, instead of sampling, of the expected number of times that a packet of a flow crosses each link.

use crate::r2c2::Routing;
use unrack_rack::graph::{Cube, CubeStep, Graph, Towards};

/// Load of a flow on each link, as the expected number of crossings of the link for each packet that the flow sends.
#[derive(Debug, Clone)]
pub struct LinkLoads {
    of_link: Vec<f64>,
    touched: Vec<u32>,
}

impl LinkLoads {
    /// Creates the loads of a graph, all 0.
    pub fn new(graph: &Graph) -> LinkLoads {
        LinkLoads { of_link: vec![0.0; graph.links() as usize], touched: Vec::new() }
    }

    fn add(&mut self, link: u32, load: f64) {
        if load == 0.0 {
            return;
        }
        let place = &mut self.of_link[link as usize];
        if *place == 0.0 {
            self.touched.push(link);
        }
        *place += load;
    }

    /// Returns the load of a link.
    pub fn on_link(&self, link: u32) -> f64 {
        self.of_link[link as usize]
    }

    /// Returns the links with a load, in ascending order.
    pub fn used(&mut self) -> &[u32] {
        self.touched.sort_unstable();
        &self.touched
    }

    /// Sets all loads to 0.
    pub fn clear(&mut self) {
        self.touched.drain(..).for_each(|link| self.of_link[link as usize] = 0.0);
    }
}

/// Computation of the loads of flows on the links of a graph, with its working memory.
#[derive(Debug, Clone)]
pub struct Exact<'a> {
    graph: &'a Graph,
    /// For each node of the graph, its index among the nodes on the paths that are being computed. All `NOWHERE` between calls.
    place: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl<'a> Exact<'a> {
    /// Creates a computation over a graph.
    pub fn new(graph: &'a Graph) -> Exact<'a> {
        Exact { graph, place: vec![NOWHERE; graph.nodes() as usize] }
    }

    /// Adds to `loads` the load that a flow causes on each link if it sends `amount` from the first to the second node of `ends` under this
    /// routing.
    pub fn add(&mut self, routing: Routing, ends: (u32, u32), flow: u32, amount: f64, loads: &mut LinkLoads) {
        let (src, dst) = ends;
        match (routing, self.graph.as_cube()) {
            _ if src == dst => {}
            (Routing::Spraying, _) => self.spray(src, dst, amount, loads),
            (Routing::DestinationTag, Some(cube)) => {
                Boxes { graph: self.graph, cube, loads }.dimension_by_dimension(src, dst, amount);
            }
            (Routing::DestinationTag, None) => self.first_ports(src, dst, amount, loads),
            (Routing::Vlb, _) => {
                let share = amount / f64::from(self.graph.nodes());
                for middle in 0..self.graph.nodes() {
                    self.spray(src, middle, share, loads);
                    self.spray(middle, dst, share, loads);
                }
            }
            (Routing::Wlb, Some(cube)) => {
                Boxes { graph: self.graph, cube, loads }.two_phases(src, dst, amount, true);
            }
            (Routing::Romm, Some(cube)) => {
                Boxes { graph: self.graph, cube, loads }.two_phases(src, dst, amount, false);
            }
            (Routing::Wlb | Routing::Romm, None) => unreachable!("refused by Routing::check"),
            (Routing::Ecmp, _) => self.one_path(src, dst, flow, amount, loads),
        }
    }

    /// Adds the load of a flow that uses all shortest paths equally. At each node, the load is divided among the ports in proportion to the
    /// number of shortest paths that continue through each port.
    fn spray(&mut self, src: u32, dst: u32, amount: f64, loads: &mut LinkLoads) {
        if src == dst {
            return;
        }
        let towards = Towards::new(self.graph, dst);
        // The nodes on the shortest paths, in ascending order of their distance from the source.
        let mut nodes = vec![src];
        self.place[src as usize] = 0;
        let mut next = 0;
        while let Some(&at) = nodes.get(next) {
            next += 1;
            for link in towards.closer(at) {
                let to = self.graph.to(link);
                if self.place[to as usize] == NOWHERE {
                    self.place[to as usize] = nodes.len() as u32;
                    nodes.push(to);
                }
            }
        }
        let mut paths = vec![0.0; nodes.len()];
        for (n, at) in nodes.iter().enumerate().rev() {
            let on = |link| paths[self.place[self.graph.to(link) as usize] as usize];
            paths[n] = if *at == dst { 1.0 } else { towards.closer(*at).map(on).sum() };
        }
        let mut passing = vec![0.0; nodes.len()];
        passing[0] = amount;
        for (n, at) in nodes.iter().enumerate() {
            for link in towards.closer(*at) {
                let to = self.place[self.graph.to(link) as usize] as usize;
                let share = passing[n] * (paths[to] / paths[n]);
                passing[to] += share;
                loads.add(link, share);
            }
        }
        nodes.iter().for_each(|node| self.place[*node as usize] = NOWHERE);
    }

    fn first_ports(&self, src: u32, dst: u32, amount: f64, loads: &mut LinkLoads) {
        let towards = Towards::new(self.graph, dst);
        let mut at = src;
        while let Some(link) = towards.closer(at).next() {
            loads.add(link, amount);
            at = self.graph.to(link);
        }
    }

    fn one_path(&self, src: u32, dst: u32, flow: u32, amount: f64, loads: &mut LinkLoads) {
        let towards = Towards::new(self.graph, dst);
        let mut at = src;
        while at != dst {
            let link = towards.by_hash(at, flow);
            loads.add(link, amount);
            at = self.graph.to(link);
        }
    }
}

/// Computation for paths within boxes. In each dimension, such a path has hops in one direction only.
struct Boxes<'a, 'b> {
    graph: &'a Graph,
    cube: &'a Cube,
    loads: &'b mut LinkLoads,
}

/// One of the two ways around a dimension (a direction and a number of hops), and the probability that a packet takes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DimensionPath {
    pub up: bool,
    pub hops: u32,
    pub chance: f64,
}

/// Returns the ways along a dimension among which a routing chooses. `weighted` selects RLB; otherwise only the shortest ways are returned.
pub(crate) fn legs(cube: &Cube, dimension: usize, ends: (u32, u32), weighted: bool) -> Vec<DimensionPath> {
    let [from, to] = [ends.0, ends.1].map(|node| cube.coordinate(node, dimension));
    let [up, down] = cube.hops(dimension, from, to);
    let (side, least) = (f64::from(cube.side(dimension)), up.into_iter().chain(down).min());
    // RLB: in a ring of k nodes, a way of d hops has probability (k - d) / k. Minimal routing: a packet takes the shorter way, or each way
    // with probability 1/2 if the two are equally long.
    let chance = |hops: u32| match (up, down) {
        (Some(_), Some(_)) if weighted => (side - f64::from(hops)) / side,
        (Some(up), Some(down)) if up == down => 0.5,
        _ if Some(hops) == least => 1.0,
        _ => 0.0,
    };
    let leg = |up, hops: Option<u32>| hops.map(|hops| DimensionPath { up, hops, chance: chance(hops) });
    [leg(true, up), leg(false, down)].into_iter().flatten().filter(|leg| leg.chance > 0.0).collect()
}

impl Boxes<'_, '_> {
    fn dimension_by_dimension(&mut self, src: u32, dst: u32, amount: f64) {
        let mut at = src;
        for dimension in 0..self.cube.dimensions() {
            let mut end = at;
            for leg in legs(self.cube, dimension, (at, dst), false) {
                end = at;
                for _ in 0..leg.hops {
                    end = self.hop(end, CubeStep { dimension, up: leg.up }, amount * leg.chance);
                }
            }
            at = end;
        }
    }

    /// Adds the load of one hop. Returns the node to which the hop leads.
    fn hop(&mut self, from: u32, direction: CubeStep, amount: f64) -> u32 {
        let to = self.cube.step(from, direction).expect("a way within the cube");
        let link = self.graph.link_to(from, to).expect("a step is a link");
        self.loads.add(link, amount);
        to
    }

    /// For each box that has source and destination at opposite corners, adds the load of the paths that go through a random node of the
    /// box.
    fn two_phases(&mut self, src: u32, dst: u32, amount: f64, weighted: bool) {
        let ways: Vec<_> =
            (0..self.cube.dimensions()).map(|d| legs(self.cube, d, (src, dst), weighted)).collect();
        let boxes = ways.iter().map(Vec::len).product();
        for number in 0..boxes {
            let mut rest = number;
            let sides: Vec<DimensionPath> = ways
                .iter()
                .map(|legs| {
                    let leg = legs[rest % legs.len()];
                    rest /= legs.len();
                    leg
                })
                .collect();
            let chance: f64 = sides.iter().map(|leg| leg.chance).product();
            self.through(src, &sides, amount * chance);
        }
    }

    /// Adds the load of the paths from one corner of a box to a random node of the box; a path traverses one dimension after the other, in
    /// random order. By symmetry, also adds the load of the paths from this node to the opposite corner.
    fn through(&mut self, src: u32, sides: &[DimensionPath], amount: f64) {
        let nodes: u32 = sides.iter().map(|leg| leg.hops + 1).product();
        for number in 0..nodes {
            let mut rest = number;
            let at: Vec<u32> = sides
                .iter()
                .map(|leg| {
                    let here = rest % (leg.hops + 1);
                    rest /= leg.hops + 1;
                    here
                })
                .collect();
            for dimension in (0..sides.len()).filter(|d| at[*d] < sides[*d].hops) {
                let there = crossing(sides, &at, dimension);
                // In the second phase, the corresponding link is the one that ends as far from the opposite corner as this link begins from
                // the first corner.
                let mirrored: Vec<u32> = at
                    .iter()
                    .zip(sides)
                    .enumerate()
                    .map(|(d, (at, leg))| leg.hops - at - u32::from(d == dimension))
                    .collect();
                let back = crossing(sides, &mirrored, dimension);
                if there + back > 0.0 {
                    let from = self.node_at(src, sides, &at);
                    let direction = CubeStep { dimension, up: sides[dimension].up };
                    self.hop(from, direction, amount * (there + back));
                }
            }
        }
    }

    fn node_at(&self, src: u32, sides: &[DimensionPath], at: &[u32]) -> u32 {
        let mut node = src;
        for (dimension, (leg, hops)) in sides.iter().zip(at).enumerate() {
            for _ in 0..*hops {
                node = self.cube.step(node, CubeStep { dimension, up: leg.up }).expect("within the box");
            }
        }
        node
    }
}

/// Returns the probability that a packet from the corner to a random node of the box crosses the link from `at` along
/// `dimension`.
///
/// In the dimensions that the packet has already traversed, it has the coordinate of the random node, which is uniformly distributed. In
/// the dimensions that it has not traversed yet, its coordinate is 0. The sum runs over all sets of dimensions that the packet may have
/// traversed before `dimension`. A set of s of the n - 1 other dimensions precedes it with probability s! (n - 1 - s)! / n!.
fn crossing(sides: &[DimensionPath], at: &[u32], dimension: usize) -> f64 {
    let others: Vec<usize> = (0..sides.len()).filter(|d| *d != dimension && sides[*d].hops > 0).collect();
    let n = others.len();
    let mut total = 0.0;
    for before in 0u32..1 << n {
        let is_before = |place: usize| before >> place & 1 == 1;
        if others.iter().enumerate().any(|(place, d)| !is_before(place) && at[*d] > 0) {
            continue;
        }
        let s = before.count_ones() as usize;
        let chance: f64 = others
            .iter()
            .enumerate()
            .filter(|(place, _)| is_before(*place))
            .map(|(_, d)| 1.0 / f64::from(sides[*d].hops + 1))
            .product();
        total += chance / ((n + 1) as f64 * binomial(n, s));
    }
    let beyond = sides[dimension].hops - at[dimension];
    total * f64::from(beyond) / f64::from(sides[dimension].hops + 1)
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}
