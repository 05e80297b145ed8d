//! Points of a sweep, which are run here or one by one elsewhere, and stored in a folder.

use crate::errors::{ErrorClass, of_record, of_run, raised};
use crate::waiting::{Gauge, interruptible};
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use unrack_build::build;
use unrack_grid::runner::cores;
use unrack_grid::sweep::{GridPlan, GridPoints, KEPT, SweepPart};
use unrack_grid::watch::STEPS;
use unrack_grid::{GridWatch, ScenarioSource, axes, sweep_folder};
use unrack_record::KeptPoints;
use unrack_sim::Summary;

/// Points of a sweep.
#[pyclass(frozen, name = "Grid", module = "unrack._native")]
pub(crate) struct SweepGrid {
    source: ScenarioSource,
    /// Path of the scenario file, or the name of its text.
    name: String,
    /// Axes as given by the caller.
    set: Vec<String>,
    seeds: Option<String>,
    plan: GridPlan,
}

impl SweepGrid {
    /// Checks all points. `gauge` may cancel the check.
    pub(crate) fn check(
        source: &ScenarioSource,
        name: String,
        set: &[String],
        seeds: Option<&str>,
        gauge: &Gauge,
    ) -> PyResult<SweepGrid> {
        let plan = points(source, set, seeds, gauge)?.plan();
        Ok(SweepGrid { source: source.clone(), name, set: set.to_vec(), seeds: seeds.map(Into::into), plan })
    }

    fn point(&self, index: usize) -> PyResult<&unrack_grid::sweep::PlannedPoint> {
        let wrong =
            || raised(ErrorClass::Refused, &format!("there is no point {index} of {}", self.__len__()));
        self.plan.points.get(index).ok_or_else(wrong)
    }
}

fn points<'s>(
    source: &'s ScenarioSource,
    set: &[String],
    seeds: Option<&str>,
    gauge: &Gauge,
) -> PyResult<GridPoints<'s>> {
    let axes = axes::parsed(set, seeds).map_err(|why| raised(ErrorClass::Refused, &why))?;
    GridPoints::check(source, axes, || gauge.check()).map_err(|why| of_run(&why))
}

#[pymethods]
impl SweepGrid {
    fn __len__(&self) -> usize {
        self.plan.points.len()
    }

    /// Creates the folder of the sweep, or takes over an existing one like the command does. Returns the folder for its points.
    #[pyo3(signature = (folder, replace = false))]
    fn folder(&self, folder: PathBuf, replace: bool) -> PyResult<PathBuf> {
        let made = sweep_folder::create(&folder, &self.plan, &self.name, replace);
        Ok(made.map_err(|why| of_run(&why))?.path(KEPT))
    }

    /// Returns the settings of a point.
    fn set(&self, index: usize) -> PyResult<Vec<String>> {
        Ok(self.point(index)?.set.clone())
    }

    /// Returns the complete scenario of a point, and the files that it names, as pairs of key and path.
    fn scenario(&self, index: usize) -> PyResult<(String, Vec<(&'static str, PathBuf)>)> {
        let (scenario, _) = self.source.origin.load(&self.point(index)?.set).map_err(|why| of_run(&why))?;
        let files = scenario.files().into_iter().map(|(key, file)| (key, file.path.clone())).collect();
        Ok((scenario.explain(), files))
    }

    /// Returns the indices of the points that are not in the folder yet. Of equal points, only the first is returned.
    fn missing(&self, folder: PathBuf) -> PyResult<Vec<usize>> {
        let kept = KeptPoints::open(folder, &build()).map_err(|why| of_record(&why))?;
        let mut seen = std::collections::BTreeSet::new();
        let is_missing = |(_, point): &(usize, &unrack_grid::sweep::PlannedPoint)| {
            kept.read::<Summary>(&point.scenario_hash, &self.plan.asked).is_none()
                && seen.insert(point.scenario_hash.clone())
        };
        Ok(self.plan.points.iter().enumerate().filter(is_missing).map(|(index, _)| index).collect())
    }

    /// Stores the figures of a point in the folder, in the form in which [`Source::point`](crate::source::Source) returns them.
    fn keep(&self, folder: PathBuf, index: usize, figures: &str) -> PyResult<()> {
        let point = self.point(index)?;
        let wrong = |why| raised(ErrorClass::Failed, &format!("these are no figures of a point: {why}"));
        let summary: Summary = serde_json::from_str(figures).map_err(wrong)?;
        let kept = KeptPoints::open(folder, &build()).map_err(|why| of_record(&why))?;
        kept.write(&point.scenario_hash, &self.plan.asked, &summary).map_err(|why| of_record(&why))
    }

    /// Runs the points that are not in the folder yet, and stores them there. Without `threads`, it uses all cores.
    #[pyo3(signature = (folder, threads = None, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        threads: Option<NonZeroUsize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let kept = KeptPoints::open(folder, &build()).map_err(|why| of_record(&why))?;
        interruptible(py, progress, |gauge| {
            let points = points(&self.source, &self.set, self.seeds.as_deref(), gauge)?;
            let threads = threads.unwrap_or_else(cores);
            points.run(SweepPart::WHOLE, &kept, threads, &GridProgress(gauge)).map_err(|why| of_run(&why))
        })??;
        Ok(())
    }
}

/// Progress of a grid. Each point counts as [`STEPS`] steps.
struct GridProgress<'a>(&'a Gauge);

impl GridWatch for GridProgress<'_> {
    fn begin(&self, kept: usize, all: usize) {
        self.0.begin((all - kept) as u64 * STEPS);
    }

    fn advance(&self, steps: u64) {
        self.0.advance(steps);
    }
}
