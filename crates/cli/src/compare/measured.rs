//! What the program itself shows: native runs, the captured run, and runs at injected delays.

use crate::failure::Failure;
use crate::runs::line::{self, Injected};
use crate::runs::progress::Steps;
use crate::runs::{NATIVE, REMOTE, Remote, Runner, with_median};
use unrack_paging::{Calibration, CaptureTo, Job, Mode, RunReport, calibrate, local_bytes};
use unrack_record::{Fit, InjectionPoint, RunFolder, Runs};
use unrack_units::{Bytes, Rate, Share};

pub struct Plan {
    pub local: Share,
    pub rate: Rate,
    pub repeat: u32,
    pub seed: u64,
}

pub struct Measured {
    pub native: Runs,
    pub footprint: Bytes,
    pub local: Bytes,
    pub calibration: Calibration,
    pub captured: RunReport,
    pub points: Vec<InjectionPoint>,
    pub fit: Fit,
    /// Fetches of a run with this share of the footprint local, other than the one asked for.
    pub other_shares: Vec<(f64, u64)>,
    pub warnings: Vec<String>,
}

/// Local shares whose fetches are counted to answer "how much local memory is enough?".
const SHARES: [f64; 3] = [0.4, 0.6, 0.8];

/// What all runs are reckoned to take, in native runs.
pub fn reckoned(repeat: u32) -> f64 {
    f64::from(repeat) * NATIVE + line::reckoned(repeat) + (1 + SHARES.len()) as f64 * REMOTE
}

pub fn measure(job: &Job, plan: &Plan, folder: &RunFolder, steps: &Steps) -> Result<Measured, Failure> {
    let runner = Runner { job, folder, steps, rate: plan.rate, seed: plan.seed };
    let (native, footprint) = run_natively(&runner, plan.repeat)?;
    let local = local_bytes(plan.local, footprint)?;
    let calibration = calibrate(Mode::Blocking)?;
    let program = Program { runner, footprint, calibration };
    let captured = program.capture(local, native.median_s)?;
    let points = program.inject(local, native.median_s, captured.tally.fetches, plan.repeat)?;
    let fit = line::through(&points)?;
    let other_shares = program.other_shares(local)?;
    let mut warnings = captured.warnings.clone();
    warnings.extend(doubts(&fit, &captured, &program.runner));
    Ok(Measured { native, footprint, local, calibration, captured, points, fit, other_shares, warnings })
}

fn run_natively(runner: &Runner, repeat: u32) -> Result<(Runs, Bytes), Failure> {
    let (mut seconds, mut footprint) = (Vec::new(), Bytes::ZERO);
    for n in 1..=repeat {
        let (wall_s, needed) = runner.natively(format!("native run {n} of {repeat}"))?;
        footprint = footprint.max(needed);
        seconds.push(wall_s);
    }
    Ok((with_median(seconds), footprint))
}

/// The program, once its native runs have shown what it needs.
struct Program<'a> {
    runner: Runner<'a>,
    footprint: Bytes,
    calibration: Calibration,
}

impl Program<'_> {
    fn remote(&self, local: Bytes, delay_ns: f64) -> Remote {
        Remote { local, delay_ns, calibration: self.calibration }
    }

    fn capture(&self, local: Bytes, native_s: f64) -> Result<RunReport, Failure> {
        let path = self.runner.folder.path("trace.parquet");
        let capture = CaptureTo { path: &path, footprint: Some(self.footprint), native_s: Some(native_s) };
        self.runner.remotely("captured run".into(), REMOTE, &self.remote(local, 0.0), Some(capture))
    }

    fn inject(
        &self,
        local: Bytes,
        native_s: f64,
        fetches: u64,
        repeat: u32,
    ) -> Result<Vec<InjectionPoint>, Failure> {
        let delays = line::delays_ns(native_s, fetches, self.calibration.floor_ns);
        let point = |(n, delay_ns): (u32, f64)| {
            let remote = self.remote(local, delay_ns);
            let run = |nth: u32| {
                let what = format!("run {nth} of {repeat} with {:.0} us a fetch", delay_ns / 1e3);
                let report = self.runner.remotely(what, line::stretched(n), &remote, None)?;
                Ok(Injected::of(&report))
            };
            let runs: Result<Vec<_>, Failure> = (1..=repeat).map(run).collect();
            Ok(line::point(self.runner.delay(delay_ns).mean_ns(), &runs?))
        };
        (1..).zip(delays).map(point).collect()
    }

    fn other_shares(&self, asked: Bytes) -> Result<Vec<(f64, u64)>, Failure> {
        let mut counted = Vec::new();
        for share in SHARES {
            let local = Bytes::new((share * self.footprint.get() as f64) as u64);
            if local <= asked || local < unrack_paging::SMALLEST_LOCAL {
                self.runner.steps.skip(REMOTE);
                continue;
            }
            let what = format!("run with {:.0}% local", share * 100.0);
            let report = self.runner.remotely(what, REMOTE, &self.remote(local, 0.0), None)?;
            counted.push((share, report.tally.fetches));
        }
        Ok(counted)
    }
}

/// What should make a reader careful.
fn doubts(fit: &Fit, captured: &RunReport, runner: &Runner) -> Vec<String> {
    let mut doubts = Vec::new();
    if captured.tally.fetches < 1000 {
        let fetches = captured.tally.fetches;
        doubts.push(format!("only {fetches} fetches: this program hardly needs more than its local memory"));
    }
    if fit.r2 < line::STRAIGHT_R2 {
        doubts.push(format!(
            "the runs do not lie well on a line (R2 {:.2}): repeat on an idle machine",
            fit.r2
        ));
    }
    if !runner.same_output() {
        doubts.push(runner.output_differs());
    }
    doubts
}
