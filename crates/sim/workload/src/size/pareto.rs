//! Message sizes with a Pareto distribution, in which a few large messages carry most of the bytes.

use super::MAX_BYTES;
use crate::error::WorkloadError;
use std::borrow::Cow;
use unrack_rack::ParetoScale;
use unrack_units::Bytes;

/// Pareto distribution with P(size > x) = (minimum / x)^shape for every x of at least the minimum. Sizes above the
/// maximum are replaced by the maximum, so that the distribution below the maximum does not change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pareto {
    shape: f64,
    minimum: f64,
    maximum: f64,
}

impl Pareto {
    /// Maximum size in bytes, unless a scenario sets one. This constant is independent of [`MAX_BYTES`], because the
    /// mean of a heavy-tailed distribution, and therefore the offered load, depends on the maximum.
    pub const DEFAULT_MAXIMUM: u64 = u32::MAX as u64;

    /// Creates a distribution. `maximum` is [`Pareto::DEFAULT_MAXIMUM`] unless a scenario sets it. Papers state the
    /// mean of the distribution without a maximum. For a heavy-tailed distribution, this mean is far above the mean
    /// with a maximum. For example, with shape 1.05 and a stated mean of 100 KB, the mean is 52 KB if the maximum is 4
    /// GiB.
    ///
    /// # Errors
    /// If the shape, the scale or the maximum is out of bounds.
    pub fn new(shape: f64, scale: ParetoScale, maximum: u64) -> Result<Pareto, WorkloadError> {
        let refuse = |rule: Cow<'static, str>, value| Err(WorkloadError::new("workload.size", rule, value));
        if !(shape > 0.0 && shape <= MAX_SHAPE) {
            return refuse("has a `pareto` above 0 and at most 100".into(), shape.to_string());
        }
        let minimum = match scale {
            ParetoScale::Minimum(bytes) => bytes.get() as f64,
            ParetoScale::Mean(_) if shape <= 1.0 => {
                let rule = "has a `pareto` above 1 beside a `mean` (others have none; give `minimum`)";
                return refuse(rule.into(), shape.to_string());
            }
            ParetoScale::Mean(bytes) => bytes.get() as f64 * (shape - 1.0) / shape,
        };
        if minimum < 1.0 {
            return refuse("begins at 1 byte or more".into(), format!("{minimum} at the least"));
        }
        if !(minimum..=MAX_BYTES as f64).contains(&(maximum as f64)) {
            let rule = format!("has a `maximum` from its smallest size to {}", Bytes::new(MAX_BYTES));
            return refuse(rule.into(), format!("{} beside {minimum}B", Bytes::new(maximum)));
        }
        Ok(Pareto { shape, minimum, maximum: maximum as f64 })
    }

    /// Returns the mean of the sizes that are drawn, which are limited to the maximum.
    pub(super) fn mean(&self) -> f64 {
        self.minimum + self.tail(0.0)
    }

    pub(super) fn mean_square(&self) -> f64 {
        self.minimum * self.minimum + 2.0 * self.tail(1.0)
    }

    /// Returns the size at cumulative probability `p`.
    pub(super) fn at(&self, p: f64) -> f64 {
        (self.minimum * (1.0 - p).powf(-1.0 / self.shape)).min(self.maximum)
    }

    /// Returns the integral of x^power * P(size > x) over all x from the minimum to the maximum size.
    fn tail(&self, power: f64) -> f64 {
        let Pareto { shape, minimum, maximum } = *self;
        let span = (maximum / minimum).ln();
        let degree = power + 1.0 - shape;
        // (e^(degree span) - 1) / degree, whose limit for a degree of 0 is the span.
        let factor = if degree == 0.0 { span } else { (degree * span).exp_m1() / degree };
        minimum.powf(power + 1.0) * factor
    }
}

