//! Numbers with symmetric 95 % intervals, and their sums and products.

use unrack_lines::core;
use unrack_record::Interval;

/// A number with the half width of its interval, which is symmetric.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SymmetricEstimate {
    pub value: f64,
    /// Half of the 95 % interval.
    pub half: f64,
}

impl SymmetricEstimate {
    /// Adds up independent estimates.
    pub(crate) fn sum(all: impl Iterator<Item = SymmetricEstimate>) -> SymmetricEstimate {
        let add = |sum: SymmetricEstimate, one: SymmetricEstimate| SymmetricEstimate {
            value: sum.value + one.value,
            half: sum.half.hypot(one.half),
        };
        all.fold(SymmetricEstimate::default(), add)
    }

    /// Multiplies the estimate by an exact number.
    pub(crate) fn times(self, by: f64) -> SymmetricEstimate {
        SymmetricEstimate { value: self.value * by, half: self.half * by }
    }

    /// Multiplies independent estimates: the squares of their relative errors add up.
    pub(crate) fn product(self, by: SymmetricEstimate) -> SymmetricEstimate {
        SymmetricEstimate {
            value: self.value * by.value,
            half: (self.half * by.value).hypot(self.value * by.half),
        }
    }

    /// Adds an exact number.
    pub(crate) fn plus(self, value: f64) -> SymmetricEstimate {
        SymmetricEstimate { value: self.value + value, ..self }
    }

    /// Returns the 95 % interval.
    pub(crate) fn interval(self) -> Interval {
        let SymmetricEstimate { value, half } = self;
        Interval { value: Some(value), low: value - half, high: Some(value + half) }
    }
}

impl From<core::Estimate> for SymmetricEstimate {
    fn from(estimate: core::Estimate) -> SymmetricEstimate {
        SymmetricEstimate { value: estimate.value, half: estimate.half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_independent_estimates_add_up_as_squares() {
        let (a, b) =
            (SymmetricEstimate { value: 10.0, half: 3.0 }, SymmetricEstimate { value: 2.0, half: 0.8 });
        let sum = SymmetricEstimate::sum([a, SymmetricEstimate { half: 4.0, ..a }].into_iter());
        assert_eq!(sum, SymmetricEstimate { value: 20.0, half: 5.0 });
        assert_eq!(a.product(b), SymmetricEstimate { value: 20.0, half: 10.0 });
        let interval = a.times(0.5).plus(1.0).interval();
        assert_eq!((interval.value, interval.low, interval.high), (Some(6.0), 4.5, Some(7.5)));
    }
}
