//! Question of a map: one program's slowdown over latency, bandwidth and local share (DDC fig. 2 to 5).
//!
//! ```text
//! native runs -> for each local share: a run without delay, runs at injected delays -> fitted line
//!                                           fitted line -> slowdown at every latency and bandwidth
//! ```
//! The runs are made like those of a comparison.

use super::grid::MapGrid;
use crate::asking::QuestionCaller;
use crate::budget::RunBudget;
use crate::error::Error;
use crate::folder;
use crate::runs::maker::RunMaker;
use crate::runs::program::{FREE_LINK, MeasuredProgram, SEED, check_repeat, folder_of, kept_of};
use crate::runs::runner::Runner;
use crate::runs::survey::{Survey, undelayed};
use crate::runs::task::DISTURBED;
use crate::steps::QuestionSteps;
use std::ffi::OsString;
use std::path::PathBuf;
use unrack_paging::local_bytes;
use unrack_record::{MapLocal, RunFolder, SlowdownMap, Warning};
use unrack_units::{Bytes, Rate, Share, Time};

/// Question how much slower a program is at each latency, bandwidth and local share.
#[derive(Debug, Clone)]
pub struct MapQuestion {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Amounts of memory that stay local, one panel of the map for each.
    pub locals: Vec<Share>,
    /// Latencies of a fetch, without the transmission of its page.
    pub latencies: Vec<Time>,
    /// Rates of the link to remote memory.
    pub bandwidths: Vec<Rate>,
    /// Rounds of runs, 1 to 100.
    pub repeat: u32,
    /// Time budget of the whole answer. Without a budget, only the planned runs are made.
    pub budget: Option<Time>,
    /// Run folder. It is created, or continued if it belongs to the same program.
    pub out: PathBuf,
    /// Whether an existing run in that folder is replaced, even if it belongs to another program.
    pub replace: bool,
}

/// Answer to a [`MapQuestion`].
#[derive(Debug, Clone)]
pub struct MapAnswer {
    /// Contents of `map.json`.
    pub map: SlowdownMap,
    /// Report in the run folder.
    pub report: PathBuf,
}

/// Default axes of a map: local shares, latencies in nanoseconds, and rates in Gb/s.
const USUAL_LOCALS: [&str; 4] = ["10%", "25%", "50%", "75%"];
const USUAL_LATENCIES_NS: [u64; 8] = [500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000];
const USUAL_GBPS: [u64; 5] = [10, 25, 40, 100, 200];

impl MapQuestion {
    /// Returns the question with the default values of `unrack map`.
    pub fn of(command: Vec<OsString>) -> MapQuestion {
        MapQuestion {
            command,
            locals: USUAL_LOCALS.map(|share| share.parse().expect("a percentage is a share")).into(),
            latencies: USUAL_LATENCIES_NS.map(Time::from_ns).into(),
            bandwidths: USUAL_GBPS.map(Rate::from_gbps).into(),
            repeat: 2,
            budget: None,
            out: "unrack-map".into(),
            replace: false,
        }
    }

    /// Runs the program, and writes the run folder with the map and the report.
    ///
    /// # Errors
    /// If the question cannot be answered on this machine, a run fails, or the question is canceled.
    pub fn ask(&self, asking: QuestionCaller) -> Result<MapAnswer, Error> {
        check_repeat(self.repeat)?;
        let program = MeasuredProgram::prepare(&self.command, self.budget, asking)?;
        // The run folder is independent of the axes, because a map of the same command with other axes is drawn from the same runs.
        let folder = folder_of(&*program.maker, "map", &self.out, self.replace)?;
        let steps = QuestionSteps::until(asking, program.budget.until());
        let found = self.measure(&*program.maker, &program.budget, &folder, &steps)?;
        let map = SlowdownMap { machine: Some(program.started.machine()), ..found };
        folder.write_json("map.json", &map)?;
        let settings = serde_json::json!({ "repeat": self.repeat });
        folder.write_json("manifest.json", &program.started.manifest(SEED, None, settings))?;
        let report = folder::report(&self.out, &folder)?;
        Ok(MapAnswer { map, report })
    }

