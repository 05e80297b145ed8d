//! Systematic sampling: selects the instructions at which the recorded windows of a thread begin.
//!
//! Source: Wunderlich et al., SMARTS, ISCA 2003, section 3. The windows of a thread have a fixed length and a fixed
//! distance, and the first window begins at a random position.
//!
//! When a recording exceeds its limit, every second window is dropped and the distance between windows is doubled. The
//! remaining windows are again a systematic sample. Whether the windows at even or at odd positions remain is chosen at
//! random, so that every instruction has the same probability of being sampled.
//!
//! Each thread has its own distance between windows. Otherwise the windows of a thread that executes many instructions
//! would displace the windows of a thread that executes few, because it mostly waits for memory. For the same reason,
//! only the threads with the most windows are thinned.

use unrack_basis::SplitMix64;

/// Distance and length of the windows of a thread, in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowPlan {
    /// Distance between the beginnings of successive windows.
    pub(crate) period: u64,
    /// Length of a window, excluding its lead.
    pub(crate) window: u64,
    /// Length of the lead, which is recorded before each window to fill the simulated pipeline.
    pub(crate) lead: u64,
}

/// Sample of one thread. Its windows begin at `phase + k * period` instructions, for each whole number `k`.
#[derive(Clone, Debug)]
pub(crate) struct SamplingWindows {
    plan: WindowPlan,
    phase: u64,
    random: SplitMix64,
}

impl SamplingWindows {
    /// Creates the sample of a thread, and chooses the position of the first window at random.
    pub(crate) fn new(plan: WindowPlan, seed: u64) -> SamplingWindows {
        let mut random = SplitMix64::new(seed);
        let phase = random.next_u64() % plan.period;
        SamplingWindows { plan, phase, random }
    }

    /// Returns the position at which the first window at or after `instructions` begins.
    pub(crate) fn next(&self, instructions: u64) -> u64 {
        let behind = instructions.saturating_sub(self.phase);
        self.phase + behind.div_ceil(self.plan.period) * self.plan.period
    }

    /// Drops every second window and doubles the distance. Whether the windows at even or at odd positions are dropped
    /// is chosen at random.
    fn halve(&mut self) {
        if self.random.next_u64() & 1 == 1 {
            self.phase += self.plan.period;
        }
        self.plan.period *= 2;
    }

    /// Returns whether a recorded window that began at `start` belongs to the sample. A recorded window begins at the
    /// first block boundary after the selected instruction, which is less than the length of a window later.
    pub(crate) fn has(&self, start: u64) -> bool {
        start >= self.phase && (start - self.phase) % self.plan.period < self.plan.window + self.plan.lead
    }
}

/// Samples of all threads of a process, indexed by thread number.
#[derive(Clone, Debug)]
pub(crate) struct ThreadSamples {
    plan: WindowPlan,
    seed: u64,
    threads: Vec<ThreadSample>,
}

#[derive(Clone, Debug)]
struct ThreadSample {
    sample: SamplingWindows,
    /// Number of this thread's windows in the recording.
    windows: u64,
}

impl ThreadSamples {
    /// Creates the samples of a process that has no threads yet.
    pub(crate) fn new(plan: WindowPlan, seed: u64) -> ThreadSamples {
        ThreadSamples { plan, seed, threads: Vec::new() }
    }

    /// Returns the samples of a forked child of this process, which has one thread.
    pub(crate) fn of_child(&self) -> ThreadSamples {
        let mut child = ThreadSamples::new(self.plan, self.seed);
        child.add_thread();
        child
    }

    /// Adds a thread, and chooses the position of the thread's first window at random.
    pub(crate) fn add_thread(&mut self) {
        let seed = self.seed ^ (self.threads.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.threads.push(ThreadSample { sample: SamplingWindows::new(self.plan, seed), windows: 0 });
    }

    /// Returns the current distance and length of a thread's windows.
    pub(crate) fn plan(&self, thread: u32) -> WindowPlan {
        self.sample(thread).plan
    }

    /// Returns the position at which a thread's first window at or after `instructions` begins.
    pub(crate) fn next(&self, thread: u32, instructions: u64) -> u64 {
        self.sample(thread).next(instructions)
    }

    /// Returns whether a thread's window that began at `start` belongs to its sample.
    pub(crate) fn has(&self, thread: u32, start: u64) -> bool {
        self.sample(thread).has(start)
    }

    /// Returns the number of a thread's windows that are in the recording.
    pub(crate) fn windows(&self, thread: u32) -> u64 {
        self.threads[thread as usize].windows
    }

    /// Counts a window of a thread that was appended to the recording.
    pub(crate) fn count(&mut self, thread: u32) {
        self.threads[thread as usize].windows += 1;
    }

    /// Drops every second window of those threads that have more than half the windows of the thread with the most. The
    /// counts of windows of all threads are reset to 0, because the caller counts the remaining windows again.
    pub(crate) fn thin(&mut self) {
        let most = self.threads.iter().map(|thread| thread.windows).max().unwrap_or(0);
        for thread in &mut self.threads {
            if 2 * thread.windows > most {
                thread.sample.halve();
            }
            thread.windows = 0;
        }
    }

    fn sample(&self, thread: u32) -> &SamplingWindows {
        &self.threads[thread as usize].sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: WindowPlan = WindowPlan { period: 1000, window: 80, lead: 20 };

    fn starts(sample: &SamplingWindows, end: u64) -> Vec<u64> {
        let next = |start: &u64| Some(sample.next(start + 1)).filter(|next| *next < end);
        std::iter::successors(Some(sample.next(0)), next).collect()
    }

    proptest! {
        #[test]
        fn windows_are_at_one_distance(seed: u64) {
            let sample = SamplingWindows::new(PLAN, seed);
            let starts = starts(&sample, 100_000);
            prop_assert!(starts[0] < 1000 && starts.len() == 100);
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 1000));
        }

        #[test]
        fn half_of_the_windows_stay_when_the_distance_doubles(seed: u64, times in 1usize..5) {
            let before = SamplingWindows::new(PLAN, seed);
            let mut after = before.clone();
            (0..times).for_each(|_| after.halve());
            let kept: Vec<u64> = starts(&before, 160_000).into_iter().filter(|start| after.has(*start)).collect();
            prop_assert_eq!(kept, starts(&after, 160_000));
        }
    }

    #[test]
    fn a_thread_with_few_windows_keeps_them_beside_one_with_many() {
        let mut samples = ThreadSamples::new(PLAN, 7);
        samples.add_thread();
        samples.add_thread();
        for (thread, windows) in [(0, 900), (1, 120)] {
            (0..windows).for_each(|_| samples.count(thread));
        }
        samples.thin();
        assert_eq!((samples.plan(0).period, samples.plan(1).period), (2000, 1000));
        assert_eq!((samples.windows(0), samples.windows(1)), (0, 0), "to be counted again");
        // Many threads of one window each are thinned together.
        let mut samples = ThreadSamples::new(PLAN, 7);
        for thread in 0..2000 {
            samples.add_thread();
            samples.count(thread);
        }
        samples.thin();
        assert!((0..2000).all(|thread| samples.plan(thread).period == 2000));
    }

    #[test]
    fn every_place_is_as_likely_after_halving() {
        let mut counts = [0u32; 4];
        for seed in 0..4000 {
            let mut sample = SamplingWindows::new(PLAN, seed);
            sample.halve();
            sample.halve();
            counts[(sample.phase / 1000) as usize] += 1;
        }
        // Four standard deviations of a binomial distribution with 4000 trials of probability 1/4.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 110), "{counts:?}");
    }
}
