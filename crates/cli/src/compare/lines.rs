//! `unrack compare --access lines` and `both`: loads and stores of the program, alone or beside its pages.

use super::{Args, failed, simulated};
use crate::failure::Failure;
use crate::folder;
use crate::lines::answer::{self, Basis};
use crate::lines::instrumented::Instrumented;
use crate::lines::{model, native};
use crate::provenance::build;
use crate::runs::budget::Budget;
use crate::runs::progress::Steps;
use crate::runs::with_median;
use crate::stdout::print;
use std::process::ExitCode;
use unrack_lines_run::calibrate::Calibration;
use unrack_paging::{CheckedProgram, Input};
use unrack_rack::Protocol;
use unrack_record::{
    Access, Comparison, LinesFabric, LinesResult, LinesSummary, NativeTimes, RunFolder, Started, Stated,
    Warning,
};
use unrack_report::{RecordedRun, Report};
use unrack_units::nearest::hint;

/// Output file of the instrumented run, and of native ones, in the run folder.
const INSTRUMENTED_OUTPUT: &str = "instrumented.out";
const NATIVE_OUTPUT: &str = "native.out";
/// Time of an instrumented run over that of a native one, for the budget: QEMU with every load and store told.
const INSTRUMENTED: f64 = 40.0;

/// Parses the value of `--access`.
pub(super) fn parse_access(name: &str) -> Result<Access, String> {
    match name {
        "pages" => Ok(Access::Pages),
        "lines" => Ok(Access::Lines),
        "both" => Ok(Access::Both),
        _ => Err(format!("no unit of access{}", hint(name, &["pages", "lines", "both"]))),
    }
}

/// Runs `unrack compare` for lines, or for both.
pub(super) fn main(args: &Args) -> Result<ExitCode, Failure> {
    if args.fail_if.is_some() {
        return Err(Failure::Usage("--fail-if is for --access pages: leave one of them out".into()));
    }
    let started = Started::now(build());
    let budget = Budget::new(args.budget);
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let folder = folder::create(&args.out, &args.purpose(&words), args.replace)?;
    let steps = Steps::new();
    let pages = (args.access == Access::Both).then(|| args.pages(&folder, &budget, &steps)).transpose()?;
    let summary = LinesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        seed: args.seed,
        access: args.access,
        lines: args.lines(&folder, &budget, &steps, &words)?,
        command: words,
        pages,
        machine: Some(started.machine()),
    };
    folder.write_json("summary.json", &summary)?;
    let settings = serde_json::json!({ "nodes": args.nodes, "repeat": args.repeat, "access": args.access });
    folder.write_json("manifest.json", &started.manifest(args.seed, None, settings))?;
    let report = folder.path("report.html");
    Report::from_runs(vec![RecordedRun::read(&args.out).map_err(failed)?]).write(&report).map_err(failed)?;
    steps.finish();
    print(&args.told(&summary, &report)?)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Compares fabrics by the program's pages.
    fn pages(&self, folder: &RunFolder, budget: &Budget, steps: &Steps) -> Result<Comparison, Failure> {
        let mut job = CheckedProgram::prepare(&self.command)?;
        job.input = Input::repeatable()?;
        let scenario = simulated::scenario(&self.fabric, self.nodes, self.rate, self.seed);
        self.compare(&job, folder, &scenario, budget, steps)
    }

    fn lines(
        &self,
        folder: &RunFolder,
        budget: &Budget,
        steps: &Steps,
        words: &[String],
    ) -> Result<LinesResult, Failure> {
        let native = self.natively(folder, budget, steps)?;
        steps.begin("measuring the caches");
        let calibration = Calibration::kept_or_measured().map_err(|why| Failure::Lacking(why.to_string()))?;
        let predicted_s = INSTRUMENTED * native.processor.median_s.max(native.wall.median_s);
        if !budget.allows(predicted_s) {
            let text = format!(
                "the budget of {} has no time for the instrumented run, about {predicted_s:.0} s: give a larger --budget",
                budget.text()
            );
            return Err(Failure::Failed(text));
        }
        steps.begin("instrumented run");
        let output = folder.path(INSTRUMENTED_OUTPUT);
        let instrumented = Instrumented::run(&self.command, self.seed, Some(&output))?;
        answer::write_heat(folder, &instrumented, words.to_vec())?;
        let cycles = model::cycles();
        let fabrics = cycles.as_ref().err().map(|why| self.withheld_fabrics(why)).unwrap_or_default();
        let basis = Basis {
            instrumented: &instrumented,
            calibration: &calibration,
            native: Some(native),
            local: "0%".into(),
            placement: "all-far".into(),
            cycles,
        };
        Ok(LinesResult { fabrics, ..basis.result() })
    }

    fn withheld_fabrics(&self, why: &Warning) -> Vec<LinesFabric> {
        let row = |protocol: &Protocol| LinesFabric {
            fabric: protocol.name().into(),
            read_ns: None,
            slowdown: Stated::withheld(why.clone()),
            slowdown_closed_loop: Stated::withheld(why.clone()),
            simulation: serde_json::Value::Null,
        };
        self.fabric.iter().map(row).collect()
    }

    fn natively(&self, folder: &RunFolder, budget: &Budget, steps: &Steps) -> Result<NativeTimes, Failure> {
        let output = folder.path(NATIVE_OUTPUT);
        let mut runs: Vec<native::NativeRun> = Vec::new();
        for nth in 0..=self.repeat {
            if runs.first().is_some_and(|first| !budget.allows(first.wall_s)) {
                break;
            }
            steps.begin(format!("native run {}", nth + 1));
            runs.push(native::run(&self.command, &output)?);
        }
        let wall = with_median(runs.iter().map(|run| run.wall_s).collect());
        Ok(NativeTimes { wall, processor: with_median(runs.iter().map(|run| run.processor_s).collect()) })
    }

    fn told(&self, summary: &LinesSummary, report: &std::path::Path) -> Result<String, Failure> {
        if self.json {
            return Ok(serde_json::to_string_pretty(summary).map_err(failed)? + "\n");
        }
        let pages = summary.pages.as_ref().map(|pages| unrack_report::comparison_text(pages) + "\n");
        let lines = unrack_report::lines_text(summary);
        Ok(format!("{}{lines}Report: {}\n", pages.unwrap_or_default(), report.display()))
    }
}
