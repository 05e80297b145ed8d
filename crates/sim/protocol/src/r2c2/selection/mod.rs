//! Selection of each flow's routing (§3.4): a genetic search for the assignment with the highest utility.
//!
//! A genotype assigns a routing to every flow: it has one gene per flow, which is the index of the flow's routing. The fitness of a
//! genotype is the utility of the rates that water-filling computes for this assignment. The best genotypes of a generation survive, and
//! children replace the others. A child has two parents from the better half of the generation, takes each gene from one of the two, and
//! mutates. The search ends when several generations in a row have brought no improvement.

mod expression;
mod problem;

pub use expression::{Expression, NotAnExpression};
pub use problem::SelectionProblem;

use super::Routing;
use super::rates::{Rates, Requirements, Slot, Trials};
use super::weights::{FlowPaths, LinkShare, Weights};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unrack_units::Time;

/// Settings of the selection: its period, the routings that it may assign, and the utility that it maximises.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Time between two selections of routings in the rack. The nodes perform the selections in turn. The paper performs one "every few
    /// seconds or minutes" (§3.4).
    pub period: Time,
    /// Routings that the selection may assign to flows. Default: spraying and Valiant (§5.2).
    #[serde(default = "default_routings")]
    pub routings: Vec<Routing>,
    /// Utility that the selection maximises. Default: aggregate throughput (§3.4).
    #[serde(default = "Expression::aggregate")]
    pub utility: Expression,
    /// Parameters of the genetic search.
    #[serde(default)]
    pub search: Params,
}

fn default_routings() -> Vec<Routing> {
    vec![Routing::Spraying, Routing::Vlb]
}

/// Parameters of the search.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of genotypes in a generation. Default 100 (§5.2).
    pub population: u32,
    /// Probability with which a gene of a child is replaced by a random one. Default 0.01 (§5.2).
    pub mutation: f64,
    /// Fraction of a generation that survives into the next one. Default 0.1; not in the paper.
    pub survivors: f64,
    /// Number of generations in a row without an improvement after which the search ends. Default 10; not in the paper.
    pub patience: u32,
    /// Maximum number of generations. Default 200; not in the paper, which says "until the time expires".
    pub generations: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { population: 100, mutation: 0.01, survivors: 0.1, patience: 10, generations: 200 }
    }
}

/// A flow whose routing the search selects, with the flow's shares of links under each routing that it may use.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub asked: Requirements,
    pub choices: Vec<Arc<[LinkShare]>>,
}

impl Candidate {
    /// Creates the candidate for a flow that may use any of these routings.
    pub fn new(
        asked: Requirements,
        routings: &[Routing],
        ways: FlowPaths,
        weights: &mut Weights,
    ) -> Candidate {
        let shares = |routing: &Routing| weights.shares(FlowPaths { routing: *routing, ..ways });
        Candidate { asked, choices: routings.iter().map(shares).collect() }
    }
}

/// Function that computes the utility of the rack from the rates of its flows, in Kb/s. A larger utility is better.
pub type Utility<'a> = &'a dyn Fn(&[u32]) -> f64;

/// Returns the sum of all rates.
pub fn aggregate(rates: &[u32]) -> f64 {
    rates.iter().map(|rate| f64::from(*rate)).sum()
}

/// Returns a utility function that computes a percentile of the rates. `share` selects the percentile; for example, 0.05 is the fifth
/// percentile.
pub fn tail(share: f64) -> impl Fn(&[u32]) -> f64 {
    move |rates| {
        let mut sorted = rates.to_vec();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted.get(rank - 1).copied().map_or(0.0, f64::from)
    }
}

/// Result of a search: the selected routing of each flow, the utility of this assignment, and the number of generations that the search
/// took.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    pub genes: Vec<u8>,
    pub utility: f64,
    pub generations: u32,
}

/// Genetic search for an assignment.
pub struct Search<'a> {
    flows: &'a [Candidate],
    utility: Utility<'a>,
    params: Params,
    trials: Trials<'a>,
    /// Current generation, best first.
    population: Vec<(f64, Vec<u8>)>,
}

