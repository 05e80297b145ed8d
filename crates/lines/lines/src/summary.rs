//! Summary of a process that ran under the recorder: what it did in all, beside the windows of its recording.

use crate::hierarchy::CacheCounters;
use crate::placement::MovedBytes;
use serde::{Deserialize, Serialize};

/// Summary of one program in one process. A process that becomes another program leaves one for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Process.
    pub pid: u32,
    /// Process that started it.
    pub parent: u32,
    /// Path of the program.
    pub program: String,
    /// Ending of the record.
    pub ending: RecordEnding,
    /// Time of the start, in nanoseconds of `CLOCK_MONOTONIC`, in the instrumented run.
    pub start_ns: u64,
    /// Time from the start to the end, in nanoseconds, of the instrumented run.
    pub wall_ns: u64,
    /// System calls of all threads.
    pub system_calls: u64,
    /// Pages of 4 KiB that were accessed for the first time since they were mapped, each a fault of the native run.
    pub new_pages: u64,
    /// Threads in the order of their starts.
    pub threads: Vec<ThreadSummary>,
    /// Sample that the recording holds.
    pub sample: SampleSummary,
    /// Misses to memory by function, most first, where the program has a table of symbols.
    pub functions: Vec<Named>,
    /// Misses to memory by the name of the memory, most first.
    pub mappings: Vec<Named>,
    /// Memory that each placement of the recording has moved, in the order of its masks' bits.
    pub moved: Vec<MovedBytes>,
    /// Programs that ran outside the recorder.
    pub left: Vec<LeftProgram>,
    /// Reason why the rest was not recorded, if it was not.
    pub error: Option<String>,
}

/// End of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordEnding {
    /// The process ended.
    Exit,
    /// The process became another program.
    Exec,
    /// The record was written while the process ran, and nothing after it: it was killed, or runs still.
    Killed,
}

/// Counts of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Thread, counted from 0 in the order of the starts.
    pub thread: u32,
    /// Instructions executed.
    pub instructions: u64,
    /// Accesses by the level that served them, and what they caused, over the whole run.
    pub caches: CacheCounters,
    /// Loads, one for each line that an instruction loads from.
    pub loads: u64,
    /// Stores, one for each line that an instruction stores to.
    pub stores: u64,
    /// Branches that the predictor saw: jumps, calls and returns in windows, and in the stretches before them that train
    /// it.
    pub branches: u64,
    /// Branches of those that were mispredicted.
    pub mispredicted: u64,
    /// Software prefetches executed. Their addresses are not known, so the caches do not see them.
    pub software_prefetches: u64,
    /// Instructions from the beginning of one of its windows to that of the next.
    pub period: u64,
    /// Its windows in the recording.
    pub windows: u64,
}

/// Sample of windows, of all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSummary {
    /// Instructions that a window counts.
    pub window: u64,
    /// Instructions before them, which fill the core.
    pub lead: u64,
    /// Windows in the recording.
    pub windows: u64,
}

/// Misses of a function or a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Loads and stores that memory served.
    pub misses: u64,
    /// Addresses that a mapping had when one was missed: first, and behind the last. Nothing for a function.
    pub ranges: Vec<(u64, u64)>,
}

/// Program that ran without the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProgram {
    /// Path of its file.
    pub path: String,
    /// Reason in words.
    pub reason: String,
}
