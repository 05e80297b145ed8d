//! Arrival times of the messages that one sender submits.

use crate::error::WorkloadError;
use crate::random::unit;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use unrack_rack::Arrivals;
use unrack_units::Time;

/// Maximum sigma of log-normal gaps. With it, the variance of a gap is `e^(sigma^2) - 1`, or eight thousand, times the
/// square of the mean gap.
const MOST_SIGMA: f64 = 3.0;

/// Checks the parameters of a distribution of arrivals.
///
/// # Errors
/// If sigma is out of bounds.
pub(super) fn check(arrivals: Arrivals) -> Result<(), WorkloadError> {
    match arrivals {
        Arrivals::LogNormal { sigma } if !(sigma > 0.0 && sigma <= MOST_SIGMA) => {
            Err(WorkloadError::new("workload.arrivals.sigma", "is above 0 and at most 3", sigma))
        }
        _ => Ok(()),
    }
}

/// Draws the gap between two messages of a sender. `mean_ps` is the mean gap in picoseconds.
pub(super) fn gap(arrivals: Arrivals, mean_ps: f64, draws: &mut Pcg64Mcg) -> Time {
    let gap = match arrivals {
        Arrivals::Poisson => -(1.0 - unit(draws)).ln(),
        Arrivals::Fixed => 1.0,
        // E[e^(m + sigma z)] = e^(m + sigma^2 / 2) = 1.
        Arrivals::LogNormal { sigma } => log_normal(-sigma * sigma / 2.0, sigma, draws),
    };
    Time::from_ps((gap * mean_ps).round() as u64)
}

/// Draws the time from the start of the run to a sender's first message, as if the sender had been sending before the
/// run. Therefore the mean rate is correct from the start. With equal gaps, each sender has a different phase.
pub(super) fn first(arrivals: Arrivals, mean_ps: f64, draws: &mut Pcg64Mcg) -> Time {
    let first = match arrivals {
        Arrivals::Poisson => return gap(arrivals, mean_ps, draws),
        Arrivals::Fixed => unit(draws),
        // A long gap is more likely to contain a random moment: the probability is proportional to the length of the
        // gap, and the moment is uniformly distributed in the gap. The length of such a gap also has a log-normal
        // distribution, with m + sigma^2 in place of m.
        Arrivals::LogNormal { sigma } => unit(draws) * log_normal(sigma * sigma / 2.0, sigma, draws),
    };
    Time::from_ps((first * mean_ps) as u64)
}

fn log_normal(m: f64, sigma: f64, draws: &mut Pcg64Mcg) -> f64 {
    let z: f64 = StandardNormal.sample(draws);
    (m + sigma * z).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{DrawPurpose, generator};

    /// Returns the mean of the values and its standard error.
    fn mean(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt())
    }

    #[test]
    fn gaps_have_the_mean_and_the_spread_asked_for() {
        let mut draws = generator(1, DrawPurpose::Arrivals, 0);
        for (arrivals, variance) in [
            (Arrivals::Poisson, 1.0),
            (Arrivals::Fixed, 0.0),
            (Arrivals::LogNormal { sigma: 0.5 }, 0.25f64.exp() - 1.0),
            (Arrivals::LogNormal { sigma: 1.0 }, 1f64.exp() - 1.0),
        ] {
            let gaps: Vec<f64> =
                (0..400_000).map(|_| gap(arrivals, 1e6, &mut draws).as_ps() as f64 / 1e6).collect();
            let (mean_gap, error) = mean(&gaps);
            assert!((mean_gap - 1.0).abs() <= 4.0 * error, "{mean_gap} +- {error} with {arrivals:?}");
            let (found, error) = mean(&gaps.iter().map(|gap| (gap - 1.0).powi(2)).collect::<Vec<_>>());
            assert!((found - variance).abs() <= 4.0 * error + 1e-9, "{found} for {variance}: {arrivals:?}");
        }
    }

    #[test]
    fn the_rate_is_right_from_the_start() {
        // The test observes many senders during the first two mean gaps, in which each sender sends two messages on
        // average.
        for arrivals in [Arrivals::Poisson, Arrivals::Fixed, Arrivals::LogNormal { sigma: 1.5 }] {
            let counts: Vec<f64> = (0..40_000)
                .map(|sender| {
                    let mut draws = generator(3, DrawPurpose::Arrivals, sender);
                    let (mut at, mut count) = (first(arrivals, 1e6, &mut draws), 0.0);
                    while at < Time::from_ps(2_000_000) {
                        at += gap(arrivals, 1e6, &mut draws);
                        count += 1.0;
                    }
                    count
                })
                .collect();
            let (rate, error) = mean(&counts);
            assert!((rate - 2.0).abs() <= 4.0 * error + 1e-9, "{rate} +- {error} with {arrivals:?}");
        }
    }

    #[test]
    fn a_spread_without_a_number_is_refused() {
        for sigma in [0.0, -1.0, 3.5, f64::NAN] {
            assert!(check(Arrivals::LogNormal { sigma }).is_err());
        }
    }
}
