//! Result of an instrumented run, put together.

use super::estimate::Estimate;
use super::instrumented::Instrumented;
use super::model::{self, Delays, Model};
use super::native::NativeRun;
use super::placed::Placed;
use crate::failure::Failure;
use crate::runs::with_median;
use unrack_lines::core::CycleAccount;
use unrack_lines::heat::RangeHeat;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_record::{
    CriticalThread, CurvePoint, LinesResult, MachineTimes, NativeTimes, PlacementCurve, RunFolder,
    StallShares, Stated, Warning, line_heat,
};

/// Largest share by which the time predicted for near memory may miss the measured one: beyond it slowdowns are withheld.
const DOUBT: f64 = 0.4;
/// Least user time that is compared, in seconds: it is counted in 10 ms.
const LEAST_USER_S: f64 = 0.1;

/// Basis of the result.
pub(crate) struct Basis<'a> {
    pub instrumented: &'a Instrumented,
    pub calibration: &'a MachineCalibration,
    pub native: Option<Native>,
    pub placed: &'a Placed,
    /// Cycles of all threads, or why there are none.
    pub model: Result<Model, Warning>,
}

/// Native runs, and what their times are worth.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Native {
    pub times: NativeTimes,
    /// Reason why other work on the machine spoilt all of them, if it did.
    pub disturbance: Option<Warning>,
}

impl Native {
    /// Takes the runs that other work did not disturb, or all if it disturbed all.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn from_runs(runs: Vec<NativeRun>) -> Native {
        let calm: Vec<NativeRun> = runs.iter().filter(|run| run.disturbance.is_none()).cloned().collect();
        let disturbance = runs.iter().find_map(|run| run.disturbance.clone()).filter(|_| calm.is_empty());
        let disturbance = disturbance.map(|why| {
            let text = format!("other work disturbed all native runs ({why}): slowdowns are over processor time where that is less");
            Warning::new("native-disturbed", text)
        });
        let used = if calm.is_empty() { runs } else { calm };
        let times = |of: fn(&NativeRun) -> f64| with_median(used.iter().map(of).collect());
        let times = NativeTimes {
            wall: times(|run| run.wall_s),
            processor: times(|run| run.processor_s),
            user: times(|run| run.user_s),
        };
        Native { times, disturbance }
    }

    /// Returns the run time to compare with, in seconds: wall time. If other work disturbed all runs, it is the processor
    /// time where that is less.
    pub(crate) fn run_s(&self) -> f64 {
        let (wall_s, processor_s) = (self.times.wall.median_s, self.times.processor.median_s);
        if self.disturbance.is_some() && processor_s > 0.0 { wall_s.min(processor_s) } else { wall_s }
    }

    /// Returns the warning that the model misses what the program's own code takes, if it does by far. The user time of all
    /// threads is compared: waits and the kernel are not in it. A run without enough of it is compared as a whole. Of a run that
    /// was ended before its end, the model may give less.
    fn doubt(&self, delays: &Delays, was_ended: bool) -> Option<Warning> {
        let user_s = self.times.user.median_s;
        let (what, predicted_s, native_s) = match user_s >= LEAST_USER_S {
            true => ("user time", delays.user_s.value, user_s),
            false => ("run time", delays.near_s.value, self.run_s()),
        };
        let error = predicted_s / native_s - 1.0;
        let error = if was_ended { error } else { error.abs() };
        (error > DOUBT).then(|| {
            let text = format!(
                "with all memory near the model gives {predicted_s:.3} s of {what}, where the native run took {native_s:.3} s: what it \
                 would say of far memory is not to be trusted"
            );
            Warning::new("native-time-missed", text)
        })
    }

    /// Returns the warning that the run was ended before its end.
    fn part(&self, delays: &Delays) -> Warning {
        let (run_s, near_s) = (self.run_s(), delays.near_s.value);
        let text = format!(
            "the budget ended the instrumented run: what is said is of the program's beginning, by the model {near_s:.3} s of its \
             {run_s:.3} s; give a larger --budget"
        );
        Warning::new("budget", text)
    }

    /// Returns the warning that the program spends its time with what the model does not know, if it does.
    fn waits(&self, delays: &Delays) -> Option<Warning> {
        let (run_s, near_s) = (self.run_s(), delays.near_s.value);
        (near_s < run_s * (1.0 - DOUBT)).then(|| {
            let text = format!(
                "of the native run time of {run_s:.3} s the model knows {near_s:.3} s: the rest are waits for files, other processes and \
                 threads, and time in the kernel, which are taken not to grow with far memory"
            );
            Warning::new("waits", text)
        })
    }
}

