//! Measurements with too many values to draw, reduced to the values that a picture can show.

/// Cumulative distribution of values, reduced to a few hundred quantiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    pub count: u64,
    /// Values, and the share of all values at or below each of them. Both are in ascending order.
    quantiles: Vec<(f64, f64)>,
}

const QUANTILES: usize = 400;

impl Cdf {
    /// Returns the distribution of the finite values; `None` if there are none.
    pub fn from_values(mut values: Vec<f64>) -> Option<Cdf> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let steps = QUANTILES.min(last).max(1);
        let index = |step: usize| last * step / steps;
        let share = |index: usize| (index + 1) as f64 / (last + 1) as f64;
        let mut quantiles = vec![(values[0], 0.0)];
        quantiles.extend((0..=steps).map(index).map(|i| (values[i], share(i))));
        Some(Cdf { count: values.len() as u64, quantiles })
    }

    pub(crate) fn points(&self) -> &[(f64, f64)] {
        &self.quantiles
    }

    pub(crate) fn range(&self) -> (f64, f64) {
        (self.quantiles[0].0, self.quantiles[self.quantiles.len() - 1].0)
    }

    /// Returns the share of the values at or below `value`, to the precision of the quantiles.
    pub(crate) fn share_at(&self, value: f64) -> f64 {
        let after = self.quantiles.partition_point(|(v, _)| *v <= value);
        after.checked_sub(1).map_or(0.0, |index| self.quantiles[index].1)
    }
}

/// Page transfers of a captured run, counted in equal steps of time.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchRate {
    pub step_s: f64,
    pub fetches: Vec<u64>,
    pub write_backs: Vec<u64>,
}

const STEPS: usize = 240;

impl FetchRate {
    /// Counts `moves`: each has a time in ns, and whether it was a fetch. `None` if there are no moves.
    pub fn from_moves(run_ns: u64, moves: impl Iterator<Item = (u64, bool)> + Clone) -> Option<FetchRate> {
        let end = moves.clone().map(|(t_ns, _)| t_ns + 1).max()?.max(run_ns);
        let mut rate = FetchRate {
            step_s: end as f64 / 1e9 / STEPS as f64,
            fetches: vec![0; STEPS],
            write_backs: vec![0; STEPS],
        };
        for (t_ns, is_fetch) in moves {
            let step = (t_ns as u128 * STEPS as u128 / end as u128) as usize;
            let counts = if is_fetch { &mut rate.fetches } else { &mut rate.write_backs };
            counts[step] += 1;
        }
        Some(rate)
    }

    /// Returns the transfers per second in each step, as pairs (middle of the step, rate).
    pub(crate) fn per_second(&self, counts: &[u64]) -> Vec<(f64, f64)> {
        let middle = |step: usize| (step as f64 + 0.5) * self.step_s;
        counts.iter().enumerate().map(|(step, &n)| (middle(step), n as f64 / self.step_s)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cdf_rises_from_nothing_to_all() {
        let cdf = Cdf::from_values((1..=1000).rev().map(f64::from).collect()).unwrap();
        assert_eq!((cdf.count, cdf.range()), (1000, (1.0, 1000.0)));
        assert!(cdf.points().is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert_eq!((cdf.share_at(0.5), cdf.share_at(1000.0)), (0.0, 1.0));
        assert!((cdf.share_at(500.0) - 0.5).abs() < 0.005);
    }

    #[test]
    fn small_and_senseless_samples() {
        assert_eq!(Cdf::from_values(vec![]), None);
        assert_eq!(Cdf::from_values(vec![f64::NAN]), None);
        let one = Cdf::from_values(vec![3.0]).unwrap();
        assert_eq!((one.share_at(2.9), one.share_at(3.0)), (0.0, 1.0));
        let two = Cdf::from_values(vec![1.0, 2.0]).unwrap();
        assert_eq!(two.share_at(1.5), 0.5);
    }

    #[test]
    fn every_move_is_counted_once() {
        let moves = (0..10_000u64).map(|t| (t * 1_000, t % 4 != 0));
        let rate = FetchRate::from_moves(5_000_000, moves).unwrap();
        assert_eq!(rate.fetches.iter().sum::<u64>(), 7_500);
        assert_eq!(rate.write_backs.iter().sum::<u64>(), 2_500);
        let seconds = rate.step_s * STEPS as f64;
        assert!((seconds - 0.009_999_001).abs() < 1e-9, "{seconds}");
        assert_eq!(FetchRate::from_moves(100, std::iter::empty()), None);
    }
}
