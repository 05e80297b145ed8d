//! Estimates of the remaining time of a measurement, based on the times of the steps that it has finished.

/// Kind of steps. The ratio of actual to predicted time of finished steps of a kind is applied to the remaining steps of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Native,
    /// Remote memory without an injected delay.
    Undelayed,
    Injected,
    Simulation,
}

/// Sums over steps of one kind, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    /// Predicted time of steps to come.
    ahead: f64,
    /// Predicted time of finished steps. `took` is their actual time.
    predicted: f64,
    took: f64,
}

/// Sums over all steps of a measurement, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepsLeft([Sum; 4]);

impl StepsLeft {
    /// Adds a step that is still to be done.
    pub(crate) fn expect(&mut self, kind: Kind, predicted_s: f64) {
        self.0[kind as usize].ahead += predicted_s;
    }

    /// Removes an expected step that will not be done.
    pub(crate) fn drop(&mut self, kind: Kind, predicted_s: f64) {
        let ahead = &mut self.0[kind as usize].ahead;
        *ahead = (*ahead - predicted_s).max(0.0);
    }

    /// Records a finished step.
    pub(crate) fn done(&mut self, kind: Kind, predicted_s: f64, took_s: f64) {
        self.drop(kind, predicted_s);
        let sum = &mut self.0[kind as usize];
        sum.predicted += predicted_s;
        sum.took += took_s;
    }

    /// Returns the predicted time of a step, multiplied by the ratio of actual to predicted time of finished steps of its kind.
    pub(crate) fn corrected(&self, kind: Kind, predicted_s: f64) -> f64 {
        let Sum { predicted, took, .. } = self.0[kind as usize];
        if predicted > 0.0 { predicted_s * took / predicted } else { predicted_s }
    }

    /// Returns the estimated seconds until all steps are done.
    pub(crate) fn seconds(&self) -> f64 {
        let kinds = [Kind::Native, Kind::Undelayed, Kind::Injected, Kind::Simulation];
        kinds.into_iter().map(|kind| self.corrected(kind, self.0[kind as usize].ahead)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::{Injected, Native, Simulation, Undelayed};
    use super::*;

    /// A step: its kind, its predicted time and its actual time, in seconds.
    type Step = (Kind, f64, f64);

    /// Numbers in the style of a comparison of the NumPy example with 2^14 nodes on an idle machine; they are not a recording.
    const IDLE: &[Step] = &[
        (Native, 0.13, 0.128),
        (Injected, 2.75, 2.75),
        (Injected, 4.14, 4.25),
        (Injected, 3.45, 3.54),
        (Native, 0.13, 0.136),
        (Injected, 3.10, 3.05),
        (Injected, 3.79, 3.80),
        (Undelayed, 1.37, 1.08),
        (Undelayed, 1.37, 0.42),
        (Undelayed, 1.37, 0.26),
        (Native, 0.13, 0.150),
        (Injected, 4.14, 4.41),
        (Injected, 2.75, 2.94),
        (Native, 0.13, 0.183),
        (Simulation, 0.08, 0.07),
        (Simulation, 1.2, 1.01),
        (Simulation, 11.0, 9.35),
        (Simulation, 0.6, 0.46),
    ];

    /// Numbers in the style of `IDLE`, but with four other busy threads, which take half of the processor time; they are not a recording.
    const BUSY: &[Step] = &[
        (Native, 0.39, 0.391),
        (Injected, 11.5, 12.45),
        (Injected, 18.0, 18.70),
        (Injected, 14.8, 16.69),
        (Native, 0.39, 0.375),
        (Injected, 13.1, 13.9),
        (Injected, 16.4, 17.5),
        (Undelayed, 5.03, 3.9),
        (Undelayed, 5.03, 1.5),
        (Undelayed, 5.03, 0.9),
        (Native, 0.39, 0.308),
        (Injected, 18.0, 20.44),
        (Injected, 11.5, 11.90),
        (Native, 0.39, 0.393),
    ];

    /// Invented: a program whose threads wait at the same time, so that waiting takes a quarter of the time that the fetches would take one
    /// after another.
    const TOGETHER: &[Step] = &[
        (Native, 10.0, 10.2),
        (Injected, 32.0, 23.0),
        (Injected, 92.0, 38.0),
        (Injected, 62.0, 30.5),
        (Native, 10.0, 9.8),
        (Injected, 47.0, 26.8),
        (Injected, 77.0, 34.3),
        (Injected, 92.0, 38.4),
        (Injected, 32.0, 23.2),
        (Native, 10.0, 10.1),
        (Simulation, 12.0, 10.0),
    ];

    /// Returns the ratio of the estimated remaining time to the actual one, after each step that ends in the last two thirds.
    fn ratios(steps: &[Step]) -> Vec<f64> {
        let whole: f64 = steps.iter().map(|(.., took)| took).sum();
        let (mut left, mut over) = (StepsLeft::default(), 0.0);
        for (kind, predicted, _) in steps {
            left.expect(*kind, *predicted);
        }
        let mut ratios = Vec::new();
        for (kind, predicted, took) in steps {
            left.done(*kind, *predicted, *took);
            over += took;
            if over >= whole / 3.0 && whole - over > 1e-9 {
                ratios.push(left.seconds() / (whole - over));
            }
        }
        ratios
    }

    #[test]
    fn after_a_third_the_time_left_is_known_to_a_factor_of_two() {
        for steps in [IDLE, BUSY, TOGETHER] {
            let ratios = ratios(steps);
            assert!(ratios.len() > 3 && ratios.iter().all(|ratio| (0.5..=2.0).contains(ratio)), "{ratios:?}");
        }
    }

    /// Each step of a kind takes the same multiple of its predicted time.
    #[test]
    fn a_machine_of_another_speed_is_learnt_from_its_first_steps() {
        for slower in [0.2, 1.0, 7.0] {
            let steps: Vec<_> = (1..=12).map(|n| (Injected, f64::from(n), slower * f64::from(n))).collect();
            assert!(ratios(&steps).iter().all(|ratio| (ratio - 1.0).abs() < 1e-9), "{slower}");
        }
    }

    #[test]
    fn steps_that_do_not_come_take_no_time() {
        let mut left = StepsLeft::default();
        left.expect(Undelayed, 5.0);
        left.expect(Native, 1.0);
        left.drop(Undelayed, 5.0);
        assert_eq!(left.seconds(), 1.0);
        left.done(Native, 1.0, 3.0);
        assert_eq!(
            (left.seconds(), left.corrected(Native, 2.0), left.corrected(Simulation, 2.0)),
            (0.0, 6.0, 2.0)
        );
    }
}