    fn measure(
        &self,
        maker: &dyn RunMaker,
        budget: &RunBudget,
        folder: &RunFolder,
        steps: &QuestionSteps,
    ) -> Result<SlowdownMap, Error> {
        let kept = kept_of(maker, folder, steps);
        let runner = Runner { maker, folder, rate: FREE_LINK, seed: SEED };
        let survey = Survey::begin(&runner, &kept, budget, steps, self.repeat)?;
        let locals: Result<Vec<Bytes>, _> =
            self.locals.iter().map(|share| local_bytes(*share, survey.footprint())).collect();
        let locals = locals?;
        // The run with the most local memory comes first: it is the shortest, and the best prediction of the time of the next run.
        let mut by_time = locals.clone();
        by_time.sort_unstable_by(|one, other| other.cmp(one));
        by_time.iter().try_for_each(|local| survey.undelayed(*local))?;
        survey.inject(&locals, &[])?;
        survey.make_surer(&locals, self.grid().longest_ns())?;
        steps.finish();
        Ok(self.conclude(&survey, &locals))
    }

    /// Returns the axes in ascending order.
    fn grid(&self) -> MapGrid {
        let mut grid = MapGrid { latencies: self.latencies.clone(), bandwidths: self.bandwidths.clone() };
        grid.latencies.sort();
        grid.bandwidths.sort();
        grid
    }

    fn conclude(&self, survey: &Survey, locals: &[Bytes]) -> SlowdownMap {
        let grid = self.grid();
        let panel = |(share, local): (&Share, &Bytes)| panel(survey, &grid, *share, *local);
        let fetched: Vec<u64> =
            locals.iter().filter_map(|local| Some(survey.kept.get(undelayed(*local))?.fetches)).collect();
        let locals: Vec<_> = self.locals.iter().zip(locals).map(panel).collect();
        let cost = survey.kept.cost().filter(|(_, is_disturbed)| !is_disturbed);
        let mut warnings = survey.warnings();
        if let Some(rough) = locals.iter().find_map(|local| local.rough.clone()) {
            // If disturbed runs are used, the warning `rough` replaces those about each disturbed run.
            warnings.retain(|warning| warning.key != DISTURBED);
            warnings.push(rough);
        }
        warnings.extend(locals.iter().flat_map(|local| grid.doubts(local)));
        warnings.extend(few_fetches(&fetched));
        SlowdownMap {
            version: env!("CARGO_PKG_VERSION").into(),
            command: survey.runner.maker.words(),
            native_s: survey.any_native().ok().map(|native| native.median_s),
            footprint_bytes: survey.footprint().get(),
            floor_ns: cost.map(|(cost, _)| cost.floor_ns),
            latencies_ns: grid.latencies.iter().map(|latency| latency.as_ns_f64()).collect(),
            bandwidths_bps: grid.bandwidths.iter().map(|rate| rate.as_bps()).collect(),
            locals,
            disturbance: survey.disturbance(),
            warnings,
            machine: None,
        }
    }
}

/// Returns the panel of the map for one local share.
fn panel(survey: &Survey, grid: &MapGrid, share: Share, local: Bytes) -> MapLocal {
    let conclusion = survey.conclude(local);
    let fetches = survey.kept.get(undelayed(local)).map_or(0, |done| done.fetches);
    let cells = match (conclusion.line(), survey.any_native()) {
        (Ok(_), Ok(native)) => grid.slowdowns(native.median_s, &conclusion, fetches),
        (Err(why), _) => Err(why.clone()),
        (_, Err(why)) => Err(why),
    };
    let withheld = cells.as_ref().err().cloned();
    let (slowdown, slowdown_ci95) = cells.ok().unzip();
    MapLocal {
        local: share.to_string(),
        local_bytes: local.get(),
        fetches,
        points: conclusion.points,
        fit: conclusion.fit,
        withheld,
        rough: conclusion.rough,
        slowdown,
        slowdown_ci95,
    }
}

/// Returns a warning if there are few fetches. `fetched` has the number of fetched pages at each local share.
fn few_fetches(fetched: &[u64]) -> Option<Warning> {
    let most = *fetched.iter().max()?;
    let text = format!("at most {most} fetches: this program hardly needs more than its local memory");
    (most < 1000).then(|| Warning::new("few-fetches", text))
}
