//! State that all threads of the recorded process share: the simulated caches, the recorder, and the memory regions.

use crate::caches::Caches;
use crate::code::{Code, Codes};
use crate::exec::{Launcher, LeftToKernel};
use crate::mappings::Mappings;
use crate::recorder::Recorder;
use crate::sampling::ThreadSamples;
use crate::settings::PluginSettings;
use crate::summary_file::SummaryFile;
use crate::thread::{AccessPiece, ThreadCounts};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use unrack_lines::hierarchy::CacheCounters;
use unrack_lines::summary::{LeftProgram, Named, RecordEnding, SampleSummary, Summary, ThreadSummary};
use unrack_lines::window::RecordedWindow;

/// Maximum time between two writes of the summary file while the process runs. The summary is written repeatedly,
/// because a signal may end the process at any time.
const REFRESH: Duration = Duration::from_secs(1);
/// The summary is also written when the number of executed instructions has grown by one part in `GROWTH` since the
/// last write.
const GROWTH: u64 = 8;
/// Number of event buffers that are processed between two reads of the clock.
const LOOK: u32 = 256;
/// Maximum number of functions in the summary.
const FUNCTIONS: usize = 1000;

/// State that the threads of the recorded process share.
pub(crate) struct ProcessState {
    settings: PluginSettings,
    /// Command line of this QEMU, if it is known.
    pub(crate) launcher: Option<Launcher>,
    pub(crate) codes: Codes,
    /// Number of completed turns. In each turn, one thread processes its event buffer.
    pub(crate) turn: u64,
    pub(crate) samples: ThreadSamples,
    pub(crate) mappings: Mappings,
    caches: Caches,
    recorder: Recorder,
    file: SummaryFile,
    /// Path of the guest program.
    pub(crate) program: String,
    /// Whether the recorder has already checked that guest addresses are equal to addresses of this process.
    pub(crate) is_checked: bool,
    /// Counts of each thread after its last processed event buffer, indexed by thread number.
    threads: Vec<ThreadCounts>,
    /// Instructions executed by all threads.
    instructions: u64,
    /// Number of running threads.
    alive: u32,
    /// Number of cache misses that memory served, for each block of code, indexed by block number.
    misses: Vec<u64>,
    left: Vec<LeftProgram>,
    error: Option<String>,
    start: Instant,
    /// Start time in nanoseconds of `CLOCK_MONOTONIC`, which is the same clock in all processes.
    start_ns: u64,
    system_calls: u64,
    /// Time at which the summary was last written. The field after it is the number of instructions at which the next
    /// write is due at the latest.
    written: Instant,
    next_summary: u64,
    /// Number of event buffers that were processed since the clock was last read.
    buffers: u32,
}

impl ProcessState {
    /// Starts the record of this process.
    ///
    /// # Errors
    /// If the summary file cannot be written, or the caches cannot be simulated with these settings.
    pub(crate) fn new(settings: PluginSettings, program: String) -> Result<ProcessState, String> {
        let file = SummaryFile::create(&settings.out)?;
        let caches = Caches::new(&settings)?;
        let recorder = Recorder::new(file.recording(), caches.header(), settings.limit);
        let now = Instant::now();
        let shared = ProcessState {
            launcher: Launcher::find(),
            codes: Codes::new(),
            turn: 0,
            samples: ThreadSamples::new(settings.plan, settings.seed),
            mappings: Mappings::new(),
            caches,
            recorder,
            file,
            program,
            is_checked: false,
            threads: Vec::new(),
            instructions: 0,
            alive: 0,
            misses: Vec::new(),
            left: Vec::new(),
            error: None,
            start: now,
            start_ns: monotonic_ns(),
            system_calls: 0,
            written: now,
            next_summary: 0,
            buffers: 0,
            settings,
        };
        shared.write(RecordEnding::Killed);
        Ok(shared)
    }

    /// Starts the record of a forked child process, which has only the forking thread.
    pub(crate) fn begin_child(&mut self) {
        match SummaryFile::create(&self.settings.out) {
            Ok(file) => self.file = file,
            Err(why) => self.error = Some(why),
        }
        self.recorder = Recorder::new(self.file.recording(), self.caches.header(), self.settings.limit);
        self.samples = self.samples.of_child();
        self.mappings.forget_counts();
        self.caches.forget_counts();
        self.misses.fill(0);
        self.left.clear();
        self.threads = vec![ThreadCounts::default()];
        self.instructions = 0;
        self.alive = 1;
        self.start = Instant::now();
        self.start_ns = monotonic_ns();
        self.system_calls = 0;
        self.next_summary = 0;
        self.write(RecordEnding::Killed);
    }

    /// Registers a new thread and returns its number.
    pub(crate) fn add_thread(&mut self) -> u32 {
        self.threads.push(ThreadCounts::default());
        self.samples.add_thread();
        self.alive += 1;
        self.threads.len() as u32 - 1
    }

    /// Replaces the counts of a thread by newer ones. If the thread has ended, the counts are final.
    pub(crate) fn set_counts(&mut self, thread: u32, counts: ThreadCounts, has_ended: bool) {
        let before = std::mem::replace(&mut self.threads[thread as usize], counts);
        self.instructions += counts.instructions - before.instructions;
        self.caches.advance(self.instructions);
        self.alive -= has_ended as u32;
        self.buffers += 1;
        if self.buffers >= LOOK {
            self.buffers = 0;
            self.refresh();
        }
    }

