//! Measures the cost of the pager itself, on the machine on which it will run.
//!
//! `unrack` runs itself as a program that cycles through more pages than its local memory holds, so that every touch is a fetch. The time
//! per fetch on the program's clock is the *floor*: no shorter delay can be injected. Part of the floor is spent between the access and the
//! pager, where the pager cannot measure it. This part must be added to the pager's own account: see `unseen_ns` of the control segment.

use crate::control_file::ControlFile;
use crate::delay::FetchDelay;
use crate::disturbance::{MachineCounters, MachineLoad};
use crate::elf::PagerEntry;
use crate::folder::ScratchFolder;
use crate::job::{CheckedProgram, OutputTarget};
use crate::measure::{RunSetup, measure};
use crate::program::Program;
use crate::{PagingError, machine, proc};
use memmap2::MmapMut;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unrack_pager::control::CONTROL_VARIABLE;
use unrack_record::Warning;
use unrack_units::{Bytes, Rate, Time};

/// Hidden verb of `unrack` that runs [`touch`].
pub const TOUCH_VERB: &str = "__touch";
const LOCAL_PAGES: u64 = 512;
const PAGES: usize = 4 * LOCAL_PAGES as usize;
const PASSES: usize = 9;
/// Longest time of a calibration. It is long because the pager needs a moment to notice that the program has outgrown its local memory.
const LONGEST: Duration = Duration::from_secs(5);

/// Thread that handles faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultMode {
    /// A thread of the pager handles the fault while the faulting thread waits. Correct for every program.
    #[default]
    Blocking,
    /// The faulting thread handles the fault itself. Faster, but ends programs that this mode cannot run correctly.
    Fast,
}

impl FaultMode {
    /// Checks that this machine supports the mode.
    ///
    /// # Errors
    /// [`PagingError::Lacking`] if the machine does not support the mode.
    pub fn check(self) -> Result<(), PagingError> {
        match self {
            FaultMode::Blocking => Ok(()),
            FaultMode::Fast => machine::check_fast(),
        }
    }
}

/// Cost of one fetch, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Calibration {
    /// Mode in which the cost was measured, and for which it holds.
    pub mode: FaultMode,
    /// Time of a fetch as the program sees it, when no delay is injected.
    pub floor_ns: f64,
    /// Part of the floor that the pager's own account lacks.
    pub unseen_ns: f64,
}

/// Measures the cost of this machine's pager. Takes less than half a second on an idle machine, and never longer than `until`.
///
/// # Errors
/// [`PagingError::Lacking`] if this machine cannot run programs with remote memory, [`PagingError::OutOfTime`] if `until` has
/// passed, [`PagingError::Interrupted`] if a signal asked this process to stop, [`PagingError::Failed`] if too few passes were good,
/// or the measured program did not run to its end.
pub fn calibrate(mode: FaultMode, until: Option<Instant>) -> Result<Calibration, PagingError> {
    let folder = ScratchFolder::fast()?;
    let answer = folder.path("passes");
    let executable = std::env::current_exe().map_err(PagingError::failed("find this executable"))?;
    let command = vec!["unrack".into(), TOUCH_VERB.into()];
    let job = CheckedProgram::for_program(Program {
        path: executable,
        command,
        entrance: PagerEntry::Preload,
        traces_itself: false,
    })?;
    let setup = RunSetup {
        footprint: None,
        placeholder: None,
        grace: None,
        read_ahead: 0,
        local: Bytes::new(LOCAL_PAGES * proc::PAGE),
        delay: &FetchDelay::constant(Time::ZERO, Rate::from_bps(0)),
        calibration: Calibration { mode, ..Calibration::default() },
        seed: 0,
        capture: None,
        nodes: None,
        output: OutputTarget::File(answer.clone()),
        until,
    };
    let report = measure(&job, &setup)?;
    let text = std::fs::read_to_string(&answer).unwrap_or_default();
    let passes: Vec<PagesPass> = text.lines().filter_map(PagesPass::parse).collect();
    summary(mode, &passes).ok_or_else(|| {
        let said = text.lines().last().unwrap_or("nothing");
        PagingError::Failed(format!("the pager could not be calibrated: {}, {said:?}", report.status))
    })
}

/// Maximum number of measurements of the pager's cost. Measuring stops earlier at the first measurement that other work did not disturb.
const TRIES: u32 = 2;