impl<'a> Search<'a> {
    /// Creates a search that starts from the current assignment of routings. `links` must describe the links of the rack and contain no
    /// flows.
    ///
    /// Departure: besides the current assignment and random ones, the first generation contains the assignments in which all flows use the
    /// same routing, because combinations of random assignments would hardly ever be so uniform if there are hundreds of flows.
    pub fn new(
        links: &Rates,
        flows: &'a [Candidate],
        current: Vec<u8>,
        (params, utility): (Params, Utility<'a>),
        random: &mut impl FnMut() -> u64,
    ) -> Search<'a> {
        let lists = |flow: &'a Candidate| (flow.asked, flow.choices.iter().map(|shares| &**shares));
        let trials = Trials::new(links, flows.iter().map(lists));
        let mut search = Search { flows, utility, params, trials, population: Vec::new() };
        let most = flows.iter().map(|flow| flow.choices.len()).max().unwrap_or(0);
        let same = |choice: usize| -> Vec<u8> {
            flows.iter().map(|flow| choice.min(flow.choices.len() - 1) as u8).collect()
        };
        let mut first: Vec<Vec<u8>> = [current].into_iter().chain((0..most).map(same)).collect();
        while first.len() < search.params.population as usize {
            first.push(flows.iter().map(|flow| drawn(flow, random)).collect());
        }
        search.population = first.into_iter().map(|genes| (search.rate(&genes), genes)).collect();
        search.rank();
        search
    }

    /// Returns the best utility found so far, and the genotype that achieves it.
    pub fn best(&self) -> (f64, &[u8]) {
        let (utility, genes) = &self.population[0];
        (*utility, genes)
    }

    /// Runs the search until several generations in a row bring no improvement, or until the maximum number of generations.
    pub fn run(mut self, random: &mut impl FnMut() -> u64) -> SearchResult {
        let (mut generations, mut without) = (0, 0);
        while generations < self.params.generations && without < self.params.patience {
            let before = self.best().0;
            self.generation(random);
            generations += 1;
            without = if self.best().0 > before { 0 } else { without + 1 };
        }
        let (utility, genes) = self.population.swap_remove(0);
        SearchResult { genes, utility, generations }
    }

    /// Replaces the population by the next generation.
    pub fn generation(&mut self, random: &mut impl FnMut() -> u64) {
        let size = self.population.len();
        let survive = ((size as f64 * self.params.survivors).ceil() as usize).clamp(1, size);
        let better = size.div_ceil(2);
        let children: Vec<Vec<u8>> = (survive..size)
            .map(|_| {
                let [one, other] = [0, 1].map(|_| below(random, better as u64) as usize);
                self.child(one, other, random)
            })
            .collect();
        self.population.truncate(survive);
        for genes in children {
            let utility = self.rate(&genes);
            self.population.push((utility, genes));
        }
        self.rank();
    }

    fn child(&self, one: usize, other: usize, random: &mut impl FnMut() -> u64) -> Vec<u8> {
        let (one, other) = (&self.population[one].1, &self.population[other].1);
        let mutates = (self.params.mutation * 2f64.powi(32)) as u64;
        let mut of = 0;
        let gene = |(n, flow): (usize, &Candidate)| {
            if n % 64 == 0 {
                of = random();
            }
            let inherited = if of >> (n % 64) & 1 == 0 { one[n] } else { other[n] };
            if random() >> 32 < mutates { drawn(flow, random) } else { inherited }
        };
        self.flows.iter().enumerate().map(gene).collect()
    }

    fn rate(&mut self, genes: &[u8]) -> f64 {
        (self.utility)(self.trials.rate(genes))
    }

    /// Sorts the genotypes of the generation by utility, best first. The sort is stable: of several with equal utility, the oldest comes
    /// first.
    fn rank(&mut self) {
        self.population.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    }
}

/// Returns the utility of an assignment: flow n uses the routing with index `genes[n]` among its candidates. `links` must contain no flows.
pub fn worth(links: Rates, flows: &[Candidate], genes: &[u8], utility: Utility) -> f64 {
    let mut rates = links;
    let add =
        |(flow, gene): (&Candidate, &u8)| rates.add(flow.asked, flow.choices[usize::from(*gene)].clone());
    let slots: Vec<Slot> = flows.iter().zip(genes).map(add).collect();
    rates.settle();
    let rates: Vec<u32> = slots.into_iter().map(|slot| rates.kbps(slot)).collect();
    utility(&rates)
}

