//! Choice and order of the delays that are injected into runs of a program.

use super::task::MeasurementTask;

/// Number of injected delays, evenly spaced. Two delays define a line, the third shows whether run times lie on a line, and the others show
/// where the line bends.
pub(crate) const POINTS: usize = 5;
/// Smallest delay, in multiples of the pager's cost, so that no fetch takes the pager longer than its delay. Of 58,000 fetches at a factor
/// of 1.25 none did; the rest is a margin for less even machines.
const SMALLEST: f64 = 1.5;
/// Lower bound of the largest delay, in multiples of the pager's cost. The farther apart the delays are, the more certain is the slope, but
/// the longer are the runs.
pub(crate) const REACH: f64 = 4.0;
/// Maximum time that injected delays may add to a run, in native run times.
const STRETCH: f64 = 2.0;
/// Number of additional native runs that are made at a time.
const MORE_NATIVE: u32 = 4;
const LARGEST_DELAY_NS: f64 = 500_000.0;

/// Returns the delays to inject, including transmission, in whole nanoseconds, in ascending order, for a program with `fetches` fetches.
/// The largest delay is at least `reach` times the pager's cost.
pub(crate) fn delays_ns(native_s: f64, fetches: u64, floor_ns: f64, reach: f64) -> Vec<f64> {
    let affordable = STRETCH * native_s * 1e9 / fetches.max(1) as f64;
    let smallest = SMALLEST * floor_ns;
    let largest = affordable.min(LARGEST_DELAY_NS).max(reach * floor_ns);
    let step = (largest - smallest) / (POINTS - 1) as f64;
    (0..POINTS).map(|n| (smallest + step * n as f64).round()).collect()
}

/// Runs at each of the delays for one amount of local memory.
pub(crate) struct Delayed {
    pub local_bytes: u64,
    pub delays_ns: Vec<f64>,
}

/// Returns the runs to be made, in order. The first native run and the runs without delay were made before.
///
/// The order gives the best possible fitted lines whenever the time runs out: the ends of all lines come first, then their middles. The
/// speed of the machine varies over minutes, so native runs are spread over the whole measurement, and a repeated round starts with the
/// largest delay and ends with the smallest. A repeated round consists of the two ends alone, because they carry four fifths of the
/// information on the slope. With two rounds, the seven runs take about as long as three delays twice.
pub(crate) fn plan(lines: &[Delayed], others: &[MeasurementTask], rounds: u32) -> Vec<MeasurementTask> {
    let native = |nth| vec![MeasurementTask::Native { nth }];
    let first = [native(2), at(&[0, 4, 2], lines, 1), native(3), at(&[1, 3], lines, 1), others.to_vec()];
    let again = (2..=rounds).flat_map(|round| [native(round + 2), at(&[4, 0], lines, round)]);
    first.into_iter().chain(again).chain([native(planned_native(rounds))]).flatten().collect()
}

/// Returns the native runs of the `nth` additional set, counted from 1. Additional native runs are worthwhile because their scatter affects
/// every answer, and because they are the shortest runs.
pub(crate) fn more_native(rounds: u32, nth: u32) -> Vec<MeasurementTask> {
    let before = planned_native(rounds) + (nth - 1) * MORE_NATIVE;
    (1..=MORE_NATIVE).map(|more| MeasurementTask::Native { nth: before + more }).collect()
}

/// Returns the number of planned native runs.
fn planned_native(rounds: u32) -> u32 {
    rounds + 3
}

/// Returns the `nth` runs at the smallest and the largest delay of each fitted line. The largest delay is multiplied by `times`.
pub(crate) fn farther(lines: &[Delayed], nth: u32, times: f64) -> Vec<MeasurementTask> {
    let far = |line: &Delayed| {
        let delay_ns = (line.delays_ns[POINTS - 1] * times).round();
        MeasurementTask::Remote { local_bytes: line.local_bytes, delay_ns, nth }
    };
    let mut tasks: Vec<MeasurementTask> = lines.iter().map(far).collect();
    tasks.extend(at(&[0], lines, nth));
    tasks
}

/// Returns the `nth` run at some of the delays of each fitted line.
fn at(points: &[usize], lines: &[Delayed], nth: u32) -> Vec<MeasurementTask> {
    let each = |n: &usize| {
        let n = *n;
        lines.iter().map(move |line| MeasurementTask::Remote {
            local_bytes: line.local_bytes,
            delay_ns: line.delays_ns[n],
            nth,
        })
    };
    points.iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_above_the_floor_and_affordable() {
        let all = |native_s, fetches| delays_ns(native_s, fetches, 10_000.0, REACH);
        assert_eq!(all(1.0, 20_000), [15_000.0, 36_250.0, 57_500.0, 78_750.0, 100_000.0]);
        assert_eq!(
            all(1.0, 1_000_000),
            [15_000.0, 21_250.0, 27_500.0, 33_750.0, 40_000.0],
            "never near the floor"
        );
        assert_eq!(all(1.0, 0).last(), Some(&LARGEST_DELAY_NS));
    }

    #[test]
    fn more_runs_are_at_the_ends_and_farther() {
        let lines = [Delayed { local_bytes: 1, delays_ns: vec![1.0, 2.0, 3.0, 4.0, 5.0] }];
        let remote = |delay_ns| MeasurementTask::Remote { local_bytes: 1, delay_ns, nth: 3 };
        assert_eq!(farther(&lines, 3, 3.0), [remote(15.0), remote(1.0)]);
    }

    #[test]
    fn every_run_comes_once_and_the_ends_come_first() {
        let line = |local_bytes| Delayed { local_bytes, delays_ns: vec![1.0, 2.0, 3.0, 4.0, 5.0] };
        let other = MeasurementTask::Remote { local_bytes: 9, delay_ns: 0.0, nth: 1 };
        for rounds in [1, 2, 5] {
            let tasks = plan(&[line(1), line(2)], &[other], rounds);
            assert!(tasks.iter().enumerate().all(|(n, task)| !tasks[..n].contains(task)), "{tasks:?}");
            let natives =
                tasks.iter().filter(|task| matches!(task, MeasurementTask::Native { .. })).count() as u32;
            // The first native run was made before the plan.
            assert_eq!(natives + 1, planned_native(rounds));
            let more: Vec<MeasurementTask> = (1..=2).flat_map(|nth| more_native(rounds, nth)).collect();
            assert!(
                more.iter().enumerate().all(|(n, task)| !tasks.contains(task) && !more[..n].contains(task))
            );
            assert_eq!(tasks.len() as u32 - natives, 2 * (5 + 2 * (rounds - 1)) + 1);
        }
        let delays = plan(&[line(1)], &[], 2).into_iter().filter_map(|task| match task {
            MeasurementTask::Remote { delay_ns, nth, .. } => Some((delay_ns, nth)),
            MeasurementTask::Native { .. } => None,
        });
        let expected = [(1.0, 1), (5.0, 1), (3.0, 1), (2.0, 1), (4.0, 1), (5.0, 2), (1.0, 2)];
        assert_eq!(delays.collect::<Vec<_>>(), expected);
    }
}
