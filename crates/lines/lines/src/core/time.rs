//! Times of the core model: one number for each lane, or a number and what it waited for.
//!
//! Unit: cycles, in whole sixteenths. A sum or a larger of two is exact while times are below 2^20 cycles, which rebasing
//! ([`Time::minus`]) provides for, unless a chain of loads in flight is longer; then results are rounded to 24 bits.

/// Time at which something happens, in each of some lanes.
pub(super) trait Time: Copy {
    /// Beginning: not later than anything.
    const START: Self;

    /// Returns the later of two times; of equal ones `other`.
    fn later(self, other: Self) -> Self;

    /// Returns the earlier of two times; of equal ones `self`, so that a pair is never twice the same of them.
    fn earlier(self, other: Self) -> Self;

    /// Returns the time so many cycles later.
    fn after(self, cycles: f32) -> Self;

    /// Returns the time counted from another one.
    fn minus(self, base: Self) -> Self;

    /// Returns the time that is later by what passes between two others. It waited for what `to` waited for.
    fn shifted(self, from: Self, to: Self) -> Self;

    /// Returns the later of two times, but in lanes where it is before `from`, this one.
    fn later_from(self, other: Self, from: Self) -> Self;

    /// Returns the time in lanes where it is before a limit, and a time that never comes in others.
    fn only_before(self, limit: Self) -> Self;

    /// Returns whether it is later than another time in any lane.
    fn is_later(&self, other: &Self) -> bool;

    /// Returns whether any lane is later than so many cycles.
    fn is_after(&self, cycles: f32) -> bool;

    /// Returns the cycles of a lane.
    fn cycles(&self, lane: usize) -> f32;
}

/// Time that never comes, in cycles.
const NEVER: f32 = 1e30;
/// Oldest time that is told from older ones after rebasing, in cycles.
const OLDEST: f32 = -524_288.0;

/// Time in `N` lanes. Aligned, so that it never crosses more cache lines than it must.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub(super) struct Lanes<const N: usize>(pub(super) [f32; N]);

impl<const N: usize> Lanes<N> {
    #[inline(always)]
    fn each(mut self, other: Self, combine: impl Fn(f32, f32) -> f32) -> Self {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine = combine(*mine, other);
        }
        self
    }

    /// Returns the sum of a time and a length in each lane.
    #[inline(always)]
    pub(super) fn plus(self, lengths: Self) -> Self {
        self.each(lengths, |time, length| time + length)
    }
}

impl<const N: usize> Time for Lanes<N> {
    const START: Self = Lanes([0.0; N]);

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

/// Returns the larger number. Written so that it becomes `maxps`, which `f32::max` does not for the sake of NaN.
#[inline(always)]
pub(super) fn later(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Time in one lane, and the far request whose completion determined it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traced {
    pub(super) time: f32,
    /// Request, [`NO_REQUEST`] for the beginning of the window.
    pub(super) request: u32,
}

/// Stands for the beginning of the window.
pub(super) const NO_REQUEST: u32 = u32::MAX;

impl Time for Traced {
    const START: Self = Traced { time: 0.0, request: NO_REQUEST };

    fn later(self, other: Self) -> Self {
        if self.time > other.time { self } else { other }
    }

    fn earlier(self, other: Self) -> Self {
        if self.time <= other.time { self } else { other }
    }

    fn after(self, cycles: f32) -> Self {
        Traced { time: self.time + cycles, ..self }
    }

    fn later_from(self, other: Self, from: Self) -> Self {
        if self.time < from.time { self } else { self.later(other) }
    }

    fn only_before(self, limit: Self) -> Self {
        if self.time < limit.time { self } else { Traced { time: NEVER, ..self } }
    }

    fn minus(self, base: Self) -> Self {
        Traced { time: later(self.time - base.time, OLDEST), ..self }
    }

    fn shifted(self, from: Self, to: Self) -> Self {
        Traced { time: self.time + (to.time - from.time), request: to.request }
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
