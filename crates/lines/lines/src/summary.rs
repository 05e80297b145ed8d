//! Summary of a process that ran under the recorder: totals over its whole run, in addition to its recorded windows.

use crate::hierarchy::CacheCounters;
use crate::placement::MovedBytes;
use serde::{Deserialize, Serialize};

/// Summary of one program in one process. A process that calls `execve` leaves one summary for each program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Process ID.
    pub pid: u32,
    /// ID of the parent process.
    pub parent: u32,
    /// Path of the program.
    pub program: String,
    /// Way in which the record ended.
    pub ending: RecordEnding,
    /// Start time of the instrumented run, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Time from start to end of the instrumented run, in nanoseconds.
    pub wall_ns: u64,
    /// System calls of all threads.
    pub system_calls: u64,
    /// Number of 4 KiB pages that were accessed for the first time since they were mapped. In a native run, each such
    /// access is a page fault.
    pub new_pages: u64,
    /// Threads in the order in which they start.
    pub threads: Vec<ThreadSummary>,
    /// Description of the windows in the recording.
    pub sample: SampleSummary,
    /// Misses to memory by function, most frequent first. Empty if the program has no symbol table.
    pub functions: Vec<Named>,
    /// Misses to memory by named memory region, such as a file, the heap or the stack; most frequent first.
    pub mappings: Vec<Named>,
    /// Traffic that each placement caused by moving memory, in the order of the mask bits.
    pub moved: Vec<MovedBytes>,
    /// Programs that the process started and that ran outside the recorder.
    pub left: Vec<LeftProgram>,
    /// Reason why the recording stopped early; `None` if it is complete.
    pub error: Option<String>,
}

/// Way in which a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordEnding {
    /// The process exited.
    Exit,
    /// The process replaced itself by another program with `execve`.
    Exec,
    /// The process was killed or is still running: this record was written during the run and no later one followed.
    Killed,
}

/// Counts of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Number of the thread, counted from 0 in the order in which threads start.
    pub thread: u32,
    /// Instructions executed.
    pub instructions: u64,
    /// Cache counts of the whole run: accesses by the level that served them, and the traffic that they caused.
    pub caches: CacheCounters,
    /// Loads. An instruction counts once for each line that it loads from.
    pub loads: u64,
    /// Stores. An instruction counts once for each line that it stores to.
    pub stores: u64,
    /// Branches that the predictor processed: jumps, calls and returns in windows, and in the stretches before
    /// windows that train the predictor.
    pub branches: u64,
    /// Mispredicted branches among [`branches`](Self::branches).
    pub mispredicted: u64,
    /// Software prefetches executed. The simulated caches do not see them, because their addresses are not known.
    pub software_prefetches: u64,
    /// Instructions from the beginning of one window of this thread to the beginning of the next.
    pub period: u64,
    /// Windows of this thread in the recording.
    pub windows: u64,
}

/// Windows of all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSummary {
    /// Instructions that a window counts, excluding its lead.
    pub window: u64,
    /// Instructions of the lead before each window, which fill the pipeline.
    pub lead: u64,
    /// Windows in the recording.
    pub windows: u64,
}

/// Misses of one function or one memory region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Loads and stores that were served by memory.
    pub misses: u64,
    /// Address ranges, as first address and end, that the region had when an access to it missed. Empty for a
    /// function.
    pub ranges: Vec<(u64, u64)>,
}

/// Program that ran outside the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProgram {
    /// Path of the executable.
    pub path: String,
    /// Human-readable reason.
    pub reason: String,
}
