//! The instrumented run: counts, names and recorded windows of all processes.

use super::sample::Sample;
use crate::failure::Failure;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use unrack_lines::summary::Summary;
use unrack_lines_run::{Options, Run, RunError, Tools, prepare};
use unrack_record::{LineCounts, NamedMisses, Warning};

/// Instrumented run that has ended.
pub(crate) struct Instrumented {
    run: Run,
    pub sample: Sample,
    pub epoch_instructions: u64,
    /// Name of the processor whose caches the recorder simulated; [`NO_CACHES`] if it simulated none.
    pub processor: String,
}

/// Processor in the recordings of a recorder that simulates no caches.
const NO_CACHES: &str = "none";
/// Fewest windows from which an interval is computed: with fewer, the normal distribution that it assumes is far off.
const FEWEST_WINDOWS: u64 = 30;

impl Instrumented {
    /// Runs the command under the recorder; to `output`, if given, with empty input.
    ///
    /// # Errors
    /// If the machine lacks QEMU, the program cannot be recorded, or it fails.
    pub(crate) fn run(
        command: &[OsString],
        seed: u64,
        output: Option<&Path>,
    ) -> Result<Instrumented, Failure> {
        let tools = Tools::find()?;
        let mut prepared = prepare(&tools, command, &Options { seed, ..Options::default() })?;
        if let Some(output) = output {
            let (out, error) = super::native::outputs(output)?;
            prepared.command().stdin(Stdio::null()).stdout(out).stderr(error);
        }
        let run = prepared.run()?;
        if !run.status.success() {
            let text = format!("the program ended with {} when run under the recorder", run.status);
            return Err(Failure::Failed(text));
        }
        Instrumented::read(run)
    }

    /// Reads the windows of a run.
    fn read(run: Run) -> Result<Instrumented, Failure> {
        let threads = run.processes.iter().flat_map(|process| &process.summary.threads);
        let longest = threads.map(|thread| thread.instructions).max().unwrap_or(0);
        let epoch_instructions = Sample::epoch_instructions(longest);
        let mut sample = Sample::default();
        let mut processor = NO_CACHES.to_string();
        for process in &run.processes {
            let Some(mut reader) = process.open()? else { continue };
            processor.clone_from(&reader.header().processor);
            while let Some(window) = reader.next_window().map_err(super::failed)? {
                sample.add(&window, epoch_instructions);
            }
        }
        Ok(Instrumented { run, sample, epoch_instructions, processor })
    }

    /// Returns the summaries of all programs.
    pub(crate) fn summaries(&self) -> Vec<&Summary> {
        self.run.processes.iter().map(|process| &process.summary).collect()
    }

    /// Returns the counts of the whole run.
    pub(crate) fn counts(&self) -> LineCounts {
        let summaries = self.summaries();
        let threads = || summaries.iter().flat_map(|summary| &summary.threads);
        let instructions = threads().map(|thread| thread.instructions).sum();
        LineCounts {
            processes: summaries.len() as u32,
            threads: threads().count() as u32,
            instructions,
            loads: threads().map(|thread| thread.loads).sum(),
            stores: threads().map(|thread| thread.stores).sum(),
            branches: threads().map(|thread| thread.branches).sum(),
            mispredicted: threads().map(|thread| thread.mispredicted).sum(),
            served: if self.has_caches() { self.sample.served(instructions) } else { Vec::new() },
            write_backs: (self.sample.write_backs as f64 * self.sample.scale(instructions)).round() as u64,
            windows: self.sample.windows,
            window_instructions: self.sample.instructions,
        }
    }

    fn has_caches(&self) -> bool {
        self.processor != NO_CACHES
    }

    /// Returns the misses to memory by name, most first.
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

    /// Returns warnings about what the run left out.
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
        if !self.has_caches() {
            let text = "this version's recorder simulates no caches: there are neither misses nor heat";
            warnings.push(Warning::new("no-cache-model", text));
        }
        if self.sample.windows < FEWEST_WINDOWS {
            let text = format!(
                "only {} windows were recorded, of at least {FEWEST_WINDOWS}: the program is too short for its numbers to be \
                 sure; give it more to do",
                self.sample.windows
            );
            warnings.push(Warning::new("few-windows", text));
        }
        warnings.dedup();
        warnings
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Lacking(text) => Failure::Lacking(text),
            RunError::Program { .. } => Failure::Lacking(error.to_string()),
            RunError::Record { .. } | RunError::Io { .. } => Failure::Failed(error.to_string()),
        }
    }
}
