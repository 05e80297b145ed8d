//! An axis: positions of values along one side of a plot, and its ticks.

use super::{AxisPosition, AxisScale, ScaleKind};
use crate::words::{bytes, short};

/// Approximate number of ticks on an axis of sizes.
const SIZE_TICKS: i32 = 7;

/// Values along one side of a plot, and its ticks.
#[derive(Debug, Clone)]
pub(crate) struct ChartAxis {
    pub label: String,
    /// Ticks: value and text.
    pub ticks: Vec<(f64, String)>,
    lo: f64,
    hi: f64,
    kind: ScaleKind,
}

impl ChartAxis {
    /// Returns a linear axis, whose range is extended to the next ticks.
    pub(crate) fn linear(label: &str, lo: f64, hi: f64) -> ChartAxis {
        let (lo, hi) = widened(lo, hi);
        let step = nice_step((hi - lo) / 5.0);
        let (first, last) = ((lo / step).floor() as i64, (hi / step - 1e-9).ceil() as i64);
        let ticks: Vec<_> = (first..=last).map(|i| i as f64 * step).map(|v| (v, tick(v, step))).collect();
        ChartAxis {
            label: label.into(),
            lo: first as f64 * step,
            hi: last as f64 * step,
            kind: ScaleKind::Linear,
            ticks,
        }
    }

    /// Returns a linear axis that ends where the range ends.
    pub(crate) fn filled(label: &str, lo: f64, hi: f64) -> ChartAxis {
        let (lo, hi) = widened(lo, hi);
        let mut axis = ChartAxis { lo, hi, ..ChartAxis::linear(label, lo, hi) };
        let (ticks, inside) = (std::mem::take(&mut axis.ticks), |value: f64| axis.contains(value));
        let ticks = ticks.into_iter().filter(|(value, _)| inside(*value)).collect();
        ChartAxis { ticks, ..axis }
    }

    /// Returns a logarithmic axis. Its ticks are at decades, and also at 2 and 5 times a decade if there are few decades.
    pub(crate) fn log(label: &str, lo: f64, hi: f64) -> ChartAxis {
        let lo = if lo > 0.0 && lo.is_finite() { lo } else { 1e-3 };
        let (lo, hi) = if hi > lo * 1.2 { (lo, hi) } else { (lo / 1.5, lo.max(hi) * 1.5) };
        let steps: &[f64] = if hi / lo > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = lo.log10().floor() as i32..=hi.log10().ceil() as i32;
        let values = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        let inside = values.filter(|v| (lo * 0.999..=hi * 1.001).contains(v));
        ChartAxis {
            label: label.into(),
            lo,
            hi,
            kind: ScaleKind::Log,
            ticks: inside.map(|v| (v, short(v))).collect(),
        }
    }

    /// Returns a logarithmic axis of sizes in bytes, with a few ticks at powers of two.
    pub(crate) fn sizes(label: &str, lo: f64, hi: f64) -> ChartAxis {
        let axis = ChartAxis::log(label, lo, hi);
        let (first, last) = (axis.lo.log2().ceil() as i32, axis.hi.log2().floor() as i32);
        let step = ((last - first) / SIZE_TICKS + 1).max(1);
        let powers = (first..=last).filter(|power| power % step == 0).map(|power| 2f64.powi(power));
        ChartAxis { ticks: powers.map(|size| (size, bytes(size as u64))).collect(), ..axis }
    }

    /// Returns an axis with one position per name: 0, 1, 2 ..
    pub(crate) fn named(label: &str, names: &[String]) -> ChartAxis {
        let ticks = names.iter().enumerate().map(|(place, name)| (place as f64, name.clone())).collect();
        ChartAxis {
            label: label.into(),
            lo: -0.5,
            hi: names.len().max(1) as f64 - 0.5,
            kind: ScaleKind::Names,
            ticks,
        }
    }

