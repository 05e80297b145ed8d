//! Times of the core model. A time is one number for each lane (memory configuration), or one number and the far
//! request whose completion determined it.
//!
//! Times are in cycles, in multiples of 1/16. Sums and maxima are exact while times are below 2^20 cycles. Rebasing
//! ([`LaneTime::minus`]) ensures this, unless a chain of dependent loads in flight takes more cycles. In this case,
//! times are rounded to 24 bits.

/// Time of an event in each of several lanes. A lane is a memory configuration that the core model simulates.
pub(super) trait LaneTime: Copy {
    /// Beginning of the window.
    const START: Self;

    /// Returns the later of two times, and `other` if they are equal.
    fn later(self, other: Self) -> Self;

    /// Returns the earlier of two times, and `self` if they are equal. Because `later` returns `other` for equal times,
    /// `a.earlier(b)` and `a.later(b)` always return one time each of the pair.
    fn earlier(self, other: Self) -> Self;

    /// Returns the time that is `cycles` cycles after this time.
    fn after(self, cycles: f32) -> Self;

    /// Returns this time relative to `base`.
    fn minus(self, base: Self) -> Self;

    /// Returns this time plus the duration from `from` to `to`. The result is determined by the same far request as
    /// `to`.
    fn shifted(self, from: Self, to: Self) -> Self;

    /// Combines two times in each lane. If this time is at or after `from`, the result is the later of this time and
    /// `other`; otherwise it is this time.
    fn later_from(self, other: Self, from: Self) -> Self;

    /// Restricts this time in each lane. If this time is before `limit`, the result is this time; otherwise it is a
    /// time that never comes.
    fn only_before(self, limit: Self) -> Self;

    /// Returns whether this time is later than `other` in at least one lane.
    fn is_later(&self, other: &Self) -> bool;

    /// Returns whether this time exceeds `cycles` in at least one lane.
    fn is_after(&self, cycles: f32) -> bool;

    /// Returns this time in the lane `lane`, in cycles.
    fn cycles(&self, lane: usize) -> f32;
}

/// Time that never comes, in cycles.
const NEVER: f32 = 1e30;
/// Minimum result of [`LaneTime::minus`], in cycles. That function makes times relative to a later time base, and
/// replaces each earlier result by this minimum.
const OLDEST: f32 = -524_288.0;

/// Time of an event in `N` lanes. The type is aligned to 64 bytes so that a value spans as few cache lines as possible.
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

/// Returns the larger of two numbers. The function is written so that it compiles to the instruction `maxps`.
/// `f32::max` does not compile to `maxps`, because it has to handle NaN.
#[inline(always)]
pub(super) fn later(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Time of an event in one lane, and the far request whose completion determined this time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TracedTime {
    pub(super) time: f32,
    /// Index of the far request; [`NO_REQUEST`] if the beginning of the window determined the time.
    pub(super) request: u32,
}

/// Request index of a time that the beginning of the window determined, instead of a far request.
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
