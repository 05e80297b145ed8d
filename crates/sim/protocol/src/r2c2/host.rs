//! Model of the program at a flow's source, and of the bytes that this program has supplied to the flow so far (§3.3.2: host-limited
//! flows).

use unrack_units::{Bytes, Rate, Time};

/// Model of how many bytes a program has supplied to a flow at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramBytes {
    /// Rate at which the program supplies bytes, or `None` if all bytes are available at once.
    rate: Option<Rate>,
    /// Time since which `rate` holds.
    since: Time,
    /// Bytes that the program supplied before `since`.
    before: u64,
}

impl ProgramBytes {
    /// Creates the model of a program that supplies a flow's bytes at `rate` from time `now` on, or all bytes at once if there is no rate.
    pub fn new(rate: Option<Rate>, now: Time) -> ProgramBytes {
        ProgramBytes { rate, since: now, before: 0 }
    }

    /// Returns the rate of supply.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Returns the same program, which supplies bytes at another rate from now on.
    pub fn at(self, rate: Option<Rate>, now: Time) -> ProgramBytes {
        ProgramBytes { rate, since: now, before: self.given(u64::MAX, now) }
    }

    /// Returns how many of `bytes` bytes the program has supplied by now.
    pub fn given(&self, bytes: u64, now: Time) -> u64 {
        let Some(rate) = self.rate else { return bytes };
        let since = u128::from((now - self.since).as_ps()) * u128::from(rate.as_bps()) / 8_000_000_000_000;
        bytes.min(self.before.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }

    /// Returns the time at which the program will have supplied `bytes` bytes, or `None` if all bytes were available from the start.
    pub fn has(&self, bytes: u64) -> Option<Time> {
        let missing = bytes.saturating_sub(self.before);
        let time = self.rate?.transmit(Bytes::new(missing));
        Some(Time::from_ps(self.since.as_ps().saturating_add(time.as_ps())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// At the time that [`ProgramBytes::has`] returns for a number of bytes, the program has supplied at least these bytes. A change of
        /// the program's rate does not reduce the number of bytes supplied so far.
        #[test]
        fn it_gives_what_it_says(
            bps in 1_000u64..100_000_000_000, then in prop::option::of(1_000u64..1_000_000_000), bytes in 1u64..1 << 30, us in 0u64..1_000_000,
        ) {
            let host = ProgramBytes::new(Some(Rate::from_bps(bps)), Time::from_us(3));
            let at = host.has(bytes).unwrap();
            prop_assert!(host.given(u64::MAX, at) >= bytes && host.given(bytes, at) == bytes);
            let changed = Time::from_us(3 + us);
            let before = host.given(u64::MAX, changed);
            let host = host.at(then.map(Rate::from_bps), changed);
            prop_assert!(host.given(u64::MAX, changed) >= before);
            prop_assert!(host.has(before).is_none_or(|at| at == changed));
        }
    }
}
