//! One thread with remote memory against a parallel program whose memory is local (DDC, section 5.2, figure 9; McSherry, Isard and
//! Murray, "Scalability! But at what COST?", HotOS 2015).

use super::map::{MappedProgram, NETWORKS, SHARE, SlowdownLoss};
use super::program::{Measurement, ProgramFound, StudyProgram, other};
use crate::computed::Computed;
use unrack_report::{ChartSeries, Picture, SeriesAxis, SeriesChart};

/// Rate in bits per second of the networks among which the crossover is searched.
const RATE: u64 = 40_000_000_000;

/// A single-threaded program with remote memory, and the times of its alternatives.
pub struct SingleThread<'a> {
    mapped: &'a MappedProgram<'a>,
    /// Native run time of the parallel program, in seconds.
    parallel_s: f64,
    /// Run time of the single-threaded program when it swaps to a local disk, in seconds.
    disk_s: Option<f64>,
}

/// Returns the single-threaded programs that have a parallel alternative, if both were measured.
pub fn costs<'a>(
    mapped: &'a [MappedProgram<'a>],
    programs: &[StudyProgram],
    found: &[ProgramFound],
) -> Vec<SingleThread<'a>> {
    let one = |single: &'a MappedProgram<'a>| {
        let parallel = single.program.parallel.as_ref()?;
        let parallel = found.iter().find(|found| found.program == *parallel)?;
        let disk = other(&single.program.name, Measurement::Swap, programs);
        let disk = disk.and_then(|disk| found.iter().find(|found| found.program == disk.name));
        let disk_s = disk.and_then(|found| found.number("/swap/median_s"));
        Some(SingleThread { mapped: single, parallel_s: parallel.number("/native/median_s")?, disk_s })
    };
    mapped.iter().filter_map(one).collect()
}

impl SingleThread<'_> {
    /// Returns the run time in seconds that follows from a loss.
    fn seconds(&self, loss_percent: f64) -> Option<f64> {
        Some(self.mapped.map.native_s? * (1.0 + loss_percent / 100.0))
    }

    /// Returns the pairs of latency in microseconds and run time in seconds at [`RATE`].
    fn over_latency(&self) -> Vec<(f64, f64)> {
        let map = &self.mapped.map;
        let column = map.bandwidths_bps.iter().position(|bps| *bps == RATE);
        let local = map.locals.iter().find(|local| local.local == SHARE);
        let (Some(column), Some(rows)) = (column, local.and_then(|local| local.slowdown.as_ref())) else {
            return Vec::new();
        };
        let point =
            |(ns, row): (&f64, &Vec<f64>)| Some((*ns / 1e3, self.seconds((row.get(column)? - 1.0) * 100.0)?));
        map.latencies_ns.iter().zip(rows).filter_map(point).collect()
    }

    /// Returns the latency in microseconds up to which the single-threaded program is faster than the parallel one. Returns `None` if
    /// it is faster at all measured latencies, or at none.
    fn crossover_us(&self) -> Option<f64> {
        let points = self.over_latency();
        let crosses = |pair: &&[(f64, f64)]| pair[0].1 <= self.parallel_s && pair[1].1 > self.parallel_s;
        let [(before, fast), (behind, slow)] = points.windows(2).find(crosses)?.try_into().ok()?;
        Some(before + (behind - before) * (self.parallel_s - fast) / (slow - fast))
    }
}

/// Returns the speedups over the alternatives, and the crossovers, by name.
pub fn values(costs: &[SingleThread]) -> Computed {
    let mut values = Computed::new();
    for cost in costs {
        let name = &cost.mapped.program.name;
        for network in NETWORKS {
            let Some(SlowdownLoss { value, low, high }) = cost.mapped.loss(SHARE, network) else { continue };
            let speedup = |loss| Some(cost.parallel_s / cost.seconds(loss)?);
            let ends = [("", value), (".low", high), (".high", low)];
            values.extend(ends.into_iter().filter_map(|(end, loss)| {
                Some((format!("{name}-speedup-{}{end}", network.name), speedup(loss)?))
            }));
        }
        let near = cost.mapped.loss(SHARE, NETWORKS[0]).and_then(|loss| cost.seconds(loss.value));
        let over_disk = cost.disk_s.zip(near).map(|(disk, near)| disk / near);
        values.extend(over_disk.map(|ratio| (format!("{name}-over-disk"), ratio)));
        values.extend(cost.crossover_us().map(|us| (format!("{name}-crossover-us"), us)));
    }
    values
}

/// Returns a picture for each program: its run time over latency, and the run times of its alternatives.
pub fn pictures(name: &str, costs: &[SingleThread]) -> Vec<Picture> {
    let one = |cost: &SingleThread| {
        let points = cost.over_latency();
        let (first, last) = (points.first()?.0, points.last()?.0);
        let flat = |s: f64| vec![(first, s), (last, s)];
        let mut series = vec![ChartSeries::new("one thread, remote memory", points)];
        series.push(ChartSeries::new("parallel, local memory", flat(cost.parallel_s)));
        series.extend(cost.disk_s.map(|s| ChartSeries::new("one thread, swap to disk", flat(s))));
        let chart = SeriesChart {
            id: format!("{name}-{}", cost.mapped.program.name),
            title: format!("{} with a quarter of its memory local, at 40 Gb/s", cost.mapped.program.name),
            x: SeriesAxis::Numbers("latency of a page, us".into()),
            y_label: "run time, s".into(),
            y_log: false,
            series,
            ranges: None,
        };
        Some(chart.figure())
    };
    costs.iter().filter_map(one).collect()
}
