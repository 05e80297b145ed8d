//! The points of a grid: checked, run on threads, and kept.

use super::grid::{self, Axis};
use super::progress::Watch;
use crate::failure::{Failure, say};
use crate::scenario;
use crate::sim::work;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_record::{Figures, RecordError, RunFolder, read_json, write_json};
use unrack_sim::scenario::excluded;
use unrack_sim::{Finished, Summary};

/// One scenario of a grid.
pub struct Point {
    /// One for each axis.
    pub values: Vec<String>,
    /// As `--set` takes them.
    set: Vec<String>,
    /// Equal for points that have the same result.
    key: String,
}

pub struct Points {
    scenario: PathBuf,
    transfers: u64,
    pub all: Vec<Point>,
}

/// Where finished points are kept, in the folder of the sweep.
const KEPT: &str = "points";

impl Points {
    /// All points, every one of which can be run.
    pub fn check(scenario: &Path, axes: &[Axis], transfers: u64) -> Result<Points, Failure> {
        let mut points = Points { scenario: scenario.into(), transfers, all: Vec::new() };
        for values in grid::points(axes) {
            let set: Vec<String> =
                axes.iter().zip(&values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
            let key = points.key(&set).map_err(|failure| at_point(failure, &set))?;
            points.all.push(Point { values, set, key });
        }
        Ok(points)
    }

    /// Checks a point by running it until time zero.
    fn key(&self, set: &[String]) -> Result<String, Failure> {
        let (scenario, setup) = scenario::load(&self.scenario, set)?;
        work::checked(&scenario, &setup, self.transfers)?;
        let hash = scenario.hash_with_files()?;
        Ok(format!("{hash}-{}-{}", self.transfers, env!("CARGO_PKG_VERSION")))
    }

    /// The figures of all points, in their order: those kept in `folder`, and those of the others, run on
    /// `threads` and then kept.
    pub fn run(&self, folder: &RunFolder, threads: usize) -> Result<Vec<Figures>, Failure> {
        let kept = folder.path(KEPT);
        std::fs::create_dir_all(&kept).map_err(|why| cannot_create(&kept, why))?;
        let found: Vec<Option<Figures>> =
            self.all.iter().map(|point| read_json(point.file(&kept)).ok()).collect();
        let missing: Vec<usize> = (0..found.len()).filter(|n| found[*n].is_none()).collect();
        if missing.len() < found.len() {
            let done = found.len() - missing.len();
            say(&format!("{done} of {} points are in {} already", found.len(), kept.display()));
        }
        let (found, next, failed) = (Mutex::new(found), AtomicUsize::new(0), Mutex::new(None));
        let watch = Watch::new(missing.len());
        std::thread::scope(|scope| {
            for _ in 0..threads.min(missing.len()) {
                scope.spawn(|| {
                    while let Some(&n) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.one(&self.all[n], &kept, &watch) {
                            Ok(figures) => found.lock().expect("no thread panics with it")[n] = Some(figures),
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
                Ok(all.map(|figures| figures.expect("every point was run")).collect())
            }
        }
    }

    fn one(&self, point: &Point, kept: &Path, watch: &Watch) -> Result<Figures, Failure> {
        let failed = |failure| at_point(failure, &point.set);
        let (scenario, setup) = scenario::load(&self.scenario, &point.set).map_err(|e| failed(e.into()))?;
        let work = work::checked(&scenario, &setup, self.transfers).map_err(|e| failed(e.into()))?;
        let mut share = watch.point();
        let done = setup.run(&work, |progress| share.show(progress));
        let done = done.map_err(|error| failed(error.in_scenario(&scenario).into()))?;
        // How long it took is not among the figures: they are the same on any machine.
        let figures = figures(&done, &done.summary(1.0, excluded(&scenario, &done.run)));
        write_json(point.file(kept), &figures)?;
        Ok(figures)
    }
}

impl Point {
    fn file(&self, kept: &Path) -> PathBuf {
        kept.join(format!("{}.json", self.key))
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

fn cannot_create(path: &Path, why: std::io::Error) -> Failure {
    RecordError::Io { action: "create", path: path.into(), why }.into()
}

fn figures(done: &Finished, summary: &Summary) -> Figures {
    Figures {
        fabric: done.fabric.into(),
        seed: done.seed,
        nodes: u64::from(done.nodes),
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