/// Maximum shape. With this shape, almost all sizes are equal to the minimum.
const MAX_SHAPE: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SizeDistribution;
    use proptest::prelude::*;
    use unrack_units::Bytes;

    fn mean(bytes: u64) -> ParetoScale {
        ParetoScale::Mean(Bytes::new(bytes))
    }

    fn minimum(bytes: u64) -> ParetoScale {
        ParetoScale::Minimum(Bytes::new(bytes))
    }

    #[test]
    fn r2c2s_flows() {
        // R2C2 §5.2: shape 1.05, mean 100 KB; "95 % of the flows are less than 100 KB".
        let pareto = Pareto::new(1.05, mean(100_000), Pareto::DEFAULT_MAXIMUM).unwrap();
        assert!((pareto.minimum - 100_000.0 * 0.05 / 1.05).abs() < 1e-9);
        let below = 1.0 - (pareto.minimum / 100_000.0).powf(1.05);
        assert!((0.95..0.96).contains(&below), "{below}");
        assert!((pareto.at(below) - 100_000.0).abs() < 1e-3);
        assert!(SizeDistribution::Pareto(pareto).is_heavy_tailed());
    }

    #[test]
    fn the_closed_forms_without_a_maximum_that_matters() {
        // The mean is a m / (a - 1), the second moment a m^2 / (a - 2).
        let pareto = Pareto::new(5.0, minimum(1_000), MAX_BYTES).unwrap();
        assert!((pareto.mean() / 1_250.0 - 1.0).abs() < 1e-9);
        assert!((pareto.mean_square() / (5.0 / 3.0 * 1e6) - 1.0).abs() < 1e-9);
        let by_mean = Pareto::new(5.0, mean(1_250), MAX_BYTES).unwrap();
        assert!((by_mean.minimum - 1_000.0).abs() < 1e-9);
        assert!(!SizeDistribution::Pareto(pareto).is_heavy_tailed());
    }

    proptest! {
        /// Takes sizes at evenly spaced probabilities. Checks that their mean, second moment and tail are equal to the
        /// computed values.
        #[test]
        fn draws_have_the_moments_and_tail(
            shape in prop::sample::select(vec![0.7, 1.0, 1.05, 1.5, 2.0, 3.0]),
            least in 100..100_000u64,
            at_maximum in 0.01..1.0,
        ) {
            let maximum = (least as f64 * f64::powf(at_maximum, -1.0 / shape)).round() as u64;
            let pareto = Pareto::new(shape, minimum(least), maximum).unwrap();
            let steps = 200_000;
            let at = |step| pareto.at((f64::from(step) + 0.5) / f64::from(steps));
            let moment = |power| (0..steps).map(|step| at(step).powi(power)).sum::<f64>() / f64::from(steps);
            prop_assert!((moment(1) / pareto.mean() - 1.0).abs() < 1e-3);
            prop_assert!((moment(2) / pareto.mean_square() - 1.0).abs() < 1e-2);
            for step in (0..steps).step_by(1_000) {
                let (size, beyond) = (at(step), 1.0 - (f64::from(step) + 0.5) / f64::from(steps));
                let tail = (least as f64 / size).powf(shape);
                prop_assert!(size == maximum as f64 && beyond <= tail || (tail / beyond - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn any_numbers(shape in any::<f64>(), bytes in any::<u64>(), is_mean: bool, maximum in any::<u64>()) {
            let scale = if is_mean { mean(bytes) } else { minimum(bytes) };
            if let Ok(pareto) = Pareto::new(shape, scale, maximum) {
                prop_assert!(pareto.mean() >= 1.0 && pareto.mean() <= maximum as f64 * (1.0 + 1e-9));
                prop_assert!((1..=MAX_BYTES).contains(&SizeDistribution::Pareto(pareto).at(0.999_999)));
            }
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let why = |shape, scale, maximum| Pareto::new(shape, scale, maximum).unwrap_err().to_string();
        assert!(why(0.0, minimum(5), 9).contains("above 0"));
        assert!(why(f64::NAN, minimum(5), 9).contains("above 0"));
        assert!(why(1.0, mean(5), 9).contains("give `minimum`"));
        assert!(why(1.1, mean(5), 9).contains("1 byte or more"));
        assert!(why(1.1, minimum(0), 9).contains("1 byte or more"));
        assert!(why(1.1, minimum(10), 9).contains("`maximum` from its smallest size"));
        assert!(why(1.1, minimum(10), MAX_BYTES + 1).contains("to 1024GiB"));
    }
}