fn drawn(flow: &Candidate, random: &mut impl FnMut() -> u64) -> u8 {
    below(random, flow.choices.len() as u64) as u8
}

fn below(random: &mut impl FnMut() -> u64, limit: u64) -> u64 {
    ((u128::from(random()) * u128::from(limit)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_basis::SplitMix64;
    use unrack_rack::graph::{Graph, Sides};
    use unrack_units::Rate;

    fn random() -> impl FnMut() -> u64 {
        let mut random = SplitMix64::new(7);
        move || random.next_u64()
    }

    fn candidates(graph: &Arc<Graph>, ends: &[(u32, u32)]) -> Vec<Candidate> {
        let mut weights = Weights::new(graph.clone());
        let routings = [Routing::Spraying, Routing::Vlb];
        let ways =
            |(src, dst): &(u32, u32)| FlowPaths { routing: routings[0], src: *src, dst: *dst, flow: 0 };
        let candidate = |ends| Candidate::new(Requirements::default(), &routings, ways(ends), &mut weights);
        ends.iter().map(candidate).collect()
    }

    fn links(graph: &Graph) -> Rates {
        Rates::new((0..graph.links()).map(|_| Rate::from_gbps(10)), 0.05)
    }

    fn worth(graph: &Graph, flows: &[Candidate], genes: &[u8]) -> f64 {
        super::worth(links(graph), flows, genes, &aggregate)
    }

    /// The genetic search finds the best of all 512 assignments of routings to nine flows.
    #[test]
    fn the_best_of_few_is_found() {
        let graph = Arc::new(Graph::cube(Sides::new(&[4, 4]).unwrap(), true).unwrap());
        let ends = [(0, 1), (1, 2), (4, 5), (5, 9), (2, 8), (3, 12), (6, 14), (7, 0), (9, 10)];
        let flows = candidates(&graph, &ends);
        let all = (0u32..512).map(|number| (0..9).map(|bit| (number >> bit & 1) as u8).collect::<Vec<u8>>());
        let best = all.map(|genes| worth(&graph, &flows, &genes)).fold(0.0, f64::max);
        let mut random = random();
        let with = (Params::default(), &aggregate as Utility);
        let found = Search::new(&links(&graph), &flows, vec![0; 9], with, &mut random).run(&mut random);
        assert_eq!(found.utility, worth(&graph, &flows, &found.genes), "as if rated alone");
        assert!(found.utility >= best * 0.999, "{} of {best}", found.utility);
    }

    #[test]
    fn it_is_never_worse_than_one_routing_for_all() {
        let graph = Arc::new(Graph::cube(Sides::new(&[4, 4]).unwrap(), true).unwrap());
        let ends: Vec<(u32, u32)> = (0..16).map(|src| (src, (src * 5 + 3) % 16)).collect();
        let flows = candidates(&graph, &ends);
        let mut random = random();
        let params = Params { generations: 3, ..Params::default() };
        for utility in [&aggregate as Utility, &tail(0.05)] {
            let mut search =
                Search::new(&links(&graph), &flows, vec![0; 16], (params.clone(), utility), &mut random);
            let mut before = search.best().0;
            for _ in 0..3 {
                search.generation(&mut random);
                assert!(search.best().0 >= before);
                before = search.best().0;
            }
        }
        let with = (params, &aggregate as Utility);
        let found = Search::new(&links(&graph), &flows, vec![1; 16], with, &mut random).run(&mut random);
        let least = [0, 1].map(|gene| worth(&graph, &flows, &[gene; 16])).into_iter().fold(0.0, f64::max);
        assert!(found.utility >= least);
    }

    #[test]
    fn the_tail_is_a_percentile() {
        let rates: Vec<u32> = (1..=100).rev().collect();
        assert_eq!((tail(0.05)(&rates), tail(0.0)(&rates), tail(1.0)(&rates)), (5.0, 1.0, 100.0));
    }
}
