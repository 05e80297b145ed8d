//! Traffic patterns, which determine the sources and destinations of messages.
//!
//! With `incast`, the destination of all messages is the last node that can be a destination. The sources are all other
//! nodes or, if `fan_in` is given, this number of evenly spaced nodes; the remaining nodes send no messages. With
//! `hot-spots`, the k-th destination has the weight `k^-exponent`. Successive destinations in this order are in
//! different racks in turn. If all nodes are destinations, node 0 has the highest weight.

use crate::blades::{BladeNodes, BladeRacks, ByRack};
use crate::error::WorkloadError;
use crate::message::NodeId;
use crate::random::{DrawPurpose, below, generator, unit};
use rand_pcg::Pcg64Mcg;
use unrack_rack::{Blades, Pattern, Scope};
use unrack_units::Fraction;

/// Sources of a traffic pattern, and the distribution of each source's destinations.
pub(super) struct Partners {
    pub sources: Vec<NodeId>,
    destinations: ByRack,
    racks: BladeRacks,
    /// Whether every node is both a source and a destination. A node never sends a message to itself.
    both: bool,
    choice: DestinationChoice,
}

/// Method by which the destination of a message is drawn.
enum DestinationChoice {
    Uniform,
    Near(f64),
    /// Destinations in descending order of weight, with the cumulative weights in this order.
    Zipf {
        hottest: Vec<NodeId>,
        cumulative: Vec<f64>,
    },
    /// Fixed destination of each source, indexed by the number of the source.
    Fixed(Vec<NodeId>),
}

impl Partners {
    /// Creates the pattern for messages between nodes or to memory blades. If blades are given, compute blades send to
    /// memory blades. Otherwise every node is a source and a destination.
    ///
    /// # Errors
    /// If the pattern is not possible on these nodes.
    pub(super) fn new(
        pattern: Pattern,
        blades: Option<Blades>,
        racks: BladeRacks,
        seed: u64,
    ) -> Result<Partners, WorkloadError> {
        let nodes = racks.nodes();
        if nodes < 2 {
            return Err(WorkloadError::new("network.topology.nodes", "is at least 2", nodes));
        }
        let Some(blades) = blades else {
            return Partners::among((0..nodes).collect(), (0..nodes).collect(), pattern, racks, seed);
        };
        let BladeNodes { compute, memory, .. } = BladeNodes::new(blades, racks)?;
        let near = blades.scope == Scope::Rack;
        if near && pattern != Pattern::AllToAll {
            let rule = "is \"datacenter\" unless the pattern is all-to-all";
            return Err(WorkloadError::new("workload.blades.scope", rule, "\"rack\""));
        }
        let pattern = if near { in_own_rack() } else { pattern };
        Partners::among(compute, memory, pattern, racks, seed)
    }

    /// Creates the pattern for messages from compute blades to disk blades.
    ///
    /// # Errors
    /// If the pattern is not possible on these nodes.
    pub(super) fn disks(blades: Blades, racks: BladeRacks, seed: u64) -> Result<Partners, WorkloadError> {
        let pattern = match blades.scope {
            Scope::Rack => in_own_rack(),
            Scope::Datacenter => Pattern::AllToAll,
        };
        let BladeNodes { compute, disk, .. } = BladeNodes::new(blades, racks)?;
        Partners::among(compute, disk, pattern, racks, seed)
    }

