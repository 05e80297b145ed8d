//! Model of the blade's link to remote memory: computes when a transfer arrives.
//!
//! A page occupies the link for its transmission time, and in each direction pages queue one behind another. Latency is the same for all
//! pages and overlaps with that of other pages. All processes of the run share both directions.

use crate::control::{ControlHead, PagerSettings};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use unrack_basis::{SplitMix64, mix_13};

/// Returns the arrival time (monotonic ns) of a transfer that is requested at `start_ns` and takes `transmit_ns` on the link plus
/// `latency_ns`. Occupies the link for the transmission, and updates `free_ns`, the time when the link is free again.
pub fn arrival(free_ns: &AtomicU64, start_ns: u64, transmit_ns: u64, latency_ns: u64) -> u64 {
    if transmit_ns == 0 {
        return start_ns + latency_ns;
    }
    let occupy = |free: u64| Some(free.max(start_ns) + transmit_ns);
    let before = free_ns.fetch_update(Relaxed, Relaxed, occupy).unwrap_or(0);
    before.max(start_ns) + transmit_ns + latency_ns
}

/// Returns the transmission time of `bytes` in nanoseconds, rounded up; 0 without a bandwidth.
pub fn transmit_ns(settings: &PagerSettings, bytes: u64) -> u64 {
    match settings.bandwidth_bps.load(Relaxed) {
        0 => 0,
        bps => (bytes as u128 * 8 * 1_000_000_000).div_ceil(bps as u128) as u64,
    }
}

/// Source of latencies: a constant, or random draws from samples.
pub struct LatencySource {
    samples: &'static [AtomicU64],
    /// Draw `n` of process `p` depends only on (seed, p, n).
    random: SplitMix64,
}

impl LatencySource {
    /// Makes the source of latencies of one process.
    pub fn new(control: &ControlHead, samples: &'static [AtomicU64], process: u32) -> LatencySource {
        let seed = control.settings.seed.load(Relaxed);
        LatencySource { samples, random: SplitMix64::new(mix_13(seed ^ (process as u64) << 32)) }
    }

    /// Returns the latency of the next fetch without its transmission, in ns.
    pub fn next_ns(&mut self, settings: &PagerSettings, transmit_ns: u64) -> u64 {
        if self.samples.is_empty() {
            return settings.latency_ns.load(Relaxed);
        }
        let pick = (self.random.next_u64() as u128 * self.samples.len() as u128) >> 64;
        // A drawn completion time already includes the page's transmission.
        (self.samples[pick as usize].load(Relaxed) / 1000).saturating_sub(transmit_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_queue_for_the_wire_and_share_the_latency() {
        let free = AtomicU64::new(0);
        let arrivals: Vec<_> = (0..3).map(|_| arrival(&free, 1_000, 100, 5_000)).collect();
        assert_eq!(arrivals, [6_100, 6_200, 6_300]);
        assert_eq!(arrival(&free, 9_000, 100, 5_000), 14_100, "an idle link starts at once");
    }

    #[test]
    fn without_bandwidth_only_latency_counts() {
        let free = AtomicU64::new(0);
        assert_eq!(arrival(&free, 7, 0, 10), 17);
        assert_eq!(arrival(&free, 7, 0, 10), 17);
    }
}