impl Basis<'_> {
    /// Returns the result, without fabrics.
    pub(crate) fn result(&self) -> LinesResult {
        let run = self.instrumented;
        let model = self.model.as_ref();
        let mut curves = self.curves().into_iter();
        let asked = curves.next();
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
            curve: asked.map(|asked| asked.curve).unwrap_or_default(),
            placements: curves.collect(),
            stalls: model.ok().and_then(Model::account).map(|account| stalls(&account)),
            fabrics: Vec::new(),
            mappings: run.named(|summary| &summary.mappings),
            functions: run.named(|summary| &summary.functions),
            warnings: self.warnings(),
            native: self.native.as_ref().map(|native| native.times.clone()),
        }
    }

    /// Returns the slowdown that a delay makes, or why it is withheld.
    pub(crate) fn slowdown(&self, delay_s: Estimate) -> Stated {
        match self.run_s() {
            Ok(run_s) => model::slowdown(delay_s, run_s),
            Err(why) => Stated::withheld(why),
        }
    }

    /// Returns the run time that delays are compared with: the native one; the model's without native runs, or of a run that was
    /// ended before its end.
    ///
    /// # Errors
    /// If there are no cycles, or the model's time is far from the native one.
    pub(crate) fn run_s(&self) -> Result<f64, Warning> {
        let model = self.model.as_ref().map_err(Clone::clone)?;
        let near_s = model.delays.near_s.value;
        let Some(native) = &self.native else { return Ok(near_s) };
        let was_ended = self.instrumented.was_ended();
        let run_s = if was_ended { near_s } else { native.run_s() };
        native.doubt(&model.delays, was_ended).map_or(Ok(run_s), Err)
    }

    fn critical(&self, delays: &Delays) -> CriticalThread {
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

    /// Returns the curves of all placements, the one that is asked for first; not those at the latencies of fabrics.
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

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.instrumented.warnings();
        warnings.extend(self.native.iter().filter_map(|native| native.disturbance.clone()));
        if let (Some(native), Ok(model)) = (&self.native, &self.model) {
            let part = self.instrumented.was_ended().then(|| native.part(&model.delays));
            warnings.extend(part.or_else(|| native.waits(&model.delays)));
        }
        warnings
    }
}

fn machine_times(calibration: &MachineCalibration) -> MachineTimes {
    MachineTimes {
        frequency_ghz: calibration.frequency_ghz.median,
        near_ns: calibration.memory_ns.median,
        is_measured: true,
    }
}

/// Returns the parts of the time that an account holds.
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

/// Writes the table of heat of the program that asked memory for most lines.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_heat(
    folder: &RunFolder,
    run: &Instrumented,
    command_line: Vec<String>,
) -> Result<(), Failure> {
    let Some((summary, heat)) = run.hottest() else { return Ok(()) };
    let mut table = line_heat::Writer::create(folder.path("heat.parquet"))?;
    for (epoch, ranges) in (0..).zip(&heat.epochs) {
        for RangeHeat { address, misses, write_backs } in ranges.iter().copied() {
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
    use super::*;

    /// Native run of some wall, processor and user time.
    fn native(wall_s: f64, processor_s: f64, user_s: f64) -> Native {
        let runs = |median_s| unrack_record::Runs { seconds: vec![median_s], median_s };
        let times = NativeTimes { wall: runs(wall_s), processor: runs(processor_s), user: runs(user_s) };
        Native { times, disturbance: None }
    }

    fn delays(near_s: f64, kernel_s: f64, user_s: f64) -> Delays {
        let [near_s, user_s] = [near_s, user_s].map(|value| Estimate { value, half: 0.0 });
        Delays { threads: Vec::new(), near_s, kernel_s, user_s, system_s: kernel_s, extra_s: Vec::new() }
    }

    #[test]
    fn a_model_that_misses_the_user_time_is_doubted() {
        let key = |native: &Native, delays| native.doubt(&delays, false).map(|warning| warning.key);
        // Waits and the kernel are no reason to doubt; threads beside the longest one have user time, too.
        let waiting = native(9.0, 3.0, 1.0);
        assert_eq!(key(&waiting, delays(1.5, 0.2, 1.3)), None);
        assert_eq!(key(&waiting, delays(9.0, 0.2, 1.5)).unwrap(), "native-time-missed");
        assert_eq!(key(&waiting, delays(9.0, 0.2, 0.5)).unwrap(), "native-time-missed");
        // Some ticks of user time are no measurement.
        let short = native(0.05, 0.05, 0.01);
        assert_eq!(key(&short, delays(0.04, 0.0, 0.04)), None);
        assert_eq!(key(&short, delays(0.1, 0.0, 0.1)).unwrap(), "native-time-missed");
        // The beginning of a run takes less than all of it, not more.
        assert_eq!(waiting.doubt(&delays(1.5, 0.2, 0.1), true), None);
        assert!(waiting.doubt(&delays(1.5, 0.2, 1.6), true).is_some());
        assert!(waiting.part(&delays(1.5, 0.2, 0.1)).text.contains("1.500 s of its 9.000 s"));
        assert_eq!(waiting.waits(&delays(1.5, 0.2, 1.3)).unwrap().key, "waits");
        assert_eq!(waiting.waits(&delays(8.0, 0.2, 1.0)), None);
    }

    #[test]
    fn disturbed_wall_times_are_not_compared_with() {
        let calm = native(3.0, 1.0, 1.0);
        let busy = Native { disturbance: Some(Warning::new("busy", "others ran")), ..calm.clone() };
        assert_eq!((calm.run_s(), busy.run_s()), (3.0, 1.0));
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
