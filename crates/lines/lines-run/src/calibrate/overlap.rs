//! Overlap of cache misses, measured as the throughput of several independent pointer chases that one thread follows
//! simultaneously.

use super::chase::{ChaseOrder, LINE, follow_many, link};
use super::clock::time_ns;
use super::spread::MeasuredSpread;
use serde::{Deserialize, Serialize};

/// Number of loads per round, summed over all chases.
const LOADS: usize = 1 << 18;

/// Throughput of a number of independent pointer chases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Number of simultaneous chases.
    pub chases: u32,
    /// Time per load of any chase, in nanoseconds.
    pub load_ns: MeasuredSpread,
}

/// Measures the time per load for 1 to 48 simultaneous chases, each of which visits lines in all of `bytes`.
pub(super) fn measure(bytes: &mut [u8], rounds: usize) -> Vec<Overlap> {
    let ring = link(bytes, ChaseOrder::Random, 11);
    vec![
        chases::<1>(bytes, &ring, rounds),
        chases::<2>(bytes, &ring, rounds),
        chases::<4>(bytes, &ring, rounds),
        chases::<6>(bytes, &ring, rounds),
        chases::<8>(bytes, &ring, rounds),
        chases::<10>(bytes, &ring, rounds),
        chases::<12>(bytes, &ring, rounds),
        chases::<16>(bytes, &ring, rounds),
        chases::<20>(bytes, &ring, rounds),
        chases::<24>(bytes, &ring, rounds),
        chases::<32>(bytes, &ring, rounds),
        chases::<48>(bytes, &ring, rounds),
    ]
}

fn chases<const K: usize>(bytes: &[u8], ring: &[u32], rounds: usize) -> Overlap {
    let steps = LOADS / K;
    let mut at = std::array::from_fn(|k| ring[k * ring.len() / K] as usize * LINE);
    let round = || time_ns(|| at = follow_many::<K>(bytes, at, steps)) / (steps * K) as f64;
    Overlap { chases: K as u32, load_ns: MeasuredSpread::rounds(rounds, round) }
}

/// Returns the number of cache misses in flight when further chases no longer increase the throughput. By Little's law,
/// it is the latency of a load with one chase, divided by the minimum time per load with any number of chases.
pub(super) fn most_at_once(overlaps: &[Overlap]) -> Option<f64> {
    let one = overlaps.iter().find(|overlap| overlap.chases == 1)?.load_ns.median;
    let least = overlaps.iter().map(|overlap| overlap.load_ns.median).min_by(f64::total_cmp)?;
    (least > 0.0).then_some(one / least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_the_chases_that_still_helped() {
        let overlap = |chases: u32| {
            let ns = 120.0 / f64::from(chases.min(12));
            Overlap { chases, load_ns: MeasuredSpread { min: ns, median: ns, max: ns } }
        };
        let overlaps: Vec<Overlap> = [1, 2, 8, 16, 32].map(overlap).to_vec();
        assert_eq!(most_at_once(&overlaps), Some(12.0));
        assert_eq!(most_at_once(&[]), None);
    }

    #[test]
    fn more_chases_take_less_time_each() {
        let mut bytes = vec![0; 4 << 20];
        let overlaps = measure(&mut bytes, 3);
        assert!(most_at_once(&overlaps).unwrap() > 1.5, "{overlaps:?}");
    }
}
