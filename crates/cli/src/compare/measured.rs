//! What the program itself shows: native runs, the captured run, and runs at injected delays.

use super::progress::Steps;
use crate::failure::Failure;
use std::path::Path;
use unrack_paging::{
    Calibration, CaptureTo, Delay, Job, Output, RunReport, Setup, Status, calibrate, fit, local_bytes, native,
};
use unrack_record::{Fit, InjectionPoint, RunFolder, Runs};
use unrack_units::{Bytes, Rate, Share, Time};

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

/// Delays are injected at so many values, evenly spaced.
const POINTS: u32 = 3;
/// The smallest is so many times the pager's own cost.
const ABOVE_FLOOR: f64 = 2.0;
/// Injected waits may make the program take so many times its native run time longer.
const STRETCH: f64 = 2.0;
const LARGEST_DELAY_NS: f64 = 500_000.0;
/// Local shares whose fetches are counted to answer "how much local memory is enough?".
const SHARES: [f64; 3] = [0.4, 0.6, 0.8];

/// How many times the program runs.
pub fn steps(repeat: u32) -> u64 {
    repeat as u64 + 1 + (POINTS * repeat) as u64 + SHARES.len() as u64
}

pub fn measure(job: &Job, plan: &Plan, folder: &RunFolder, steps: &Steps) -> Result<Measured, Failure> {
    let (native, footprint) = run_natively(job, plan, folder, steps)?;
    let local = local_bytes(plan.local, footprint)?;
    let calibration = calibrate()?;
    let runner = Runner { job, plan, folder, steps, calibration, footprint };
    let captured = runner.capture(local, native.median_s)?;
    let points = runner.inject(local, native.median_s, captured.tally.fetches)?;
    let fit = line_through(&points)?;
    let other_shares = runner.other_shares(local)?;
    let mut warnings = captured.warnings.clone();
    warnings.extend(doubts(&fit, &captured, job, folder));
    Ok(Measured { native, footprint, local, calibration, captured, points, fit, other_shares, warnings })
}

fn run_natively(job: &Job, plan: &Plan, folder: &RunFolder, steps: &Steps) -> Result<(Runs, Bytes), Failure> {
    let output = Output::File(folder.path("native.out"));
    let (mut seconds, mut footprint) = (Vec::new(), Bytes::ZERO);
    for n in 0..plan.repeat {
        steps.begin(format!("native run {} of {}", n + 1, plan.repeat));
        let run = native(job, &output)?;
        check_status(run.status, "natively", &folder.path("native.out"))?;
        run.footprint.check()?;
        footprint = footprint.max(run.footprint.bytes());
        seconds.push(run.wall_s);
        steps.done();
    }
    Ok((runs(seconds), footprint))
}

/// A run with remote memory, with everything it takes.
struct Runner<'a> {
    job: &'a Job,
    plan: &'a Plan,
    folder: &'a RunFolder,
    steps: &'a Steps,
    calibration: Calibration,
    footprint: Bytes,
}

