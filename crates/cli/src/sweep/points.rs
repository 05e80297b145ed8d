//! Points of a grid: checked, run on threads, and kept.

use super::grid::{self, Axis};
use super::progress::Watch;
use crate::failure::{Failure, say};
use crate::provenance::build;
use crate::scenario;
use crate::sim::work;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_record::{Figures, KeptPoints, RunFolder};
use unrack_sim::Summary;
use unrack_sim::scenario::excluded;

/// One scenario of a grid.
pub struct Point {
    /// Values, one for each axis.
    pub values: Vec<String>,
    /// Settings, as `--set` takes them.
    pub set: Vec<String>,
    /// Hash of the scenario and of the files that it names.
    pub scenario_hash: String,
}

pub struct Points {
    scenario: PathBuf,
    transfers: u64,
    pub all: Vec<Point>,
}

/// Folder of finished points, in the folder of the sweep.
const KEPT: &str = "points";

impl Points {
    /// Checks that every point can be run, and returns them.
    pub fn check(scenario: &Path, axes: &[Axis], transfers: u64) -> Result<Points, Failure> {
        let mut points = Points { scenario: scenario.into(), transfers, all: Vec::new() };
        for values in grid::points(axes) {
            let set: Vec<String> =
                axes.iter().zip(&values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
            let scenario_hash = points.hash(&set).map_err(|failure| at_point(failure, &set))?;
            points.all.push(Point { values, set, scenario_hash });
        }
        Ok(points)
    }

    /// Checks a point by running it until time zero, and returns its hash.
    fn hash(&self, set: &[String]) -> Result<String, Failure> {
        let (scenario, setup) = scenario::load(&self.scenario, set)?;
        work::checked(&scenario, &setup, self.transfers)?;
        Ok(scenario.hash_with_files()?)
    }

    /// Returns the options, beside the scenario, on which a result depends.
    fn asked(&self) -> String {
        format!("transfers={}", self.transfers)
    }

    /// Returns the summaries of all points, in their order: those kept in `folder`, and those of the others, which are
    /// run on `threads` threads and then kept.
    pub fn run(&self, folder: &RunFolder, threads: usize) -> Result<Vec<Summary>, Failure> {
        let place = folder.path(KEPT);
        let kept = KeptPoints::open(&place, &build())?;
        let asked = self.asked();
        let found: Vec<Option<Summary>> =
            self.all.iter().map(|point| kept.read(&point.scenario_hash, &asked)).collect();
        let missing: Vec<usize> = (0..found.len()).filter(|n| found[*n].is_none()).collect();
        if missing.len() < found.len() {
            let done = found.len() - missing.len();
            say(&format!("{done} of {} points are in {} already", found.len(), place.display()));
        }
        let (found, next, failed) = (Mutex::new(found), AtomicUsize::new(0), Mutex::new(None));
        let watch = Watch::new(missing.len());
        std::thread::scope(|scope| {
            for _ in 0..threads.min(missing.len()) {
                scope.spawn(|| {
                    while let Some(&n) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.one(&self.all[n], &kept, &watch) {
                            Ok(summary) => found.lock().expect("no thread panics with it")[n] = Some(summary),
                            Err(why) => {
                                next.store(missing.len(), Ordering::Relaxed);
                                failed.lock().expect("no thread panics with it").get_or_insert(why);
                            }
                        }
                    }
                });
            }
        });
        watch.finish();
        match failed.into_inner().expect("no thread panics with it") {
            Some(why) => Err(why),
            None => {
                let all = found.into_inner().expect("no thread panics with it").into_iter();
                Ok(all.map(|summary| summary.expect("every point was run")).collect())
            }
        }
    }

    fn one(&self, point: &Point, kept: &KeptPoints, watch: &Watch) -> Result<Summary, Failure> {
        let failed = |failure| at_point(failure, &point.set);
        let (scenario, setup) = scenario::load(&self.scenario, &point.set).map_err(failed)?;
        let (work, _) = work::checked(&scenario, &setup, self.transfers).map_err(failed)?;
        let mut share = watch.point();
        let done = setup.run(&work, |progress| share.show(progress));
        let done = done.map_err(|error| failed(scenario::refused(&error, &scenario)))?;
        let summary = done.summary(excluded(&scenario, &done.run));
        kept.write(&point.scenario_hash, &self.asked(), &summary)?;
        Ok(summary)
    }
}

fn at_point(failure: Failure, set: &[String]) -> Failure {
    let at = |text: String| format!("at {}: {text}", set.join(" "));
    match failure {
        Failure::Usage(text) => Failure::Usage(at(text)),
        Failure::Failed(text) => Failure::Failed(at(text)),
        other => other,
    }
}

/// Returns the figures that a sweep's tables hold.
pub fn figures(summary: &Summary) -> Figures {
    Figures {
        fabric: summary.fabric.clone(),
        seed: summary.seed,
        nodes: u64::from(summary.nodes),
        messages: summary.messages,
        completed: summary.completed,
        dropped_packets: summary.dropped,
        slowdown_mean: summary.slowdown.mean,
        slowdown_p50: summary.slowdown.p50,
        slowdown_p99: summary.slowdown.p99,
        slowdown_p999: summary.slowdown.p999,
        slowdown_max: summary.slowdown.max,
        completion_mean_ns: summary.completion_ns.mean,
        completion_p99_ns: summary.completion_ns.p99,
        throughput_gbps: summary.throughput_gbps,
        queue_mean_bytes: summary.queue_bytes.mean,
        queue_p99_bytes: summary.queue_bytes.p99,
        queue_max_bytes: summary.queue_bytes.max,
        sim_time_ns: summary.sim_time_ns,
        events: summary.events,
        packet_hops: summary.packet_hops,
    }
}
