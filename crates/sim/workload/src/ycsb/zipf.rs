//! Random numbers with the Zipfian distribution of YCSB.
//!
//! The numbers are drawn as in `ZipfianGenerator` and `ScrambledZipfianGenerator` of YCSB's core package (Cooper et
//! al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010). These use the method of Gray et al., "Quickly
//! Generating Billion-Record Synthetic Databases" (SIGMOD 1994, §3.2). The first two ranks have exactly the
//! probabilities of Zipf's law. The probabilities of the other ranks follow a curve through these two.

use rand::RngExt;
use unrack_basis::fnv_1a;

/// Exponent of the distribution: `ZipfianGenerator.ZIPFIAN_CONSTANT`.
pub const CONSTANT: f64 = 0.99;
/// Number of ranks, which is independent of the number of records: `ScrambledZipfianGenerator.ITEM_COUNT`.
pub const RANKS: u64 = 10_000_000_000;
/// Sum of `1 / i^0.99` for all `i` from 1 to [`RANKS`]: `ScrambledZipfianGenerator.ZETAN`.
pub const ZETA: f64 = 26.469_028_201_783_02;

/// Zipfian distribution of ranks. The ranks are numbered from 0, and rank 0 has the highest probability.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    count: f64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Returns the distribution with the constants of YCSB.
    pub fn ycsb() -> Zipf {
        Zipf::new(RANKS, CONSTANT, ZETA)
    }

    /// Creates a distribution of `count` ranks with the exponent `theta`. `zeta` must be the sum of `1 / i^theta` for
    /// all `i` from 1 to `count`.
    pub fn new(count: u64, theta: f64, zeta: f64) -> Zipf {
        let two = 1.0 + 0.5f64.powf(theta);
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf { count, theta, zeta, alpha: 1.0 / (1.0 - theta), eta }
    }

    /// Returns the rank at the cumulative probability `unit`, a number from 0 to 1.
    pub fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (self.count * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
    }

    /// Draws a rank at random.
    pub fn draw(&self, random: &mut impl RngExt) -> u64 {
        self.rank(random.random())
    }

    /// Returns the total probability of all ranks below `rank`. This function is the inverse of [`rank`](Zipf::rank).
    pub fn below(&self, rank: u64) -> f64 {
        let of_two = [0.0, 1.0 / self.zeta, (1.0 + 0.5f64.powf(self.theta)) / self.zeta];
        match of_two.get(rank as usize) {
            Some(&probability) => probability,
            None => {
                let curve = (rank as f64 / self.count).powf(1.0 - self.theta);
                ((curve - 1.0 + self.eta) / self.eta).clamp(of_two[2], 1.0)
            }
        }
    }
}

/// Returns the absolute value of a hash of a number. The hash is YCSB's `Utils.fnvhash64`: FNV-1a over the bytes of the
/// number, lowest byte first.
pub fn scatter(number: u64) -> u64 {
    (fnv_1a(&number.to_le_bytes()) as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    /// Computes `zeta` by the Euler-Maclaurin formula: sums up the first terms one by one, and approximates the sum of
    /// the others by an integral with corrections.
    fn zeta(count: u64, theta: f64) -> f64 {
        let term = |i: f64| i.powf(-theta);
        let from = 1000f64;
        let to = count as f64;
        let head: f64 = (1..1000).map(|i| term(f64::from(i))).sum();
        let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
        let ends = (term(from) + term(to)) / 2.0;
        let slope = |i: f64| -theta * i.powf(-theta - 1.0);
        head + integral + ends + (slope(to) - slope(from)) / 12.0
    }

    #[test]
    fn the_constant_is_the_sum_it_says() {
        assert!((zeta(RANKS, CONSTANT) - ZETA).abs() < 1e-8, "{}", zeta(RANKS, CONSTANT));
    }

    #[test]
    fn ranks_are_as_likely_as_the_closed_form_says() {
        const DRAWS: usize = 400_000;
        let zipf = Zipf::ycsb();
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut ranks: Vec<u64> = (0..DRAWS).map(|_| zipf.draw(&mut random)).collect();
        ranks.sort_unstable();
        // Kolmogorov-Smirnov test. With the bound 1.95 / sqrt(n), one seed in a thousand fails, but the seed of this
        // test does not.
        let bound = 1.95 / (DRAWS as f64).sqrt();
        let mut at = 0;
        for rank in (1..40).map(|power| 1.8f64.powi(power) as u64) {
            at += ranks[at..].partition_point(|&drawn| drawn < rank);
            let share = at as f64 / DRAWS as f64;
            assert!((share - zipf.below(rank)).abs() < bound, "{rank}: {share} {}", zipf.below(rank));
        }
        // The frequencies of the two ranks that follow Zipf's law exactly are within four standard deviations of their
        // probabilities.
        for (rank, expected) in [(0, 1.0 / ZETA), (1, 0.5f64.powf(CONSTANT) / ZETA)] {
            let share = ranks.iter().filter(|&&drawn| drawn == rank).count() as f64 / DRAWS as f64;
            let deviation = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
            assert!((share - expected).abs() < 4.0 * deviation, "{rank}: {share} {expected}");
        }
    }

    /// With few ranks, all ranks are drawn and no others, and larger numbers are mapped to larger ranks.
    #[test]
    fn ranks_stay_inside() {
        let zipf = Zipf::new(50, CONSTANT, zeta_of(50));
        let ranks: Vec<u64> = (0..10_000).map(|i| zipf.rank(f64::from(i) / 10_000.0)).collect();
        assert!(ranks.is_sorted() && ranks[0] == 0 && ranks[9_999] == 49);
        for rank in 1..50 {
            let unit = zipf.below(rank);
            assert!((zipf.rank(unit + 1e-9), zipf.rank(unit - 1e-9)) == (rank, rank - 1), "{rank}");
        }
    }

    fn zeta_of(count: u32) -> f64 {
        (1..=count).map(|i| f64::from(i).powf(-CONSTANT)).sum()
    }

    /// The authors of FNV publish hashes of texts. The expected hash of eight zero bytes in this test follows from the
    /// definition of FNV-1a.
    #[test]
    fn scattered_as_fnv_does() {
        let prime = 0x0000_0100_0000_01b3u64;
        let zeros = (0..8).fold(0xcbf2_9ce4_8422_2325u64, |hash, _| hash.wrapping_mul(prime));
        assert_eq!(scatter(0), (zeros as i64).unsigned_abs());
        assert_ne!(scatter(1), scatter(2));
    }
}
