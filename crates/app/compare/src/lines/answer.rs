//! Combines the measurements of an instrumented run and the core model into the result.

use super::by_thread;
use super::estimate::SymmetricEstimate;
use super::instrumented::Instrumented;
use super::machine::MachineModel;
use super::model::{CyclesModel, ModelDelays};
use super::native::{NativeRuns, RunTime};
use super::placed::PlacementSet;
use crate::error::Error;
use unrack_lines::core::CycleAccount;
use unrack_lines::heat::RangeHeat;
use unrack_lines::placement::PagePlacement;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_record::{
    CriticalThread, CurvePoint, LinesResult, MachineTimes, PlacementCurve, RunFolder, StallShares, Stated,
    Warning, line_heat,
};

/// Largest relative error of the predicted time with all memory local. If the error is larger, slowdowns are withheld.
const DOUBT: f64 = 0.4;
/// Shares of local memory at which interleaved pages are compared with the hottest pages.
const SHARES: [f64; 3] = PagePlacement::SHARES;
/// Smallest user time that is compared, in seconds. The kernel counts user time in steps of 10 ms, so a shorter one is imprecise.
const LEAST_USER_S: f64 = 0.1;

/// Basis of the result.
pub(crate) struct Basis<'a> {
    pub instrumented: &'a Instrumented,
    calibration: &'a MachineCalibration,
    native: Option<NativeRuns>,
    placed: &'a PlacementSet,
    /// Cycles of all threads, or the reason why there are none.
    pub model: Result<CyclesModel, Warning>,
    /// Part of the native run that the recording covers, if the budget ended the recorded run early.
    seen: Option<f64>,
}

/// Compares the core model's time for the program's code with the measured time, and returns a warning if they differ too much. The user
/// time of all threads is compared, because it contains neither waits nor time in the kernel. For a run with too little user time, the
/// whole run time is compared.
fn doubt(native: &NativeRuns, delays: &ModelDelays) -> Option<Warning> {
    let user_s = native.times.user.median_s;
    let (what, predicted_s, native_s) = match user_s >= LEAST_USER_S {
        true => ("user time", delays.user_s.value, user_s),
        false => ("run time", delays.near_s.value, native.run().value_s),
    };
    ((predicted_s / native_s - 1.0).abs() > DOUBT).then(|| {
        let text = format!(
            "with all memory local the model gives {predicted_s:.3} s of {what}, where the native run took {native_s:.3} s: what it \
             would say of remote memory is not to be trusted"
        );
        Warning::new("native-time-missed", text)
    })
}

/// Returns the warning that the core model covers only a small part of the run time, because the program spends the rest in waits and in
/// the kernel. `None` if that is not so.
fn waits(native: &NativeRuns, delays: &ModelDelays) -> Option<Warning> {
    let (run_s, near_s) = (native.run().value_s, delays.near_s.value);
    (near_s < run_s * (1.0 - DOUBT)).then(|| {
        let text = format!(
            "of the native run time of {run_s:.3} s the model knows {near_s:.3} s: the rest are waits for files, other processes and \
             threads, and time in the kernel, which are taken not to grow with remote memory"
        );
        Warning::new("waits", text)
    })
}

/// Returns the warning that the budget ended a recorded run after `took_s` seconds. By the core model, the recorded part of the program
/// takes `near_s`; the whole program takes `run_s`.
fn part(took_s: f64, near_s: f64, run_s: f64) -> Warning {
    let seen = (near_s / run_s).min(1.0);
    let needed = match seen > 0.0 {
        true => format!(
            "to record all of it takes about {}: give that much more --budget",
            minutes(took_s / seen)
        ),
        false => "give a larger --budget".into(),
    };
    let text = format!(
        "the budget ended the recorded run after {took_s:.0} s, in which the program did what takes it {near_s:.3} s, by the model, of \
         its {run_s:.3} s ({:.1} %): counts are of that beginning, and an answer about it is not one about the program, so it is \
         withheld; {needed}, or give the program less to do",
        seen * 100.0
    );
    Warning::new("budget", text)
}

/// Formats an approximate time.
fn minutes(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{:.0} s", seconds.ceil()),
        _ => format!("{:.0} min", (seconds / 60.0).ceil()),
    }
}

/// Returns the warning that no native run has checked the model.
fn unchecked() -> Warning {
    let text = "no native run was made: slowdowns are over the model's own time with all memory local, which nothing has checked; leave \
                out --once, or ask `unrack compare --access lines`";
    Warning::new("unchecked", text)
}