impl Runner<'_> {
    fn run(&self, local: Bytes, delay: &Delay, capture: Option<CaptureTo>) -> Result<RunReport, Failure> {
        let output = Output::File(self.folder.path("remote.out"));
        let (calibration, seed) = (self.calibration, self.plan.seed);
        let setup = Setup { local, delay, calibration, seed, capture, node: None, output };
        let report = unrack_paging::measure(self.job, &setup)?;
        check_status(report.status, "with remote memory", &self.folder.path("remote.out"))?;
        self.steps.done();
        Ok(report)
    }

    fn capture(&self, local: Bytes, native_s: f64) -> Result<RunReport, Failure> {
        self.steps.begin("captured run");
        let path = self.folder.path("trace.parquet");
        let capture = CaptureTo { path: &path, footprint: Some(self.footprint), native_s: Some(native_s) };
        self.run(local, &self.delay(0.0), Some(capture))
    }

    /// A delay of so much in all, transmission included.
    fn delay(&self, whole_ns: f64) -> Delay {
        let transmission = self.plan.rate.transmit(Bytes::new(4096));
        let whole = Time::from_secs_f64(whole_ns.max(0.0) / 1e9);
        Delay::constant(whole.saturating_sub(transmission), self.plan.rate)
    }

    fn inject(&self, local: Bytes, native_s: f64, fetches: u64) -> Result<Vec<InjectionPoint>, Failure> {
        let smallest = ABOVE_FLOOR * self.calibration.floor_ns;
        let affordable = STRETCH * native_s * 1e9 / fetches.max(1) as f64;
        let largest = affordable.clamp(f64::from(POINTS) * smallest, LARGEST_DELAY_NS.max(3.0 * smallest));
        let delays = (1..=POINTS).map(|n| largest * f64::from(n) / f64::from(POINTS));
        delays.map(|delay_ns| self.inject_one(local, delay_ns)).collect()
    }

    fn inject_one(&self, local: Bytes, delay_ns: f64) -> Result<InjectionPoint, Failure> {
        let delay = self.delay(delay_ns);
        let mut reports = Vec::new();
        for n in 0..self.plan.repeat {
            let (n, of) = (n + 1, self.plan.repeat);
            self.steps.begin(format!("run {n} of {of} with {:.0} us a fetch", delay_ns / 1e3));
            reports.push(self.run(local, &delay, None)?);
        }
        let middle = reports[reports.len() / 2].tally;
        Ok(InjectionPoint {
            delay_ns: delay.mean_ns(),
            runs: runs(reports.iter().map(|report| report.wall_s).collect()),
            fetches: middle.fetches,
            write_backs: middle.write_backs,
        })
    }

    fn other_shares(&self, asked: Bytes) -> Result<Vec<(f64, u64)>, Failure> {
        let mut counted = Vec::new();
        for share in SHARES {
            let local = Bytes::new((share * self.footprint.get() as f64) as u64);
            self.steps.begin(format!("run with {:.0}% local", share * 100.0));
            if local <= asked || local < unrack_paging::SMALLEST_LOCAL {
                self.steps.done();
                continue;
            }
            counted.push((share, self.run(local, &self.delay(0.0), None)?.tally.fetches));
        }
        Ok(counted)
    }
}

fn check_status(status: Status, how: &str, output: &Path) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let (code, output) = (status.code(), output.display());
    Err(Failure::Failed(format!(
        "the program ended with status {code} when run {how}; its output is in {output}"
    )))
}

fn runs(seconds: Vec<f64>) -> Runs {
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median_s =
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Runs { seconds, median_s }
}

fn line_through(points: &[InjectionPoint]) -> Result<Fit, Failure> {
    let point = |point: &InjectionPoint, run_s: &f64| fit::Point { delay_ns: point.delay_ns, run_s: *run_s };
    let all: Vec<_> = points.iter().flat_map(|p| p.runs.seconds.iter().map(move |s| point(p, s))).collect();
    fit::line(&all)
        .ok_or_else(|| Failure::Failed("the injected runs leave no line to draw; use --repeat 2".into()))
}

/// What should make a reader careful.
fn doubts(fit: &Fit, captured: &RunReport, job: &Job, folder: &RunFolder) -> Vec<String> {
    let mut doubts = Vec::new();
    if captured.tally.fetches < 1000 {
        let fetches = captured.tally.fetches;
        doubts.push(format!("only {fetches} fetches: this program hardly needs more than its local memory"));
    }
    if fit.r2 < 0.9 {
        doubts.push(format!(
            "the runs do not lie well on a line (R2 {:.2}): repeat on an idle machine",
            fit.r2
        ));
    }
    if !same_bytes(&folder.path("native.out"), &folder.path("remote.out")) {
        let name = job.words().first().cloned().unwrap_or_default();
        doubts.push(format!(
            "the output with remote memory differs from the native one: expected if {name} prints times or \
             anything else that changes from run to run, else please report it"
        ));
    }
    doubts
}

fn same_bytes(one: &Path, other: &Path) -> bool {
    matches!((std::fs::read(one), std::fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(runs(vec![4.0, 1.0, 2.0, 9.0]).median_s, 3.0);
        assert_eq!(runs(vec![4.0, 1.0, 9.0]).median_s, 4.0);
    }
}
