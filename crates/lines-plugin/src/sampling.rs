//! Systematic sampling: at which instructions of a thread a window begins.
//!
//! Wunderlich et al., SMARTS, ISCA 2003, section 3: windows of one length at one distance, the first at a random place.
//! When a recording grows beyond its limit, every second window is dropped and the distance doubled: the rest is again a
//! systematic sample, and which half stays is drawn, so that every instruction is as likely to be in it.

use unrack_basis::SplitMix64;

/// Distance and length of windows, in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Distance from the beginning of one window to that of the next.
    pub(crate) period: u64,
    /// Counted instructions of a window.
    pub(crate) window: u64,
    /// Instructions before them, which fill the core.
    pub(crate) lead: u64,
}

/// Sample of a process: windows begin at `phase + k * period`, in each thread.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    plan: Plan,
    phase: u64,
    random: SplitMix64,
}

impl Sample {
    /// Draws the place of the first window.
    pub(crate) fn new(plan: Plan, seed: u64) -> Sample {
        let mut random = SplitMix64::new(seed);
        let phase = random.next_u64() % plan.period;
        Sample { plan, phase, random }
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan
    }

    /// Returns the first beginning of a window that is not before `instructions`.
    pub(crate) fn next(&self, instructions: u64) -> u64 {
        let behind = instructions.saturating_sub(self.phase);
        self.phase + behind.div_ceil(self.plan.period) * self.plan.period
    }

    /// Drops every second window.
    pub(crate) fn halve(&mut self) {
        if self.random.next_u64() & 1 == 1 {
            self.phase += self.plan.period;
        }
        self.plan.period *= 2;
    }

    /// Tells whether a window that was due at `start` is in the sample. Windows begin with a block, so later than due,
    /// but by less than a window.
    pub(crate) fn has(&self, start: u64) -> bool {
        start >= self.phase && (start - self.phase) % self.plan.period < self.plan.window + self.plan.lead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: Plan = Plan { period: 1000, window: 80, lead: 20 };

    fn starts(sample: &Sample, end: u64) -> Vec<u64> {
        let next = |start: &u64| Some(sample.next(start + 1)).filter(|next| *next < end);
        std::iter::successors(Some(sample.next(0)), next).collect()
    }

    proptest! {
        #[test]
        fn windows_are_at_one_distance(seed: u64) {
            let sample = Sample::new(PLAN, seed);
            let starts = starts(&sample, 100_000);
            prop_assert!(starts[0] < 1000 && starts.len() == 100);
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 1000));
        }

        #[test]
        fn half_of_the_windows_stay_when_the_distance_doubles(seed: u64, times in 1usize..5) {
            let before = Sample::new(PLAN, seed);
            let mut after = before.clone();
            (0..times).for_each(|_| after.halve());
            let kept: Vec<u64> = starts(&before, 160_000).into_iter().filter(|start| after.has(*start)).collect();
            prop_assert_eq!(kept, starts(&after, 160_000));
        }
    }

    #[test]
    fn every_place_is_as_likely_after_halving() {
        let mut counts = [0u32; 4];
        for seed in 0..4000 {
            let mut sample = Sample::new(PLAN, seed);
            sample.halve();
            sample.halve();
            counts[(sample.phase / 1000) as usize] += 1;
        }
        // Four standard deviations of a binomial with 4000 draws of 1/4.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 110), "{counts:?}");
    }
}
