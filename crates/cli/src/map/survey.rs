//! The runs behind a map: natively, and at every local share.

use super::grid::Grid;
use super::kept::Kept;
use crate::failure::Failure;
use crate::runs::line::{self, Injected, POINTS};
use crate::runs::{NATIVE, REMOTE, Remote, Runner, with_median};
use unrack_paging::{Calibration, Mode, calibrate, local_bytes};
use unrack_record::{InjectionPoint, MapLocal};
use unrack_units::{Bytes, Share};

pub struct Survey<'a> {
    runner: Runner<'a>,
    kept: &'a Kept<'a>,
    repeat: u32,
    pub native_s: f64,
    pub footprint: Bytes,
    pub calibration: Calibration,
}

/// What is left to run, in native runs. Which of the runs at local shares are kept shows only later: the
/// bar then jumps.
pub fn reckoned(repeat: u32, shares: usize, kept: &Kept) -> f64 {
    let natively = (1..=repeat).filter(|nth| !kept.has_native(*nth)).count();
    natively as f64 * NATIVE + shares as f64 * (REMOTE + line::reckoned(repeat))
}

impl<'a> Survey<'a> {
    /// Runs the program natively, and measures the pager.
    pub fn begin(runner: Runner<'a>, kept: &'a Kept<'a>, repeat: u32) -> Result<Survey<'a>, Failure> {
        let (mut seconds, mut footprint) = (Vec::new(), Bytes::ZERO);
        for nth in 1..=repeat {
            let run = || runner.natively(format!("native run {nth} of {repeat}"));
            let (wall_s, needed) = kept.native(nth, run)?;
            footprint = footprint.max(needed);
            seconds.push(wall_s);
        }
        let calibration = kept.calibration(|| Ok(calibrate(Mode::Blocking)?))?;
        let native_s = with_median(seconds).median_s;
        Ok(Survey { runner, kept, repeat, native_s, footprint, calibration })
    }

    /// One panel of the map.
    pub fn at(&self, share: Share, grid: &Grid) -> Result<MapLocal, Failure> {
        let local = local_bytes(share, self.footprint)?;
        let fetches = self.run(share, local, 0, 0.0, 1)?.fetches;
        let points = self.inject(share, local, fetches)?;
        let fit = line::through(&points)?;
        let slowdown = grid.slowdowns(self.native_s, &fit, fetches);
        Ok(MapLocal { local: share.to_string(), local_bytes: local.get(), fetches, points, fit, slowdown })
    }

    fn inject(&self, share: Share, local: Bytes, fetches: u64) -> Result<Vec<InjectionPoint>, Failure> {
        let delays = line::delays_ns(self.native_s, fetches, self.calibration.floor_ns);
        let point = |(n, delay_ns): (u32, f64)| {
            let runs: Result<Vec<_>, _> =
                (1..=self.repeat).map(|nth| self.run(share, local, n, delay_ns, nth)).collect();
            Ok(line::point(self.runner.delay(delay_ns).mean_ns(), &runs?))
        };
        (1..=POINTS).zip(delays).map(point).collect()
    }

    /// The nth run at the n-th delay; the 0th is none.
    fn run(&self, share: Share, local: Bytes, n: u32, delay_ns: f64, nth: u32) -> Result<Injected, Failure> {
        let reckoned = if n == 0 { REMOTE } else { line::stretched(n) };
        let mut was_kept = true;
        let run = || {
            was_kept = false;
            let what = match n {
                0 => format!("{share} local: run without delay"),
                _ => format!(
                    "{share} local: run {nth} of {} with {:.0} us a fetch",
                    self.repeat,
                    delay_ns / 1e3
                ),
            };
            let remote = Remote { local, delay_ns, calibration: self.calibration };
            Ok(Injected::of(&self.runner.remotely(what, reckoned, &remote, None)?))
        };
        let injected = self.kept.remote((local, delay_ns, nth), run)?;
        if was_kept {
            self.runner.steps.skip(reckoned);
        }
        Ok(injected)
    }

    /// What to check that concerns the whole map.
    pub fn doubts(&self, locals: &[MapLocal]) -> Vec<String> {
        let mut doubts = Vec::new();
        let most = locals.iter().map(|local| local.fetches).max().unwrap_or(0);
        if most < 1000 {
            doubts.push(format!(
                "at most {most} fetches: this program hardly needs more than its local memory"
            ));
        }
        if !self.runner.same_output() {
            doubts.push(self.runner.output_differs());
        }
        doubts
    }
}
