//! The instrumented run: counts, names and recorded windows of all processes.

use crate::error::{Error, failed};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Instant;
use unrack_lines::heat::{HeatTables, RangeHeat};
use unrack_lines::hierarchy::CacheCounters;
use unrack_lines::summary::{RecordEnding, Summary};
use unrack_lines::window::ServedBy;
use unrack_lines_run::{InstrumentedRun, Options, ProcessRecord, RunError, Tools, prepare};
use unrack_paging::{Input, StopSignals};
use unrack_record::{LineCounts, NamedMisses, ServedCount, Warning};

/// Parameters of an instrumented run.
pub(crate) struct Recording<'a> {
    pub tools: &'a Tools,
    pub command: &'a [OsString],
    pub options: Options,
    pub input: &'a Input,
    /// File for the program's output. `None`: the program inherits the output of this process.
    pub output: Option<&'a Path>,
    pub deadline: Option<Instant>,
}

/// An instrumented run that has ended.
pub(crate) struct Instrumented {
    run: InstrumentedRun,
    /// Heat tables, one for each record.
    heats: Vec<HeatTables>,
    /// Processor whose caches the recorder simulated, with the cache sizes that differ from its preset.
    pub processor: String,
    /// Duration of the run, in seconds.
    pub took_s: f64,
}

/// Minimum number of recorded windows from which an interval is computed. The interval assumes a normal distribution, which is a poor
/// approximation for fewer windows.
const FEWEST_WINDOWS: u64 = 30;

impl Instrumented {
    /// Runs the command under the recorder. The run is ended at the deadline, when this process ends, and when this process receives a
    /// signal to stop.
    ///
    /// # Errors
    /// If the machine lacks QEMU, the program cannot be recorded, or it fails.
    pub(crate) fn run(recording: Recording) -> Result<Instrumented, Error> {
        let Recording { tools, command, options, input, output, deadline } = recording;
        let mut prepared = prepare(tools, command, &options)?;
        prepared.command().stdin(input.stdio().map_err(failed)?);
        if let Some(output) = output {
            let (out, error) = outputs(output)?;
            prepared.command().stdout(out).stderr(error);
        }
        let (signals, began) = (StopSignals::note()?, Instant::now());
        let run = prepared.run(deadline, &|| signals.came().is_some());
        let run = match (run, signals.came()) {
            (Err(RunError::Stopped), Some(signal)) => return Err(Error::Interrupted(signal)),
            (run, _) => run?,
        };
        if !run.was_ended && !run.status.success() {
            return Err(Error::Failed(unsuccessful(&run, output)));
        }
        Instrumented::read(run, began.elapsed().as_secs_f64())
    }

    /// Reads the heat tables of a run, and the name of the processor.
    fn read(run: InstrumentedRun, took_s: f64) -> Result<Instrumented, Error> {
        let mut processor = String::new();
        for process in &run.processes {
            if let Some(reader) = process.open()? {
                processor.clone_from(&reader.header().processor);
            }
        }
        let heats = run.processes.iter().map(ProcessRecord::heat).collect::<Result<_, _>>()?;
        Ok(Instrumented { run, heats, processor, took_s })
    }

    /// Returns whether the run was ended at its deadline.
    pub(crate) fn was_ended(&self) -> bool {
        self.run.was_ended
    }

    /// Returns the records of all programs.
    pub(crate) fn processes(&self) -> &[ProcessRecord] {
        &self.run.processes
    }

    /// Returns the heat tables of all programs.
    pub(crate) fn heats(&self) -> &[HeatTables] {
        &self.heats
    }

    /// Returns the summaries of all programs.
    pub(crate) fn summaries(&self) -> Vec<&Summary> {
        self.run.processes.iter().map(|process| &process.summary).collect()
    }

    /// Returns the summary and the heat tables of the program that loaded most cache lines from memory. `None` if no program loaded any.
    pub(crate) fn hottest(&self) -> Option<(&Summary, &HeatTables)> {
        let lines = |heat: &HeatTables| heat.ranges.iter().map(RangeHeat::lines).sum::<u64>();
        let all = self.run.processes.iter().map(|process| &process.summary).zip(&self.heats);
        all.filter(|(_, heat)| lines(heat) > 0).max_by_key(|(_, heat)| lines(heat))
    }