impl<'a> Basis<'a> {
    /// Runs the core model on the recording, also at the latencies `fabrics_ns` of fabrics, and combines its result with the measurements.
    /// All commands that estimate a slowdown from loads and stores use this function.
    ///
    /// # Errors
    /// If a recording is damaged, or a latency is out of range.
    pub(crate) fn estimate(
        instrumented: &'a Instrumented,
        calibration: &'a MachineCalibration,
        native: Option<NativeRuns>,
        placed: &'a PlacementSet,
        fabrics_ns: &[f64],
    ) -> Result<Basis<'a>, Error> {
        let machine = MachineModel::new(&instrumented.processor, calibration);
        let model = CyclesModel::new(instrumented, machine, placed, fabrics_ns)?;
        Ok(Basis::new(instrumented, calibration, native, placed, model))
    }

    /// Combines recording, measurements and model. If only a part of the program was recorded, the model's cycles are left out, because
    /// they are not those of the whole program.
    fn new(
        instrumented: &'a Instrumented,
        calibration: &'a MachineCalibration,
        native: Option<NativeRuns>,
        placed: &'a PlacementSet,
        model: Result<CyclesModel, Warning>,
    ) -> Basis<'a> {
        let ended = native.as_ref().filter(|_| instrumented.was_ended());
        let (model, seen) = match ended {
            None => (model, None),
            Some(native) => {
                let near_s = model.as_ref().map_or(0.0, |model| model.delays.near_s.value);
                let run_s = native.run().value_s;
                (Err(part(instrumented.took_s, near_s, run_s)), Some((near_s / run_s).min(1.0)))
            }
        };
        Basis { instrumented, calibration, native, placed, model, seen }
    }

    /// Returns the result, without fabrics.
    pub(crate) fn result(&self) -> LinesResult {
        let run = self.instrumented;
        let model = self.model.as_ref();
        let mut curves = self.curves().into_iter();
        let asked = curves.next().map(|asked| asked.curve).unwrap_or_default();
        let placements: Vec<PlacementCurve> = curves.collect();
        let withheld = |why: &Warning| Stated::withheld(why.clone());
        LinesResult {
            processor: run.processor.clone(),
            placement: self.placed.rule.clone(),
            local: self.placed.local.clone(),
            footprint_bytes: run.footprint_bytes(),
            machine_times: machine_times(self.calibration),
            counts: run.counts(),
            critical: model.ok().map(|model| self.critical(&model.delays)),
            predicted_near_s: model
                .map_or_else(withheld, |model| Stated::Known(model.delays.near_s.interval())),
            kernel_s: model.ok().map(|model| model.delays.kernel_s),
            predicted_processor_s: model
                .map_or_else(withheld, |model| Stated::Known(model.delays.processor_s().interval())),
            stalls: model.ok().and_then(CyclesModel::account).map(|account| stalls(&account)),
            fabrics: Vec::new(),
            mappings: run.named(|summary| &summary.mappings),
            functions: run.named(|summary| &summary.functions),
            warnings: self.warnings(&asked, &placements),
            curve: asked,
            placements,
            threads: model.map(|model| by_thread::slowdowns(model, &run.summaries())).unwrap_or_default(),
            native: self.native.as_ref().map(|native| native.times.clone()),
            seen: self.seen,
        }
    }

    /// Returns the slowdown that a delay causes, or the reason why it is withheld.
    pub(crate) fn slowdown(&self, delay_s: SymmetricEstimate) -> Stated {
        match self.run() {
            Ok(run) => run.slowdown(delay_s),
            Err(why) => Stated::withheld(why),
        }
    }

    /// Returns the run time that delays are compared with: the native run time, or the model's time if there are no native runs.
    ///
    /// # Errors
    /// If there are no cycles, or the model's time is far from the native one.
    pub(crate) fn run(&self) -> Result<RunTime, Warning> {
        let model = self.model.as_ref().map_err(Clone::clone)?;
        let Some(native) = &self.native else { return Ok(RunTime::exactly(model.delays.near_s.value)) };
        doubt(native, &model.delays).map_or_else(|| Ok(native.run()), Err)
    }

    fn critical(&self, delays: &ModelDelays) -> CriticalThread {
        let leader = delays.leader();
        let summary = self.instrumented.summaries()[leader.record];
        CriticalThread {
            program: summary.program.clone(),
            pid: summary.pid,
            thread: leader.thread,
            instructions: leader.instructions,
            cycles_per_instruction: Stated::Known(leader.near.interval()),
        }
    }

    /// Returns the slowdown curves of all placements, the requested placement first. The curve at the latencies of fabrics is not included.
    fn curves(&self) -> Vec<PlacementCurve> {
        let Ok(model) = &self.model else { return Vec::new() };
        let curve = |(number, curve): (usize, &super::windows::Curve)| {
            let point = |(point, far_ns): (usize, &f64)| CurvePoint {
                latency_ns: *far_ns,
                slowdown: self.slowdown(model.delay_s(number, point)),
            };
            let curve = (curve.placement.clone(), curve.far_ns.iter().enumerate().map(point).collect());
            PlacementCurve { placement: curve.0, curve: curve.1 }
        };
        model.curves[..model.curves.len() - 1].iter().enumerate().map(curve).collect()
    }

    fn warnings(&self, asked: &[CurvePoint], placements: &[PlacementCurve]) -> Vec<Warning> {
        let mut warnings = self.instrumented.warnings();
        warnings.extend(self.native.iter().filter_map(|native| native.disturbance.clone()));
        warnings.extend(self.calibration.doubt().map(|why| {
            let text = format!(
                "ROUGH: the latencies and rates of this machine that the model takes are in doubt ({why}): measure them again when it \
                 is idle, by `unrack lines calibrate`"
            );
            Warning::new("calibration-disturbed", text)
        }));
        // The reader must first know how much of the program was recorded within the budget.
        warnings.extend(self.model.as_ref().err().filter(|_| self.seen.is_some()).cloned());
        if let Ok(model) = &self.model {
            let checked = self.native.as_ref().map(|native| waits(native, &model.delays));
            warnings.extend(checked.unwrap_or_else(|| Some(unchecked())));
        }
        let points = asked.iter().chain(placements.iter().flat_map(|one| &one.curve));
        warnings.extend(below_one(points.map(|point| &point.slowdown)));
        warnings.extend(no_oracle(placements));
        warnings
    }
}

