//! Median of the slopes between pairs of points (the Theil-Sen estimator).

use super::median;

/// All pairs of points with different `x`, prepared once so that many sets of `y` can be evaluated.
pub(super) struct PointPairs {
    /// Indexes of the two points, and the difference of their `x`.
    pairs: Vec<(usize, usize, f64)>,
}

impl PointPairs {
    /// Makes the pairs. Returns `None` if all `x` are equal.
    pub(super) fn new(x: &[f64]) -> Option<PointPairs> {
        let after = |a: usize| (a + 1..x.len()).map(move |b| (a, b));
        let all = (0..x.len()).flat_map(after).map(|(a, b)| (a, b, x[b] - x[a]));
        let pairs: Vec<_> = all.filter(|(.., apart)| *apart != 0.0).collect();
        (!pairs.is_empty()).then_some(PointPairs { pairs })
    }

    /// Returns the median of all slopes between two points (Sen 1968, eq. 2.5).
    pub(super) fn slope(&self, y: &[f64]) -> f64 {
        let slopes = self.pairs.iter().map(|(a, b, apart)| (y[*b] - y[*a]) / apart);
        median(&mut slopes.collect::<Vec<_>>())
    }
}

/// Returns the intercept of a line with this slope, chosen so that half of the points lie above the line.
pub(super) fn intercept(x: &[f64], y: &[f64], slope: f64) -> f64 {
    median(&mut x.iter().zip(y).map(|(x, y)| y - slope * x).collect::<Vec<_>>())
}