/// Measures as [`calibrate`] does, and repeats the measurement if other work disturbed it. Returns the last measurement, and its
/// disturbance if there was one.
///
/// # Errors
/// As [`calibrate`].
pub fn calibrate_undisturbed(
    mode: FaultMode,
    until: Option<Instant>,
) -> Result<(Calibration, Option<Warning>), PagingError> {
    let measured = || {
        let before = MachineCounters::now();
        let calibration = calibrate(mode, until)?;
        let load = MachineLoad::between(&before, &MachineCounters::now());
        Ok((calibration, load.disturbance()))
    };
    let mut last = measured()?;
    for _ in 1..TRIES {
        if last.1.is_none() {
            break;
        }
        last = match measured() {
            Err(PagingError::OutOfTime) => break,
            measured => measured?,
        };
    }
    Ok(last)
}

/// One pass over all pages.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PagesPass {
    ns: u64,
    fetches: u64,
    wait_ns: u64,
}

impl PagesPass {
    /// Returns whether most touches of the pass were fetches.
    fn is_good(&self) -> bool {
        self.fetches as usize >= PAGES / 2
    }

    fn parse(line: &str) -> Option<PagesPass> {
        let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        match numbers?[..] {
            [ns, fetches, wait_ns] => Some(PagesPass { ns, fetches, wait_ns }),
            _ => None,
        }
    }
}

/// Returns the medians over the good passes, or `None` if there are none.
fn summary(mode: FaultMode, passes: &[PagesPass]) -> Option<Calibration> {
    let (mut floors, mut unseens) = (Vec::new(), Vec::new());
    for pass in passes.iter().filter(|pass| pass.is_good()) {
        floors.push(pass.ns as f64 / pass.fetches as f64);
        unseens.push(pass.ns.saturating_sub(pass.wait_ns) as f64 / pass.fetches as f64);
    }
    Some(Calibration { mode, floor_ns: median(&mut floors)?, unseen_ns: median(&mut unseens)? })
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    }
}

/// Runs as the program that [`calibrate`] measures: touches its pages repeatedly, and writes one line per pass to `out`.
///
/// # Errors
/// [`PagingError::Usage`] if this process was not started by [`calibrate`], [`PagingError::Failed`] if the control file
/// cannot be opened, memory cannot be mapped, or `out` cannot be written.
pub fn touch(mut out: impl std::io::Write) -> Result<(), PagingError> {
    let path = std::env::var_os(CONTROL_VARIABLE)
        .ok_or_else(|| PagingError::Usage(format!("{TOUCH_VERB} is for unrack itself")))?;
    let control = ControlFile::open(Path::new(&path))?;
    let mut memory = MmapMut::map_anon(PAGES * proc::PAGE as usize)
        .map_err(PagingError::failed("take memory for calibration"))?;
    let firsts = || (0..PAGES).map(|page| page * proc::PAGE as usize);
    firsts().for_each(|at| memory[at] = 1);
    let begin = Instant::now();
    let mut good = 0;
    while good < PASSES && begin.elapsed() < LONGEST {
        let pass = time(&control, || firsts().for_each(|at| _ = std::hint::black_box(memory[at])));
        good += usize::from(pass.is_good());
        writeln!(out, "{} {} {}", pass.ns, pass.fetches, pass.wait_ns)
            .map_err(PagingError::failed("write the passes"))?;
    }
    Ok(())
}

fn time(control: &ControlFile, round: impl FnOnce()) -> PagesPass {
    let counts = || (control.counts.fetches.load(Relaxed), control.counts.wait_ns.load(Relaxed));
    let (before, start) = (counts(), Instant::now());
    round();
    let (ns, after) = (start.elapsed().as_nanos() as u64, counts());
    PagesPass { ns, fetches: after.0 - before.0, wait_ns: after.1 - before.1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ns: u64, fetches: u64, wait_ns: u64) -> PagesPass {
        PagesPass { ns, fetches, wait_ns }
    }

    #[test]
    fn the_floor_is_the_median_pass() {
        let passes = [
            pass(20_000, 2_000, 14_000),
            pass(90_000_000, 2_000, 89_000_000),
            pass(22_000, 2_000, 14_000),
            pass(1, 3, 1),
        ];
        let expected = Calibration { mode: FaultMode::Fast, floor_ns: 11.0, unseen_ns: 4.0 };
        assert_eq!(summary(FaultMode::Fast, &passes), Some(expected));
        assert_eq!(summary(FaultMode::Fast, &passes[3..]), None);
    }

    #[test]
    fn lines_that_are_no_passes_are_skipped() {
        assert_eq!(PagesPass::parse("1 2 3"), Some(pass(1, 2, 3)));
        for line in ["", "1 2", "1 2 3 4", "a b c", "unrack: something went wrong"] {
            assert_eq!(PagesPass::parse(line), None);
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0]), Some(2.5));
    }
}