    /// Counts a system call.
    pub(crate) fn count_system_call(&mut self) {
        self.system_calls += 1;
    }

    fn refresh(&mut self) {
        let instructions = self.instructions;
        if instructions >= self.next_summary || self.written.elapsed() >= REFRESH {
            self.write(RecordEnding::Killed);
            self.written = Instant::now();
            self.next_summary = instructions + instructions / GROWTH;
        }
    }

    /// Returns whether the process has at most one running thread.
    pub(crate) fn is_alone(&self) -> bool {
        self.alive <= 1
    }

    /// Simulates an access in the caches, and records it in the window if one is given.
    #[inline]
    pub(crate) fn access(
        &mut self,
        thread: u32,
        code: &Code,
        piece: &AccessPiece,
        window: Option<&mut RecordedWindow>,
    ) {
        if self.caches.access(thread, code, piece, window) {
            self.missed(code, piece);
        }
    }

    /// Simulates the fetch of a code line, and records it in the window if one is given.
    #[inline]
    pub(crate) fn fetch(&mut self, thread: u32, line: u64, window: Option<&mut RecordedWindow>) {
        self.caches.fetch(thread, line, window);
    }

    #[cold]
    fn missed(&mut self, code: &Code, piece: &AccessPiece) {
        let number = code.number as usize;
        if number >= self.misses.len() {
            self.misses.resize(self.codes.all().len().max(number + 1), 0);
        }
        self.misses[number] += 1;
        self.mappings.count(piece.address, code.function.as_deref(), code.block.pc);
    }

    /// Updates the memory regions after a system call that changed mappings.
    pub(crate) fn changed_mappings(&mut self, call: i64, arguments: &[u64; 6], result: i64) {
        self.mappings.changed(call, arguments, result);
        for page in self.mappings.take_gone() {
            self.caches.forget_page(page);
        }
        if let Some(huge) = self.mappings.take_huge() {
            self.caches.set_huge_pages(huge);
        }
    }

    /// Appends a completed window to the recording.
    pub(crate) fn record(&mut self, window: &RecordedWindow) {
        self.recorder.append(window, self.codes.all(), &mut self.samples);
    }

    /// Adds a record that the recorder left an `execve` of the guest to the kernel, so that the new program would run
    /// unrecorded.
    pub(crate) fn leave_program(&mut self, path: String, left: LeftToKernel) {
        self.left.push(LeftProgram { path, reason: left.reason().into() });
        self.write(RecordEnding::Exec);
    }

    /// Removes the last record made by [`leave_program`](Self::leave_program), because the kernel rejected the `execve`
    /// and the current program continues.
    pub(crate) fn keep_program(&mut self) {
        self.left.pop();
    }

    /// Stores the error that stops the recording. If an error is stored already, it is kept.
    pub(crate) fn fail(&mut self, why: String) {
        self.error.get_or_insert(why);
    }

    /// Writes the summary file.
    pub(crate) fn write(&self, ending: RecordEnding) {
        // An error is ignored, because the program must continue without a record. A reader finds the previous
        // summary.
        let _ = self.file.write(&self.summary(ending), &self.caches.heat());
    }

    fn summary(&self, ending: RecordEnding) -> Summary {
        let plan = self.settings.plan;
        let windows = self.recorder.windows();
        Summary {
            pid: std::process::id(),
            parent: std::os::unix::process::parent_id(),
            program: self.program.clone(),
            ending,
            start_ns: self.start_ns,
            wall_ns: self.start.elapsed().as_nanos() as u64,
            system_calls: self.system_calls,
            new_pages: self.mappings.new_pages(),
            threads: self.threads(),
            sample: SampleSummary { window: plan.window, lead: plan.lead, windows },
            functions: self.functions(),
            mappings: self.mappings.summary(),
            moved: self.caches.moved(),
            left: self.left.clone(),
            error: self.error.clone().or_else(|| self.recorder.error().map(String::from)),
        }
    }

    fn threads(&self) -> Vec<ThreadSummary> {
        let numbered = (0..).zip(&self.threads);
        let summary = |(thread, counts): (u32, &ThreadCounts)| ThreadSummary {
            period: self.samples.plan(thread).period,
            windows: self.samples.windows(thread),
            ..counts.summary(thread, self.caches.counters(thread))
        };
        numbered.map(summary).collect()
    }

    /// Returns the functions of the program with the most misses.
    fn functions(&self) -> Vec<Named> {
        let mut sums: HashMap<&str, u64> = HashMap::default();
        for (code, misses) in self.codes.all().iter().zip(&self.misses).filter(|(_, misses)| **misses > 0) {
            if let Some(function) = code.function.as_deref() {
                *sums.entry(function).or_default() += misses;
            }
        }
        let mut all: Vec<Named> = sums
            .into_iter()
            .map(|(name, misses)| Named { name: name.into(), misses, ranges: Vec::new() })
            .collect();
        all.sort_by(|a, b| b.misses.cmp(&a.misses).then_with(|| a.name.cmp(&b.name)));
        all.truncate(FUNCTIONS);
        all
    }
}

/// Returns the time of `CLOCK_MONOTONIC`, in nanoseconds.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl ThreadCounts {
    fn summary(&self, thread: u32, caches: CacheCounters) -> ThreadSummary {
        ThreadSummary {
            thread,
            instructions: self.instructions,
            caches,
            loads: self.loads,
            stores: self.stores,
            branches: self.branches,
            mispredicted: self.mispredicted,
            software_prefetches: self.prefetches,
            ..ThreadSummary::default()
        }
    }
}
