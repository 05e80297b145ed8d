//! Random numbers. Each purpose and each actor has a separate generator, so that an additional draw for one of them
//! does not change the numbers that other purposes or actors draw.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use unrack_basis::mix;

/// Generator of random numbers.
pub type Generator = Pcg64Mcg;

/// Purpose for which random numbers are drawn.
#[derive(Debug, Clone, Copy)]
pub enum DrawPurpose {
    Arrivals = 1,
    Destinations = 2,
    Sizes = 3,
    Kinds = 4,
    Permutation = 5,
    Offsets = 6,
    Disks = 7,
    /// Frames that a fabric carries in addition to the messages of the workload, and their destinations.
    Frames = 8,
    FrameDestinations = 9,
    /// Edges of random graphs, and the order of their vertices.
    Edges = 10,
    Labels = 11,
    /// Keys that clients request from a key-value store.
    Keys = 12,
    /// Words of random texts.
    Words = 13,
    /// Rows of embedding tables.
    Rows = 14,
    /// Experts that the gate of a mixture of experts selects for each token.
    Experts = 15,
}

/// Returns the generator for one purpose and one actor, in a run with this seed.
pub fn generator(seed: u64, purpose: DrawPurpose, actor: u32) -> Pcg64Mcg {
    let of = (u64::from(actor) << 8) | purpose as u64;
    Pcg64Mcg::seed_from_u64(mix(mix(seed) ^ of))
}

/// Draws a number uniformly from 0 (inclusive) to 1 (exclusive).
pub fn unit(generator: &mut Pcg64Mcg) -> f64 {
    (generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Draws a whole number uniformly from `0..below`, by multiplication instead of division. For the few thousand nodes of
/// a rack, the bias is below 2^-32.
pub fn below(generator: &mut Pcg64Mcg, below: u32) -> u32 {
    scale((generator.next_u64() >> 32) as u32, below)
}

/// Maps the values of `u32` evenly to `0..below`.
pub fn scale(value: u32, below: u32) -> u32 {
    ((u64::from(value) * u64::from(below)) >> 32) as u32
}

/// Converts a rank from 1 to `of`, drawn by Zipf's law, to an index that starts from 0. The result is limited to the
/// last index, because a rounding error may let the drawn rank exceed `of`.
pub fn drawn(rank: f64, of: u32) -> u32 {
    (rank as u32).clamp(1, of) - 1
}
