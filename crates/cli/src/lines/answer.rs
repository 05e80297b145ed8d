//! Result of an instrumented run, put together.

use super::instrumented::Instrumented;
use super::model::{Delays, LATENCIES_NS, ThreadCycles};
use crate::failure::Failure;
use unrack_lines_run::calibrate::Calibration;
use unrack_record::{
    CriticalThread, CurvePoint, LinesResult, MachineTimes, NativeTimes, RunFolder, Stated, Warning, line_heat,
};

/// Largest share by which the time predicted for near memory may miss the measured one before slowdowns are in doubt.
const DOUBT: f64 = 0.4;

/// What the result rests on.
pub(crate) struct Basis<'a> {
    pub instrumented: &'a Instrumented,
    pub calibration: &'a Calibration,
    pub native: Option<NativeTimes>,
    pub local: String,
    pub placement: String,
    /// Cycles of all threads, or why there are none.
    pub cycles: Result<Vec<ThreadCycles>, Warning>,
}

impl Basis<'_> {
    /// Returns the result, without fabrics.
    pub(crate) fn result(&self) -> LinesResult {
        let run = self.instrumented;
        let times = machine_times(self.calibration);
        let delays = self.delays(times.frequency_ghz);
        let near = delays.as_ref().map(|delays| delays.near_s);
        let stated = |why: &Warning| Stated::withheld(why.clone());
        LinesResult {
            processor: run.processor.clone(),
            placement: self.placement.clone(),
            local: self.local.clone(),
            footprint_bytes: run.sample.pages() * super::sample::PAGE,
            machine_times: times,
            counts: run.counts(),
            critical: delays.as_ref().ok().map(|delays| self.critical(delays)),
            predicted_near_s: near.map_or_else(stated, |near| Stated::Known(near.interval())),
            curve: self.curve(&delays),
            stalls: None,
            fabrics: Vec::new(),
            mappings: run.named(|summary| &summary.mappings),
            functions: run.named(|summary| &summary.functions),
            warnings: self.warnings(&delays),
            native: self.native.clone(),
        }
    }

    fn delays(&self, frequency_ghz: f64) -> Result<Delays, Warning> {
        let cycles = self.cycles.as_ref().map_err(Clone::clone)?;
        let delays = Delays::new(&self.instrumented.summaries(), cycles, frequency_ghz);
        delays.ok_or_else(|| {
            let text = "no thread has a recorded window: the program is too short; give it more to do";
            Warning::new("few-windows", text)
        })
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

    /// Returns the slowdown over native time; without native runs, over the model's time for near memory.
    fn curve(&self, delays: &Result<Delays, Warning>) -> Vec<CurvePoint> {
        match delays {
            Ok(delays) => {
                let native = self.native.as_ref().map(|native| native.wall.median_s);
                delays.curve(&LATENCIES_NS, native.unwrap_or(delays.near_s.value))
            }
            Err(why) => {
                let point = |latency_ns| CurvePoint { latency_ns, slowdown: Stated::withheld(why.clone()) };
                LATENCIES_NS.map(point).into()
            }
        }
    }

    fn warnings(&self, delays: &Result<Delays, Warning>) -> Vec<Warning> {
        let mut warnings = self.instrumented.warnings();
        if let (Ok(delays), Some(native)) = (delays, &self.native) {
            warnings.extend(doubt(delays.near_s.value, native.wall.median_s));
        }
        warnings
    }
}

/// Returns the warning that the model misses the program's native time, if it does by far.
fn doubt(predicted_s: f64, native_s: f64) -> Option<Warning> {
    let error = predicted_s / native_s - 1.0;
    (error.abs() > DOUBT).then(|| {
        let text = format!(
            "with all memory near the model gives {predicted_s:.3} s, where the native run took {native_s:.3} s: what it says of \
             far memory is doubtful; time in the kernel and waits for files are not in it"
        );
        Warning::new("native-time-missed", text)
    })
}

fn machine_times(calibration: &Calibration) -> MachineTimes {
    MachineTimes {
        frequency_ghz: calibration.frequency_ghz.median,
        near_ns: calibration.memory_ns.median,
        is_measured: true,
    }
}

/// Writes the table of heat.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_heat(
    folder: &RunFolder,
    run: &Instrumented,
    command: Vec<String>,
) -> Result<(), Failure> {
    let mut table = line_heat::Writer::create(folder.path("heat.parquet"))?;
    run.sample.heat().try_for_each(|row| table.push(row))?;
    let sampled_one_in = run.sample.scale(run.counts().instructions).round() as u64;
    let meta = line_heat::Meta {
        command_line: command,
        page_size: super::sample::PAGE,
        epoch_instructions: run.epoch_instructions,
        sampled_one_in,
    };
    Ok(table.finish(&meta)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_misses_the_native_time_is_doubted() {
        assert_eq!(doubt(1.3, 1.0), None);
        assert_eq!(doubt(1.5, 1.0).unwrap().key, "native-time-missed");
        assert_eq!(doubt(0.5, 1.0).unwrap().key, "native-time-missed");
    }
}
