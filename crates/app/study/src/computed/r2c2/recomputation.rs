//! R2C2 fig. 8: time that a node needs to compute rates on this machine, as a share of the interval.
//!
//! Two operations that a node performs once per interval are timed. In one, the node adds the flows that have become old
//! enough, with their weights, and recomputes all rates. In the other, it reads the broadcasts of the interval, most of
//! which concern flows that end before they count. The run is repeated several times, and the shortest time of each interval
//! counts, because other work on the machine lengthens some times, and the first run also computes weights that are stored.

use crate::file::StudyScale;
use crate::fluid::{drawn, run, torus};
use crate::random::Random;
use std::time::Instant;
use unrack_protocol::r2c2::weights::Weights;
use unrack_units::Time;

/// Returns shares of one core, by the interval in us: the median and the 99th percentile, for rates and for broadcasts.
pub(super) fn shares(scale: StudyScale) -> Vec<(String, f64)> {
    let (count, times) = match scale {
        StudyScale::Full => (100_000, 7),
        StudyScale::Quick => (3_000, 1),
    };
    let torus = torus(&[8, 8, 8]);
    let flows = drawn(torus.nodes(), count, Time::from_us(1), &mut Random::new(8));
    let last = flows.last().expect("there are flows").start;
    let of = |interval_us: u64| {
        let interval = Time::from_us(interval_us);
        let intervals = (last.as_ps() / interval.as_ps()) as usize;
        let mut shares = [vec![f64::INFINITY; intervals], vec![f64::INFINITY; intervals]];
        let mut weights = Weights::new(torus.clone());
        for _ in 0..times {
            let mut n = 0;
            run(&torus, &flows, interval, |view, now| {
                let start = Instant::now();
                view.read();
                let read = Instant::now();
                view.settle(now, interval, &mut weights);
                let times = [read.elapsed(), read - start];
                // Intervals after the last start of a flow do not count, because only the remaining flows are active in them.
                for (shares, time) in shares.iter_mut().zip(times).filter(|(shares, _)| n < shares.len()) {
                    shares[n] = shares[n].min(time.as_secs_f64() / (interval_us as f64 * 1e-6));
                }
                n += 1;
            });
        }
        ["rates", "broadcasts"].into_iter().zip(shares).flat_map(move |(what, mut shares)| {
            shares.sort_unstable_by(f64::total_cmp);
            let at = |share: f64| shares[((shares.len() - 1) as f64 * share) as usize];
            let named = |name| format!("{interval_us}.{what}.{name}");
            [(named("median"), at(0.5)), (named("p99"), at(0.99))]
        })
    };
    [500, 100].into_iter().flat_map(of).collect()
}
