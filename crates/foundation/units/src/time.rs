//! Simulated time.

use crate::number::{UnitError, Units};

/// Duration or point of simulated time, in whole picoseconds.
///
/// Byte times at 10, 25, 40, 100, 200 and 400 Gb/s are exact. Sums and products that do not fit saturate to [`Time::MAX`], which is later
/// than [`Time::END`]. This is not a panic because inputs can cause it; a run that reaches the end of time reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// Zero, which is also the start of simulated time.
    pub const ZERO: Time = Time(0);
    /// Largest time; also the result of sums and products that do not fit.
    pub const MAX: Time = Time(u64::MAX);
    /// End of simulated time, 106 days: half of the range, so that the sum of two earlier times is exact.
    pub const END: Time = Time(1 << 63);

    /// Creates a time from picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// Creates a time from nanoseconds, saturating.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(1_000))
    }
    /// Creates a time from microseconds, saturating.
    pub const fn from_us(us: u64) -> Time {
        Time(us.saturating_mul(1_000_000))
    }
    /// Creates a time from seconds, rounded to the nearest picosecond. For measured values only.
    pub fn from_secs_f64(s: f64) -> Time {
        Time((s * 1e12).round() as u64)
    }
    /// Returns the picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Returns the nanoseconds.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// Returns the microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Returns the seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// Returns the whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }
    /// Subtracts a time. Returns zero if `other` is larger.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl std::ops::Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl std::ops::Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0.saturating_mul(times))
    }
}

impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Time>>(iter: I) -> Time {
        iter.fold(Time::ZERO, std::ops::Add::add)
    }
}

const UNITS: Units = Units {
    table: &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)],
    aliases: &[("µs", 1_000_000), ("min", 60_000_000_000_000)],
    foreign: &[
        ("μs", "us", 1),
        ("usec", "us", 1),
        ("msec", "ms", 1),
        ("nsec", "ns", 1),
        ("sec", "s", 1),
        ("seconds", "s", 1),
        ("minutes", "min", 1),
        ("h", "min", 60),
    ],
    base: "picoseconds",
    example: "3us",
};

impl std::str::FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Time, UnitError> {
        UNITS.parse(text).map(Time)
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        UNITS.print(self.0, f)
    }
}

crate::serde_as_text!(Time, "a time such as \"3us\" or \"2.56ns\"");