    /// Returns the position of `value`: 0 at the start of the axis, 1 at its end. Values outside the range are clamped.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let part = match self.kind == ScaleKind::Log {
            true => (value.max(self.lo) / self.lo).ln() / (self.hi / self.lo).ln(),
            false => (value - self.lo) / (self.hi - self.lo),
        };
        part.clamp(0.0, 1.0)
    }

    /// Returns the value at a position: the inverse of [`ChartAxis::position`].
    pub(crate) fn value(&self, position: f64) -> f64 {
        match self.kind == ScaleKind::Log {
            true => self.lo * (self.hi / self.lo).powf(position),
            false => self.lo + (self.hi - self.lo) * position,
        }
    }

    /// Returns whether a value is in the range.
    pub(crate) fn contains(&self, value: f64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }

    /// Returns the axis without its ticks.
    pub(crate) fn scale(&self) -> AxisScale {
        AxisScale { label: self.label.clone(), kind: self.kind }
    }

    /// Returns a value as the axis shows it: a number, or the name at this position.
    pub(crate) fn place(&self, value: f64) -> AxisPosition {
        let name = || self.ticks.iter().find(|(place, _)| *place == value).map(|(_, name)| name.clone());
        match self.kind {
            ScaleKind::Names => name().map_or(AxisPosition::Number(value), AxisPosition::Name),
            _ => AxisPosition::Number(value),
        }
    }

    /// Returns the end of the range.
    pub(crate) fn end(&self) -> f64 {
        self.hi
    }
}

/// Returns the range, widened if it is empty or not finite.
fn widened(lo: f64, hi: f64) -> (f64, f64) {
    match (lo.is_finite() && hi.is_finite(), hi > lo) {
        (true, true) => (lo, hi),
        (true, false) => (lo, lo + lo.abs().max(1.0) * 0.1),
        _ => (0.0, 1.0),
    }
}

/// Returns the smallest number of the form 1, 2, 5 or 10 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * decade >= step * 0.999);
    factor.unwrap_or(10.0) * decade
}

/// Formats a tick with the number of decimals that the step needs.
fn tick(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
    match value.abs() >= 1000.0 {
        true => crate::words::number(value),
        false => format!("{value:.decimals$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &ChartAxis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_enclose_the_data() {
        assert_eq!(texts(&ChartAxis::linear("", 0.0, 97.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(&ChartAxis::linear("", 1.0, 1.13)), ["1.00", "1.05", "1.10", "1.15"]);
        assert_eq!(texts(&ChartAxis::linear("", 3.0, 3.0)), ["3.0", "3.1", "3.2", "3.3"]);
    }

    #[test]
    fn log_ticks_follow_the_span() {
        assert_eq!(texts(&ChartAxis::log("", 0.3, 6.0)), ["0.5", "1", "2", "5"]);
        assert_eq!(texts(&ChartAxis::log("", 1.0, 1e4)), ["1", "10", "100", "1,000", "10,000"]);
    }

    #[test]
    fn sizes_have_ticks_at_powers_of_two() {
        let of = |lo, hi| texts(&ChartAxis::sizes("", lo, hi)).join(" ").replace('\u{a0}', "");
        assert_eq!(of(64.0, 1048576.0), "64B 512B 4KiB 32KiB 256KiB");
        assert_eq!(of(64.0, 64.0), "64B");
        assert_eq!(of(100.0, 500.0), "128B 256B");
    }

    #[test]
    fn positions_and_values_are_inverse_and_bounded() {
        for axis in [ChartAxis::linear("", 0.0, 10.0), ChartAxis::log("", 0.1, 1000.0)] {
            for position in [0.0, 0.25, 1.0] {
                assert!((axis.position(axis.value(position)) - position).abs() < 1e-12);
            }
            assert_eq!((axis.position(-5.0), axis.position(1e9)), (0.0, 1.0));
        }
    }

    #[test]
    fn senseless_ranges_still_make_an_axis() {
        for axis in [
            ChartAxis::linear("", f64::NAN, 1.0),
            ChartAxis::log("", 0.0, 0.0),
            ChartAxis::log("", f64::INFINITY, 1.0),
        ] {
            assert!(axis.position(0.5).is_finite() && !axis.ticks.is_empty(), "{axis:?}");
        }
    }
}
