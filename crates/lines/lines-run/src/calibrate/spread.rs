//! Median, minimum and maximum of repeated measurements of a quantity.

use serde::{Deserialize, Serialize};

/// Results of repeated measurements of one quantity. Their unit is given at the end of the field's name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSpread {
    /// Minimum of the measured values.
    pub min: f64,
    /// Median: half of the measured values are at most this.
    pub median: f64,
    /// Maximum of the measured values.
    pub max: f64,
}

impl MeasuredSpread {
    /// Returns the minimum, median and maximum of the values.
    ///
    /// # Panics
    /// If `values` is empty. Every measurement has at least one round.
    pub(super) fn new(mut values: Vec<f64>) -> MeasuredSpread {
        assert!(!values.is_empty(), "a measurement without a round");
        values.sort_by(f64::total_cmp);
        let (min, max) = (values[0], values[values.len() - 1]);
        let half = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        MeasuredSpread { min, median, max }
    }

    /// Measures `rounds` rounds, after a first round that is discarded because it only wakes the core up.
    pub(super) fn rounds(rounds: usize, mut round: impl FnMut() -> f64) -> MeasuredSpread {
        round();
        MeasuredSpread::new((0..rounds).map(|_| round()).collect())
    }

    /// Returns the minimum, median and maximum multiplied by `factor`, which must be positive.
    pub(super) fn times(self, factor: f64) -> MeasuredSpread {
        MeasuredSpread { min: self.min * factor, median: self.median * factor, max: self.max * factor }
    }

    /// Returns whether the minimum and maximum are finite, and the median is between them.
    pub(super) fn is_sound(&self) -> bool {
        self.min.is_finite() && self.max.is_finite() && self.min <= self.median && self.median <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(
            MeasuredSpread::new(vec![3.0, 1.0, 2.0]),
            MeasuredSpread { min: 1.0, median: 2.0, max: 3.0 }
        );
        assert_eq!(MeasuredSpread::new(vec![4.0, 1.0]), MeasuredSpread { min: 1.0, median: 2.5, max: 4.0 });
    }
}
