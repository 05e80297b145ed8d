//! Result of loads and stores: what far memory does to a program that accesses it by lines of 64 B.

use serde::{Deserialize, Serialize};

use crate::{Comparison, DistributionSummary, Machine, Runs, Stated, Warning};

/// Result of one instrumented run, and of what was computed and simulated from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinesResult {
    /// Name of the processor whose caches and core were modelled.
    pub processor: String,
    /// Placement of the program's pages in near and far memory.
    pub placement: String,
    /// Near memory as given: `25%` or `64MiB`.
    pub local: String,
    /// Memory of the largest program, in bytes: pages of which a line came from memory.
    pub footprint_bytes: u64,
    pub native: Option<NativeTimes>,
    /// Part of the native run that was recorded, by the model, where a budget ended the recorded run: counts and misses are of that
    /// part, and what they say of the program's time is withheld. `None`: all of it.
    #[serde(default)]
    pub seen: Option<f64>,
    pub machine_times: MachineTimes,
    pub counts: LineCounts,
    /// Thread that far memory delays most; `None` if cycles are withheld.
    pub critical: Option<CriticalThread>,
    /// Time that the model gives with all memory near, in seconds, of the threads that the run waits for.
    pub predicted_near_s: Stated,
    /// Part of it in the kernel, by the number of system calls and new pages; `None` if cycles are withheld.
    pub kernel_s: Option<f64>,
    /// Time that the model gives with all memory near, in seconds, of all threads and processes, user and system: what
    /// [`NativeTimes::processor`] measures.
    pub predicted_processor_s: Stated,
    /// Slowdown by latency of far memory, smallest latency first; empty if cycles are withheld.
    pub curve: Vec<CurvePoint>,
    /// The same for other placements.
    pub placements: Vec<PlacementCurve>,
    /// Threads, those that take longest with far memory first, at most 100.
    #[serde(default)]
    pub threads: Vec<ThreadSlowdown>,
    /// Account of the critical thread's time; `None` if cycles are withheld.
    pub stalls: Option<StallShares>,
    pub fabrics: Vec<LinesFabric>,
    /// Misses to memory by mapping, most first.
    pub mappings: Vec<NamedMisses>,
    /// Misses to memory by function, most first.
    pub functions: Vec<NamedMisses>,
    /// Points that the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
}

/// Native runs, without instrumentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NativeTimes {
    /// Wall times.
    pub wall: Runs,
    /// User and system time of all processes together.
    pub processor: Runs,
    /// User time of all processes together.
    pub user: Runs,
}

/// Latencies and frequency that the model computed with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MachineTimes {
    /// Frequency of a core, in 10^9 cycles per second.
    pub frequency_ghz: f64,
    /// Latency of near memory, in nanoseconds.
    pub near_ns: f64,
    /// Tells whether they were measured on this machine; otherwise they are those of the processor's description.
    pub is_measured: bool,
}

/// Counts of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineCounts {
    /// Processes, a program that another one became counting as one more.
    pub processes: u32,
    pub threads: u32,
    pub instructions: u64,
    pub loads: u64,
    pub stores: u64,
    pub branches: u64,
    pub mispredicted: u64,
    /// Accesses that each level served, the first level first and memory last.
    pub served: Vec<ServedCount>,
    /// Lines that came from memory, by accesses, prefetches and fetches of code. Non-temporal stores are among them and among the
    /// write-backs.
    pub memory_reads: u64,
    /// Modified lines that left the last cache for memory.
    pub write_backs: u64,
    /// Windows that were recorded, and instructions in them.
    pub windows: u64,
    pub window_instructions: u64,
}

/// Accesses that a level served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServedCount {
    /// `L1`, `L2`, `L3`, `peer` or `memory`.
    pub level: String,
    pub accesses: u64,
}

/// Thread whose delay stands for the run's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriticalThread {
    /// Path of its program.
    pub program: String,
    pub pid: u32,
    /// Number of the thread in its process, from 0.
    pub thread: u32,
    pub instructions: u64,
    /// Cycles per instruction with all memory near.
    pub cycles_per_instruction: Stated,
}

/// Slowdown at one latency of far memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Time from a miss to its line, in nanoseconds.
    pub latency_ns: f64,
    /// Run time over native run time.
    pub slowdown: Stated,
}

/// Slowdown of one thread, with the placement that is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadSlowdown {
    /// Path of its program.
    pub program: String,
    pub pid: u32,
    /// Number of the thread in its process, from 0.
    pub thread: u32,
    pub instructions: u64,
    /// Loads and stores that memory served.
    pub misses: u64,
    /// Recorded windows.
    pub windows: u64,
    /// Time that the model gives with all memory near, in seconds.
    pub near_s: Stated,
    /// Time with far memory over that with all memory near, by latency of far memory.
    pub curve: Vec<CurvePoint>,
}

/// Slowdown by latency with another placement of pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementCurve {
    /// Placement in words.
    pub placement: String,
    pub curve: Vec<CurvePoint>,
}

/// Parts of the critical thread's cycles with all memory near, which add up to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StallShares {
    /// Waiting for near memory.
    pub memory: f64,
    /// Waiting for caches beyond the first level, and for those of other cores.
    pub caches: f64,
    /// Waiting for room in the store queue.
    pub stores: f64,
    /// Executing, and waiting for results of the core and its first level.
    pub core: f64,
    /// Restarting after mispredicted branches.
    pub mispredicted: f64,
    /// Mean number of misses to memory that are under way while any is.
    pub overlap: f64,
}

/// Row of the table of fabrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinesFabric {
    pub fabric: String,
    /// Nanoseconds that the fabric adds to a read of a line while nothing else is on it: the mean over memory blades.
    pub unloaded_ns: Option<f64>,
    /// Nanoseconds that the fabric adds to a read of a line in the closed loop.
    pub read_ns: Option<DistributionSummary>,
    /// Slowdown by the curve, at `unloaded_ns` on top of near memory's latency.
    pub slowdown: Stated,
    /// Slowdown by the completion time of each line in the closed loop, where all compute blades run the program.
    pub slowdown_closed_loop: Stated,
    /// Simulation's `summary.json`, unchanged; null if it was not run.
    pub simulation: serde_json::Value,
}

/// Misses of a mapping or a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedMisses {
    pub name: String,
    pub misses: u64,
}

/// `summary.json` of a run that looked at loads and stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinesSummary {
    pub version: String,
    pub command: Vec<String>,
    pub seed: u64,
    pub access: AccessUnit,
    /// The same program with its pages in remote memory, if that was asked for, too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages: Option<Comparison>,
    pub lines: LinesResult,
    pub machine: Option<Machine>,
}

/// Unit in which a program gets at far memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessUnit {
    /// Pages of 4 KiB, by page faults.
    Pages,
    /// Lines of 64 B, by loads and stores.
    Lines,
    /// Each of them.
    Both,
}
