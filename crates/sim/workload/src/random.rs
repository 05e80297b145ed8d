//! Random numbers. There is one generator for each purpose and actor, so that an additional draw in one place does not
//! change draws elsewhere.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use unrack_basis::mix;

/// Generator of random numbers.
pub type Generator = Pcg64Mcg;

/// Purpose for which a generator is used.
#[derive(Debug, Clone, Copy)]
pub enum DrawPurpose {
    Arrivals = 1,
    Destinations = 2,
    Sizes = 3,
    Kinds = 4,
    Permutation = 5,
    Offsets = 6,
    Disks = 7,
    /// Traffic that a fabric carries besides the workload.
    Frames = 8,
    FrameDestinations = 9,
    /// Edges of graphs, and the order of their vertices.
    Edges = 10,
    Labels = 11,
    /// Keys requested from a store.
    Keys = 12,
    /// Words of texts.
    Words = 13,
    /// Rows of embeddings.
    Rows = 14,
}

/// Returns the generator for one purpose and actor in a run with this seed.
pub fn generator(seed: u64, purpose: DrawPurpose, actor: u32) -> Pcg64Mcg {
    let of = (u64::from(actor) << 8) | purpose as u64;
    Pcg64Mcg::seed_from_u64(mix(mix(seed) ^ of))
}

/// Draws a number uniformly from 0 to 1, excluding 1.
pub fn unit(generator: &mut Pcg64Mcg) -> f64 {
    (generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Draws a number uniformly from 0..below, by multiplication. For the few thousand nodes of a rack, the bias is below
/// 2^-32.
pub fn below(generator: &mut Pcg64Mcg, below: u32) -> u32 {
    scale((generator.next_u64() >> 32) as u32, below)
}

/// Maps the range of `u32` evenly onto 0..below.
pub fn scale(value: u32, below: u32) -> u32 {
    ((u64::from(value) * u64::from(below)) >> 32) as u32
}

/// Converts a drawn rank, from 1 to `of`, to an index from 0. The result is limited because rounding can take a draw
/// from Zipf's law past the last rank.
pub fn drawn(rank: f64, of: u32) -> u32 {
    (rank as u32).clamp(1, of) - 1
}
