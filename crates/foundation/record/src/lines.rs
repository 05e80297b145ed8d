//! Result of loads and stores: how remote memory affects a program that accesses it by lines of 64 B.

use serde::{Deserialize, Serialize};

use crate::{Comparison, DistributionSummary, Machine, Runs, Stated, Warning};

/// Result of one instrumented run, and everything that was computed and simulated from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinesResult {
    /// Name of the processor whose caches and core were modelled.
    pub processor: String,
    /// Placement of the program's pages in local and remote memory.
    pub placement: String,
    /// Size of local memory as given: `25%` or `64MiB`.
    pub local: String,
    /// Memory of the largest program in bytes: all pages of which at least one line came from memory.
    pub footprint_bytes: u64,
    pub native: Option<NativeTimes>,
    /// Fraction of the native run that was recorded, as estimated by the model, if a budget ended the recording early. Counts and misses
    /// then cover only that fraction, and conclusions about the program's time are withheld. `None` if the whole run was recorded.
    #[serde(default)]
    pub seen: Option<f64>,
    pub machine_times: MachineTimes,
    pub counts: LineCounts,
    /// The thread that remote memory delays most; `None` if cycles are withheld.
    pub critical: Option<CriticalThread>,
    /// Run time in seconds that the model predicts with all memory local, for the threads for which the run waits.
    pub predicted_near_s: Stated,
    /// Part of `predicted_near_s` that is spent in the kernel, computed from the number of system calls and new pages; `None` if cycles are
    /// withheld.
    pub kernel_s: Option<f64>,
    /// Processor time in seconds that the model predicts with all memory local, for all threads and processes, user and system: the
    /// quantity that [`NativeTimes::processor`] measures.
    pub predicted_processor_s: Stated,
    /// Slowdown by latency of remote memory, smallest latency first; empty if cycles are withheld.
    pub curve: Vec<CurvePoint>,
    /// The same curves for other placements.
    pub placements: Vec<PlacementCurve>,
    /// The threads that take longest with remote memory, longest first, at most 100.
    #[serde(default)]
    pub threads: Vec<ThreadSlowdown>,
    /// Breakdown of the critical thread's time; `None` if cycles are withheld.
    pub stalls: Option<StallShares>,
    pub fabrics: Vec<LinesFabric>,
    /// Misses to memory by mapping, most misses first.
    pub mappings: Vec<NamedMisses>,
    /// Misses to memory by function, most misses first.
    pub functions: Vec<NamedMisses>,
    /// Warnings that the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
}

/// Times of native runs, without instrumentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NativeTimes {
    /// Wall-clock times.
    pub wall: Runs,
    /// User and system time of all processes together.
    pub processor: Runs,
    /// User time of all processes together.
    pub user: Runs,
}

/// Latencies and frequency that the model used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MachineTimes {
    /// Frequency of a core, in 10^9 cycles per second.
    pub frequency_ghz: f64,
    /// Latency of local memory, in nanoseconds.
    pub near_ns: f64,
    /// Whether the values were measured on this machine; otherwise they come from the processor's description.
    pub is_measured: bool,
}

/// Counts of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineCounts {
    /// Number of processes. A process that executes another program counts once more.
    pub processes: u32,
    pub threads: u32,
    pub instructions: u64,
    pub loads: u64,
    pub stores: u64,
    pub branches: u64,
    pub mispredicted: u64,
    /// Accesses that each level served, from the first cache level to memory.
    pub served: Vec<ServedCount>,
    /// Lines that came from memory, because of accesses, prefetches and code fetches. Non-temporal stores count both here and as
    /// write-backs.
    pub memory_reads: u64,
    /// Modified lines that were written from the last cache level to memory.
    pub write_backs: u64,
    /// Number of recorded windows, and number of instructions in them.
    pub windows: u64,
    pub window_instructions: u64,
}

/// Number of accesses that one level served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServedCount {
    /// `L1`, `L2`, `L3`, `peer` or `memory`.
    pub level: String,
    pub accesses: u64,
}

/// The thread whose delay is used as the delay of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriticalThread {
    /// Path of the program that the thread runs.
    pub program: String,
    pub pid: u32,
    /// Number of the thread in its process, from 0.
    pub thread: u32,
    pub instructions: u64,
    /// Cycles per instruction with all memory local.
    pub cycles_per_instruction: Stated,
}

/// Slowdown at one latency of remote memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Time from a miss to the arrival of its line, in nanoseconds.
    pub latency_ns: f64,
    /// Run time divided by native run time.
    pub slowdown: Stated,
}

/// Slowdown of one thread, with the requested placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadSlowdown {
    /// Path of the program that the thread runs.
    pub program: String,
    pub pid: u32,
    /// Number of the thread in its process, from 0.
    pub thread: u32,
    pub instructions: u64,
    /// Loads and stores that memory served.
    pub misses: u64,
    /// Number of recorded windows.
    pub windows: u64,
    /// Time in seconds that the model predicts with all memory local.
    pub near_s: Stated,
    /// Time with remote memory divided by the time with all memory local, by latency of remote memory.
    pub curve: Vec<CurvePoint>,
}

/// Slowdown by latency with another placement of pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementCurve {
    /// Description of the placement.
    pub placement: String,
    pub curve: Vec<CurvePoint>,
}

/// Fractions of the critical thread's cycles with all memory local, which add up to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StallShares {
    /// Waiting for local memory.
    pub memory: f64,
    /// Waiting for caches beyond the first level, and for caches of other cores.
    pub caches: f64,
    /// Waiting for room in the store queue.
    pub stores: f64,
    /// Executing, and waiting for results of the core and its first cache level.
    pub core: f64,
    /// Restarting after mispredicted branches.
    pub mispredicted: f64,
    /// Mean number of misses to memory in flight while at least one is in flight. This is not a fraction of the cycles.
    pub overlap: f64,
}

/// Row of the table of fabrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinesFabric {
    pub fabric: String,
    /// Nanoseconds that an otherwise idle fabric adds to a read of a line: the mean over memory blades.
    pub unloaded_ns: Option<f64>,
    /// Nanoseconds that the fabric adds to a read of a line in the closed-loop simulation.
    pub read_ns: Option<DistributionSummary>,
    /// Slowdown according to the curve, at `unloaded_ns` plus the latency of local memory.
    pub slowdown: Stated,
    /// Slowdown by the completion time of each line in the closed-loop simulation, in which all compute blades run the program.
    pub slowdown_closed_loop: Stated,
    /// The simulation's `summary.json`, unchanged; null if no simulation was run.
    pub simulation: serde_json::Value,
}

/// Number of misses of a mapping or a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedMisses {
    pub name: String,
    pub misses: u64,
}

/// `summary.json` of a run that measured loads and stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinesSummary {
    pub version: String,
    pub command: Vec<String>,
    pub seed: u64,
    pub access: AccessUnit,
    /// Result for the same program with its pages in remote memory, if that was requested too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages: Option<Comparison>,
    pub lines: LinesResult,
    pub machine: Option<Machine>,
}

/// Unit in which a program accesses remote memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessUnit {
    /// Pages of 4 KiB, by page faults.
    Pages,
    /// Lines of 64 B, by loads and stores.
    Lines,
    /// Both pages and lines, as two results.
    Both,
}