/// Returns a warning that explains slowdowns below 1; `None` if there are none.
pub(crate) fn below_one<'a>(slowdowns: impl Iterator<Item = &'a Stated>) -> Option<Warning> {
    let values = slowdowns.filter_map(|slowdown| slowdown.known()?.value);
    let least = values.fold(f64::INFINITY, f64::min);
    let text = format!(
        "slowdowns below 1, down to {least:.3}, are of rates and not of latency: local and remote memory each have the rate that local memory \
         was measured to have, so a program that its memory's rate bounds has up to twice as much with pages in both. Remote memory that \
         shares the near one's channels has no such advantage"
    );
    (least < SURELY_BELOW).then(|| Warning::new("below-one", text))
}

/// Smallest ratio of two slowdowns at which the first is clearly larger.
const CLEARLY: f64 = 1.005;
/// Slowdown below which rounding cannot be the reason, because slowdowns are printed to a thousandth.
const SURELY_BELOW: f64 = 0.9995;

/// Returns the warning that at some latency interleaved pages are faster than having the hottest pages in local memory. `None` if that is
/// so nowhere.
fn no_oracle(placements: &[PlacementCurve]) -> Option<Warning> {
    let at = |rule: &str, point: usize| {
        let named = |share: &f64| format!("{:.0} % local, {rule}", share * 100.0);
        SHARES.map(|share| {
            let curve = placements.iter().find(|one| one.placement == named(&share))?;
            curve.curve.get(point)?.slowdown.known()
        })
    };
    let points = 0..placements.iter().map(|one| one.curve.len()).max().unwrap_or(0);
    let is_worse = |point: usize| {
        let pairs = at("hottest", point).into_iter().zip(at("interleaved", point));
        pairs
            .filter_map(|(hottest, other)| Some((hottest?, other?)))
            .any(|(hottest, other)| other.high.is_some_and(|high| hottest.low > high * CLEARLY))
    };
    let text = "interleaving is faster here than having the pages with the most misses near: misses that overlap, or that the rate of \
                one memory bounds, cost less than their number says, so the hottest pages are no bound of what a placement can do";
    points.into_iter().any(is_worse).then(|| Warning::new("hottest-is-no-bound", text))
}

fn machine_times(calibration: &MachineCalibration) -> MachineTimes {
    MachineTimes {
        frequency_ghz: calibration.frequency_ghz.median,
        near_ns: calibration.memory_ns.median,
        is_measured: true,
    }
}

/// Returns the share of each kind of stall in the time of a cycle account.
fn stalls(account: &CycleAccount) -> StallShares {
    let part = |cycles: f64| if account.cycles() > 0.0 { cycles / account.cycles() } else { 0.0 };
    StallShares {
        memory: part(account.memory),
        caches: part(account.caches),
        stores: part(account.stores),
        core: part(account.dispatch + account.operations),
        mispredicted: part(account.restart),
        overlap: account.overlap,
    }
}