    /// Returns the memory that the largest program used, in bytes. It counts the pages from which at least one cache line was loaded.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        self.heats.iter().map(|heat| heat.ranges.len() as u64 * heat.range_bytes).max().unwrap_or(0)
    }

    /// Returns the number of windows that were recorded.
    fn windows(&self) -> u64 {
        self.run.processes.iter().map(|process| process.summary.sample.windows).sum()
    }

    /// Returns the counts of the whole run.
    pub(crate) fn counts(&self) -> LineCounts {
        let summaries = self.summaries();
        let samples = || summaries.iter().map(|summary| summary.sample);
        let threads = || summaries.iter().flat_map(|summary| &summary.threads);
        let served =
            |level: usize| threads().map(|one| one.caches.loads[level] + one.caches.stores[level]).sum();
        let levels = ["L1", "L2", "L3", "peer", "memory"].into_iter().enumerate();
        LineCounts {
            processes: summaries.len() as u32,
            threads: threads().count() as u32,
            instructions: threads().map(|thread| thread.instructions).sum(),
            loads: threads().map(|thread| thread.loads).sum(),
            stores: threads().map(|thread| thread.stores).sum(),
            branches: threads().map(|thread| thread.branches).sum(),
            mispredicted: threads().map(|thread| thread.mispredicted).sum(),
            served: levels
                .map(|(number, level)| ServedCount { level: level.into(), accesses: served(number) })
                .collect(),
            memory_reads: threads()
                .map(|one| {
                    let CacheCounters { loads, stores, prefetches, fetches, .. } = one.caches;
                    [loads, stores, prefetches, fetches]
                        .map(|by_place| by_place[ServedBy::Memory as usize])
                        .iter()
                        .sum::<u64>()
                })
                .sum(),
            write_backs: threads().map(|thread| thread.caches.write_backs).sum(),
            windows: self.windows(),
            window_instructions: samples().map(|sample| sample.windows * sample.window).sum(),
        }
    }

    /// Returns a warning if the recorded windows are too few for an interval.
    pub(crate) fn too_few(&self) -> Option<Warning> {
        let windows = self.windows();
        (windows < FEWEST_WINDOWS).then(|| {
            let text = format!(
                "only {windows} windows were recorded, of at least {FEWEST_WINDOWS}: the program is too short for its cycles to be \
                 known; give it more to do"
            );
            Warning::new("few-windows", text)
        })
    }

    /// Returns the misses to memory by name (for example of a function), most misses first.
    pub(crate) fn named(&self, of: impl Fn(&Summary) -> &[unrack_lines::summary::Named]) -> Vec<NamedMisses> {
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for named in self.summaries().into_iter().flat_map(of) {
            *sums.entry(named.name.clone()).or_default() += named.misses;
        }
        let mut all: Vec<NamedMisses> =
            sums.into_iter().map(|(name, misses)| NamedMisses { name, misses }).collect();
        all.sort_by(|a, b| b.misses.cmp(&a.misses).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// Returns warnings about programs that were not recorded, and about incomplete records.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let summaries = self.summaries();
        let mut warnings = Vec::new();
        for left in summaries.iter().flat_map(|summary| &summary.left) {
            let text = format!("{} ran natively and is not in the counts: {}", left.path, left.reason);
            warnings.push(Warning::new("not-instrumented", text));
        }
        for (summary, error) in
            summaries.iter().filter_map(|summary| Some((summary, summary.error.as_ref()?)))
        {
            let text = format!("the record of {} is incomplete: {error}", summary.program);
            warnings.push(Warning::new("incomplete-record", text));
        }
        warnings.dedup();
        warnings
    }
}

/// Creates the file for a program's standard output and standard error.
///
/// # Errors
/// If the file cannot be written.
fn outputs(path: &Path) -> Result<(File, File), Error> {
    let failed = |why| Error::Failed(format!("cannot write {}: {why}", path.display()));
    let file = File::create(path).map_err(failed)?;
    Ok((file.try_clone().map_err(failed)?, file))
}

/// Exit status of QEMU when it cannot continue. If the kernel or the C library aborts a program, QEMU instead ends by the signal
/// [`ABORTED`].
const QEMU_GAVE_UP: i32 = 127;
/// Default limit of the mappings of a process, used where the kernel's setting cannot be read.
const USUAL_MAPPINGS: u64 = 65_530;

/// Describes how a program ended that did not end with status 0, and the possible reason.
fn unsuccessful(run: &InstrumentedRun, output: Option<&Path>) -> String {
    let see = output.map_or(String::new(), |path| format!(": see its output in {}", path.display()));
    let said = format!("the program ended with {} when run under the recorder{see}", run.status);
    let is_cut_off = run.processes.iter().any(|process| process.summary.ending == RecordEnding::Killed);
    let is_abort = run.status.signal() == Some(ABORTED) || run.status.code() == Some(QEMU_GAVE_UP);
    if !is_abort || !is_cut_off {
        return said;
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_MAPPINGS);
    format!(
        "{said}; QEMU itself gave up, with a message of its own. A program that has nearly as many mappings as a process may have \
         ({limit}) leaves none to QEMU: as root, raise the limit, for example by `sysctl vm.max_map_count={}`, or let the program map \
         less at a time",
        limit.saturating_mul(4)
    )
}

/// Signal of a failed assertion.
const ABORTED: i32 = 6;