    fn among(
        mut sources: Vec<NodeId>,
        mut to: Vec<NodeId>,
        pattern: Pattern,
        racks: BladeRacks,
        seed: u64,
    ) -> Result<Partners, WorkloadError> {
        let both = sources == to;
        if let Pattern::Incast { .. } = pattern {
            to.drain(..to.len() - 1);
            sources.retain(|node| *node != to[0]);
        }
        let choice = match pattern {
            Pattern::AllToAll | Pattern::Incast { fan_in: None } => DestinationChoice::Uniform,
            Pattern::Incast { fan_in: Some(count) } => {
                sources = spread(&sources, count)?;
                DestinationChoice::Uniform
            }
            Pattern::Permutation => DestinationChoice::Fixed(permutation(sources.len(), &to, seed)),
            Pattern::RackLocal { fraction } => DestinationChoice::Near(fraction.get()),
            Pattern::HotSpots { exponent } => zipf(&to, racks, exponent)?,
        };
        let both = both && sources == to;
        let partners = Partners { sources, destinations: ByRack::new(to, racks), racks, both, choice };
        if let DestinationChoice::Near(share) = partners.choice {
            partners.check_near(share)?;
        }
        Ok(partners)
    }

    /// Checks that every source has a destination in its rack, unless `share` is 0, and a destination in another rack,
    /// unless `share` is 1. `share` is the fraction of messages to destinations in the source's rack.
    fn check_near(&self, share: f64) -> Result<(), WorkloadError> {
        let refuse = |rule, value: String| Err(WorkloadError::new("workload.pattern.fraction", rule, value));
        for src in &self.sources {
            let rack = self.racks.rack_of(*src);
            let near = self.destinations.in_rack(rack).len() as u32;
            if share > 0.0 && near == u32::from(self.both) {
                return refuse(
                    "is 0 if a rack has no peer rack",
                    format!("{share} with node {src} alone in rack {rack}"),
                );
            }
            if share < 1.0 && near == self.destinations.len() {
                return refuse(
                    "is 1 where there is no other rack",
                    format!("{share} with all in rack {rack}"),
                );
            }
        }
        Ok(())
    }

    /// Draws the destination for a message of the `n`-th source.
    pub(super) fn destination(&self, n: u32, draws: &mut Pcg64Mcg) -> NodeId {
        let (src, to) = (self.sources[n as usize], &self.destinations);
        let place = match &self.choice {
            DestinationChoice::Uniform if self.both => {
                let other = below(draws, to.len() - 1);
                other + u32::from(other >= src)
            }
            DestinationChoice::Uniform => below(draws, to.len()),
            DestinationChoice::Near(share) => self.near_or_far(src, *share, draws),
            DestinationChoice::Zipf { hottest, cumulative } => loop {
                let node = hottest[weighed(cumulative, unit(draws))];
                if node != src {
                    return node;
                }
            },
            DestinationChoice::Fixed(of) => return of[n as usize],
        };
        to.nodes[place as usize]
    }

    fn near_or_far(&self, src: NodeId, share: f64, draws: &mut Pcg64Mcg) -> u32 {
        let near = self.destinations.in_rack(self.racks.rack_of(src));
        let count = near.len() as u32;
        if unit(draws) >= share {
            let other = below(draws, self.destinations.len() - count);
            return other + if other >= near.start { count } else { 0 };
        }
        let other = near.start + below(draws, count - u32::from(self.both));
        other + u32::from(self.both && other >= src)
    }

    /// Returns whether every node is both a source and a destination.
    pub(super) fn nodes_do_both(&self) -> bool {
        self.both
    }

    /// Returns the mean number of messages that the busiest destination receives, in the time in which each source
    /// sends one message.
    pub(super) fn heaviest(&self) -> f64 {
        let even = self.sources.len() as f64 / f64::from(self.destinations.len());
        match &self.choice {
            DestinationChoice::Uniform => {
                if self.both {
                    1.0
                } else {
                    even
                }
            }
            DestinationChoice::Near(share) => self.heaviest_near(*share),
            DestinationChoice::Zipf { hottest, cumulative } => {
                let weight = |n: usize| cumulative[n] - if n == 0 { 0.0 } else { cumulative[n - 1] };
                // A source that is itself a destination never draws itself. Therefore the weight of each other
                // destination is divided by the sum of the remaining weights.
                let of = |n: usize| 1.0 / (1.0 - weight(n));
                match self.both {
                    true => weight(0) * (1..hottest.len()).map(of).sum::<f64>(),
                    false => weight(0) * self.sources.len() as f64,
                }
            }
            DestinationChoice::Fixed(_) => even.ceil(),
        }
    }