/// Writes the table of hot memory ranges for the program that loaded most cache lines from memory.
///
/// # Errors
/// If the table cannot be written.
pub(crate) fn write_heat(
    folder: &RunFolder,
    run: &Instrumented,
    command_line: Vec<String>,
) -> Result<(), Error> {
    let Some((summary, heat)) = run.hottest() else { return Ok(()) };
    let mut table = line_heat::Writer::create(folder.path("heat.parquet"))?;
    for (epoch, ranges) in (0..).zip(&heat.epochs) {
        for RangeHeat { address, misses, write_backs, .. } in ranges.iter().copied() {
            if misses + write_backs == 0 {
                continue;
            }
            table.push(line_heat::Row { epoch, page: address / heat.cell_bytes, misses, write_backs })?;
        }
    }
    let meta = line_heat::Meta {
        command_line,
        program: summary.program.clone(),
        page_size: heat.cell_bytes,
        epoch_instructions: heat.epoch_instructions,
    };
    Ok(table.finish(&meta)?)
}

#[cfg(test)]
mod tests {
    use super::super::native::tests::native;
    use super::*;

    fn delays(near_s: f64, kernel_s: f64, user_s: f64) -> ModelDelays {
        let [near_s, user_s] = [near_s, user_s].map(|value| SymmetricEstimate { value, half: 0.0 });
        ModelDelays { threads: Vec::new(), near_s, kernel_s, user_s, system_s: kernel_s, extra_s: Vec::new() }
    }

    #[test]
    fn a_model_that_misses_the_user_time_is_doubted() {
        let key = |native: &NativeRuns, delays| doubt(native, &delays).map(|warning| warning.key);
        // Waits and time in the kernel are no reason to doubt the model. Threads other than the longest one have user time, too.
        let waiting = native(9.0, 3.0, 1.0);
        assert_eq!(key(&waiting, delays(1.5, 0.2, 1.3)), None);
        assert_eq!(key(&waiting, delays(9.0, 0.2, 1.5)).unwrap(), "native-time-missed");
        assert_eq!(key(&waiting, delays(9.0, 0.2, 0.5)).unwrap(), "native-time-missed");
        // A few ticks of user time are no measurement.
        let short = native(0.05, 0.05, 0.01);
        assert_eq!(key(&short, delays(0.04, 0.0, 0.04)), None);
        assert_eq!(key(&short, delays(0.1, 0.0, 0.1)).unwrap(), "native-time-missed");
        assert_eq!(waits(&waiting, &delays(1.5, 0.2, 1.3)).unwrap().key, "waits");
        assert_eq!(waits(&waiting, &delays(8.0, 0.2, 1.0)), None);
    }

    /// Part of `sort` that was recorded within a budget of one minute.
    #[test]
    fn a_part_of_a_program_says_how_much_of_it_was_seen_and_what_to_do() {
        let why = part(26.0, 0.123, 2.435);
        assert!(
            why.key == "budget" && why.text.contains("(5.1 %)") && why.text.contains("about 9 min"),
            "{why}"
        );
        assert!(part(20.0, 1.0, 2.0).text.contains("about 40 s"));
        assert!(part(20.0, 0.0, 2.0).text.contains("(0.0 %)"));
    }

    fn stated(value: f64, half: f64) -> Stated {
        Stated::Known(SymmetricEstimate { value, half }.interval())
    }

    #[test]
    fn slowdowns_below_one_are_explained() {
        let all = [stated(0.778, 0.02), stated(1.4, 0.1)];
        let why = below_one(all.iter()).unwrap();
        assert!(why.key == "below-one" && why.text.contains("0.778"), "{why}");
        assert_eq!(below_one([stated(0.9999, 0.0), stated(1.0, 0.1)].iter()), None);
    }

    #[test]
    fn an_oracle_that_is_none_is_said() {
        let curve = |rule: &str, value| PlacementCurve {
            placement: format!("25 % local, {rule}"),
            curve: vec![CurvePoint { latency_ns: 300.0, slowdown: stated(value, 0.005) }],
        };
        let at =
            |hottest, interleaved| no_oracle(&[curve("hottest", hottest), curve("interleaved", interleaved)]);
        assert_eq!(at(1.307, 1.281).unwrap().key, "hottest-is-no-bound");
        assert_eq!((at(1.285, 1.281), at(1.1, 1.281), no_oracle(&[])), (None, None, None));
    }

    #[test]
    fn parts_of_the_time_add_up() {
        let account = CycleAccount {
            dispatch: 10.0,
            restart: 5.0,
            stores: 1.0,
            operations: 4.0,
            caches: 10.0,
            memory: 20.0,
            overlap: 2.5,
            lines: 3,
        };
        let stalls = stalls(&account);
        let sum = stalls.memory + stalls.caches + stalls.stores + stalls.core + stalls.mispredicted;
        assert!((sum - 1.0).abs() < 1e-12 && stalls.memory == 0.4 && stalls.overlap == 2.5, "{stalls:?}");
    }
}
