//! Times of the core model: one number per lane, or one number and the request that determined it.
//!
//! Times are in cycles, in multiples of 1/16. Sums and maxima are exact as long as times stay below 2^20 cycles,
//! which rebasing ([`Time::minus`]) ensures. The exception is a longer chain of dependent loads in flight; results
//! are then rounded to 24 bits.

/// Time of an event, in each of several lanes.
pub(super) trait LaneTime: Copy {
    /// Beginning of time; no time is earlier.
    const START: Self;

    /// Returns the later of two times, and `other` if they are equal.
    fn later(self, other: Self) -> Self;

    /// Returns the earlier of two times, and `self` if they are equal. `a.earlier(b)` and `a.later(b)` therefore
    /// always return two different ones of the pair.
    fn earlier(self, other: Self) -> Self;

    /// Returns the time that is `cycles` later.
    fn after(self, cycles: f32) -> Self;

    /// Returns the time relative to `base`.
    fn minus(self, base: Self) -> Self;

    /// Returns this time, increased by the difference between `from` and `to`. It depends on the same request as
    /// `to`.
    fn shifted(self, from: Self, to: Self) -> Self;

    /// Returns the later of two times in lanes where this time is not before `from`, and this time in the other
    /// lanes.
    fn later_from(self, other: Self, from: Self) -> Self;

    /// Returns this time in lanes where it is before `limit`, and a time that never comes in the other lanes.
    fn only_before(self, limit: Self) -> Self;

    /// Returns whether this time is later than `other` in any lane.
    fn is_later(&self, other: &Self) -> bool;

    /// Returns whether this time exceeds `cycles` in any lane.
    fn is_after(&self, cycles: f32) -> bool;

    /// Returns the cycles of one lane.
    fn cycles(&self, lane: usize) -> f32;
}

/// Time that never comes, in cycles.
const NEVER: f32 = 1e30;
/// Oldest time, in cycles, that rebasing preserves. Earlier times are raised to it.
const OLDEST: f32 = -524_288.0;

/// Time in `N` lanes. It is aligned so that it spans as few cache lines as possible.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub(super) struct LaneTimes<const N: usize>(pub(super) [f32; N]);

impl<const N: usize> LaneTimes<N> {
    #[inline(always)]
    fn each(mut self, other: Self, combine: impl Fn(f32, f32) -> f32) -> Self {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine = combine(*mine, other);
        }
        self
    }

    /// Adds a duration to a time in each lane.
    #[inline(always)]
    pub(super) fn plus(self, lengths: Self) -> Self {
        self.each(lengths, |time, length| time + length)
    }
}

impl<const N: usize> LaneTime for LaneTimes<N> {
    const START: Self = LaneTimes([0.0; N]);

    #[inline(always)]
    fn later(self, other: Self) -> Self {
        self.each(other, later)
    }

    #[inline(always)]
    fn earlier(self, other: Self) -> Self {
        self.each(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn after(mut self, cycles: f32) -> Self {
        self.0.iter_mut().for_each(|time| *time += cycles);
        self
    }

    #[inline(always)]
    fn later_from(mut self, other: Self, from: Self) -> Self {
        for ((mine, other), from) in self.0.iter_mut().zip(other.0).zip(from.0) {
            *mine = if *mine < from { *mine } else { later(*mine, other) };
        }
        self
    }

    fn only_before(self, limit: Self) -> Self {
        self.each(limit, |time, limit| if time < limit { time } else { NEVER })
    }

    fn minus(self, base: Self) -> Self {
        self.each(base, |time, base| later(time - base, OLDEST))
    }

    fn shifted(self, from: Self, to: Self) -> Self {
        self.plus(to.each(from, |to, from| to - from))
    }

    #[inline(always)]
    fn is_later(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(mine, other)| mine > other)
    }

    #[inline(always)]
    fn is_after(&self, cycles: f32) -> bool {
        self.0.iter().fold(f32::NEG_INFINITY, |latest, time| later(latest, *time)) > cycles
    }

    fn cycles(&self, lane: usize) -> f32 {
        self.0[lane]
    }
}

/// Returns the larger number. It is written so that it compiles to `maxps`, which `f32::max` does not because it has
/// to handle NaN.
#[inline(always)]
pub(super) fn later(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Time in one lane, and the far request whose completion determined it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TracedTime {
    pub(super) time: f32,
    /// Index of the request; [`NO_REQUEST`] for the beginning of the window.
    pub(super) request: u32,
}

/// Index that stands for the beginning of the window.
pub(super) const NO_REQUEST: u32 = u32::MAX;

impl LaneTime for TracedTime {
    const START: Self = TracedTime { time: 0.0, request: NO_REQUEST };

    fn later(self, other: Self) -> Self {
        if self.time > other.time { self } else { other }
    }

    fn earlier(self, other: Self) -> Self {
        if self.time <= other.time { self } else { other }
    }

    fn after(self, cycles: f32) -> Self {
        TracedTime { time: self.time + cycles, ..self }
    }

    fn later_from(self, other: Self, from: Self) -> Self {
        if self.time < from.time { self } else { self.later(other) }
    }

    fn only_before(self, limit: Self) -> Self {
        if self.time < limit.time { self } else { TracedTime { time: NEVER, ..self } }
    }

    fn minus(self, base: Self) -> Self {
        TracedTime { time: later(self.time - base.time, OLDEST), ..self }
    }

    fn shifted(self, from: Self, to: Self) -> Self {
        TracedTime { time: self.time + (to.time - from.time), request: to.request }
    }

    fn is_later(&self, other: &Self) -> bool {
        self.time > other.time
    }

    fn is_after(&self, cycles: f32) -> bool {
        self.time > cycles
    }

    fn cycles(&self, _: usize) -> f32 {
        self.time
    }
}