    fn heaviest_near(&self, share: f64) -> f64 {
        let racks = 0..self.racks.racks;
        let mut sources = vec![0.0; racks.len()];
        self.sources.iter().for_each(|src| sources[self.racks.rack_of(*src) as usize] += 1.0);
        let to = |rack| self.destinations.in_rack(rack).len() as f64;
        let all = f64::from(self.destinations.len());
        // Mean number of messages that one destination outside a rack receives from the sources in this rack, if each
        // source sends one message.
        let far = |rack: u32| match sources[rack as usize] {
            0.0 => 0.0,
            _ if share == 1.0 => 0.0,
            sources => sources * (1.0 - share) / (all - to(rack)),
        };
        let far_of_all: f64 = racks.clone().map(far).sum();
        let near = |rack: u32| match self.both {
            true => share,
            false => sources[rack as usize] * share / to(rack),
        };
        racks
            .filter(|rack| to(*rack) > 0.0)
            .map(|rack| near(rack) + far_of_all - far(rack))
            .fold(0.0, f64::max)
    }
}

/// Returns the pattern in which sources send only to destinations in their own rack.
fn in_own_rack() -> Pattern {
    Pattern::RackLocal { fraction: Fraction::new(1.0).expect("all is a fraction") }
}

/// Returns `count` of the nodes, evenly spaced in their order.
fn spread(nodes: &[NodeId], count: u32) -> Result<Vec<NodeId>, WorkloadError> {
    if count == 0 || count as usize > nodes.len() {
        let rule = "is at least 1 and at most the number of other nodes";
        return Err(WorkloadError::new(
            "workload.pattern.fan_in",
            rule,
            format!("{count} of {}", nodes.len()),
        ));
    }
    Ok((0..count as usize).map(|n| nodes[n * nodes.len() / count as usize]).collect())
}

/// Returns the destinations in descending order of weight, with their cumulative weights.
fn zipf(to: &[NodeId], racks: BladeRacks, exponent: f64) -> Result<DestinationChoice, WorkloadError> {
    if !(0.0..=MOST_EXPONENT).contains(&exponent) {
        return Err(WorkloadError::new("workload.pattern.exponent", "is from 0 to 4", exponent));
    }
    let mut hottest = to.to_vec();
    hottest.sort_by_key(|node| (node % racks.hosts, node / racks.hosts));
    let weights: Vec<f64> = (1..=to.len()).map(|rank| (rank as f64).powf(-exponent)).collect();
    let all: f64 = weights.iter().sum();
    let cumulative = weights.iter().scan(0.0, |sum, weight| {
        *sum += weight / all;
        Some(*sum)
    });
    Ok(DestinationChoice::Zipf { cumulative: cumulative.collect(), hottest })
}

/// Maximum exponent of the weights of hot spots. With it, the hottest destination receives nine in ten of all messages.
const MOST_EXPONENT: f64 = 4.0;

/// Returns the index of the first destination whose cumulative weight is above `p`.
fn weighed(cumulative: &[f64], p: f64) -> usize {
    cumulative.partition_point(|sum| *sum <= p).min(cumulative.len() - 1)
}

/// Returns the fixed destination of each source. If sources and destinations are the same nodes, the destinations form
/// a random cycle (Sattolo), so that no node is its own destination. Otherwise the sources take the destinations in a
/// random order, which is repeated if there are more sources than destinations.
fn permutation(sources: usize, destinations: &[NodeId], seed: u64) -> Vec<NodeId> {
    let mut draws = generator(seed, DrawPurpose::Permutation, 0);
    let mut to = destinations.to_vec();
    for last in (1..to.len() as u32).rev() {
        to.swap(last as usize, below(&mut draws, last) as usize);
    }
    to.into_iter().cycle().take(sources).collect()
}
