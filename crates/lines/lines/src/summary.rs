//! Summary of a process that ran under the recorder. It contains totals over the whole run of the process, whereas the
//! recording contains windows of the run.

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
    /// Event at which the recording of the program ended.
    pub ending: RecordEnding,
    /// Start time of the instrumented run, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Time from start to end of the instrumented run, in nanoseconds.
    pub wall_ns: u64,
    /// Number of system calls of all threads.
    pub system_calls: u64,
    /// Number of first accesses to 4 KiB pages after these pages were mapped. In a native run, each such access is a
    /// page fault.
    pub new_pages: u64,
    /// Threads in the order in which they start.
    pub threads: Vec<ThreadSummary>,
    /// Description of the windows in the recording.
    pub sample: SampleSummary,
    /// Number of misses to memory by function. The function with the most misses is the first one. Empty if the program
    /// has no symbol table.
    pub functions: Vec<Named>,
    /// Number of misses to memory by named memory region, such as a file, the heap or the stack. The region with the
    /// most misses is the first one.
    pub mappings: Vec<Named>,
    /// Traffic that each placement caused by moving memory between local and remote memory, in the order of the placements
    /// in the header of the recording.
    pub moved: Vec<MovedBytes>,
    /// Programs that the process started and that ran without the recorder.
    pub left: Vec<LeftProgram>,
    /// Reason why the recording stopped early; `None` if it is complete.
    pub error: Option<String>,
}

/// Event at which the recording of a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordEnding {
    /// The process exited.
    Exit,
    /// The process replaced itself by another program with `execve`.
    Exec,
    /// The process was killed or is still running. This summary was written during the run, and no later summary
    /// followed.
    Killed,
}

/// Counts of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Number of the thread, counted from 0 in the order in which threads start.
    pub thread: u32,
    /// Number of instructions that the thread executed.
    pub instructions: u64,
    /// Cache counts of the whole run: number of accesses by the level that served them, and the memory traffic that
    /// they caused.
    pub caches: CacheCounters,
    /// Number of loads. An instruction counts once for each cache line from which it loads.
    pub loads: u64,
    /// Number of stores. An instruction counts once for each cache line to which it stores.
    pub stores: u64,
    /// Number of branches that the simulated branch predictor processed. These are the jumps, calls and returns in
    /// windows, and in the intervals before windows that train the predictor.
    pub branches: u64,
    /// Number of mispredicted branches among [`branches`](Self::branches).
    pub mispredicted: u64,
    /// Number of software prefetches that the thread executed. The simulated caches ignore them, because their
    /// addresses are not known.
    pub software_prefetches: u64,
    /// Number of instructions from the beginning of one window of this thread to the beginning of its next window.
    pub period: u64,
    /// Number of windows of this thread in the recording.
    pub windows: u64,
}

/// Properties of the recorded windows of all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSummary {
    /// Number of instructions of a window, excluding its lead.
    pub window: u64,
    /// Number of instructions of the lead, which is executed before the counted part of each window to fill the
    /// pipeline of the core model.
    pub lead: u64,
    /// Number of windows in the recording.
    pub windows: u64,
}

/// Misses of one function or one memory region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Name of the function or memory region.
    pub name: String,
    /// Number of loads and stores that memory served.
    pub misses: u64,
    /// Address ranges, as first address and end, that the memory region had when accesses to it missed the caches.
    /// Empty for a function.
    pub ranges: Vec<(u64, u64)>,
}

/// Program that a recorded process started and that ran without the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProgram {
    /// Path of the executable.
    pub path: String,
    /// Human-readable reason why the program ran without the recorder.
    pub reason: String,
}
