//! R2C2 figs. 15 and 16: error of the flows' rates that results from computing rates at intervals, and not at every change.

use crate::file::StudyScale;
use crate::fluid::{Went, drawn, run, torus};
use crate::random::Random;
use rayon::prelude::*;
use unrack_protocol::r2c2::weights::Weights;
use unrack_units::Time;

/// Cases: mean gap between flows, and interval between computations of rates, both in us.
const CASES: [(f64, u64); 7] =
    [(1.0, 100), (1.0, 500), (1.0, 1_000), (1.0, 2_000), (0.1, 500), (10.0, 500), (100.0, 500)];

/// Returns the median and the 95th percentile of the error for each case: of the rates that flows were assigned, and of the
/// mean rates from start to end.
///
/// `interval_of` converts the interval of a case, in us, to the interval between computations of rates.
pub(super) fn errors(scale: StudyScale, interval_of: fn(u64) -> Time) -> Vec<(String, f64)> {
    let flows = match scale {
        StudyScale::Full => 40_000,
        StudyScale::Quick => 500,
    };
    let errors = CASES.par_iter().flat_map_iter(|(gap_us, interval_us)| {
        let gap = Time::from_ps((gap_us * 1e6) as u64);
        let [ideal, real] =
            [Time::ZERO, interval_of(*interval_us)].map(|interval| rates(flows, gap, interval));
        let of = |rate: fn(&Went) -> Option<f64>| {
            let both = ideal.iter().zip(&real);
            let error = |(ideal, real): (&Went, &Went)| Some((rate(real)? / rate(ideal)? - 1.0).abs());
            percentiles(both.filter_map(error).collect())
        };
        let case = format!("{gap_us}.{interval_us}");
        let assigned = of(|went| went.assigned_kbps);
        let whole = of(|went| Some(went.mean_kbps));
        [
            (format!("{case}.assigned.median"), assigned[0]),
            (format!("{case}.assigned.p95"), assigned[1]),
            (format!("{case}.whole.median"), whole[0]),
            (format!("{case}.whole.p95"), whole[1]),
        ]
    });
    errors.collect()
}

fn rates(flows: usize, gap: Time, interval: Time) -> Vec<Went> {
    let torus = torus(&[8, 8, 8]);
    let mut weights = Weights::new(torus.clone());
    let flows = drawn(torus.nodes(), flows, gap, &mut Random::new(15));
    run(&torus, &flows, interval, |view, now| view.settle(now, interval, &mut weights))
}

/// Returns the median and the 95th percentile by nearest rank; NaN if there are no values.
fn percentiles(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_unstable_by(f64::total_cmp);
    [0.5, 0.95].map(|share| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    })
}
