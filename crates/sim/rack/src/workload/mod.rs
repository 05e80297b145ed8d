//! Workloads of a rack, as a scenario describes them. This module creates no messages.

mod blades;
mod collective;
pub mod jobs;
mod margin;
mod shape;
mod size;
mod trace;

pub use blades::{Blades, Organization, Scope};
pub use collective::{Collective, Operation};
pub use jobs::Jobs;
pub use margin::Margin;
pub use shape::{Arrivals, Pattern};
pub use size::{BUILT_IN_CDFS, ParetoScale, Size, SizeUnit};
pub use trace::{FileRef, Replay, TimeOffsets, Trace};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Fraction};

#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    Memory(Memory),
    Flows(FlowWorkload),
    Trace(Trace),
    Collective(Collective),
    Jobs(Jobs),
}

impl Workload {
    /// Names of the kinds of workloads, as `workload.kind` holds them in a scenario.
    pub const KINDS: &[&str] = &["memory", "flows", "trace", "collective", "jobs"];

    /// Returns the margins that the figures exclude: at the beginning, and at the end.
    pub const fn margins(&self) -> (Margin, Margin) {
        match self {
            Workload::Memory(memory) => (memory.warm_up, memory.cool_down),
            Workload::Flows(flows) => (flows.warm_up, flows.cool_down),
            Workload::Trace(trace) => (trace.warm_up, trace.cool_down),
            Workload::Collective(_) | Workload::Jobs(_) => (Margin::Messages(0), Margin::Messages(0)),
        }
    }

    /// Returns the name of the kind in scenarios.
    pub const fn kind(&self) -> &'static str {
        match self {
            Workload::Memory(_) => "memory",
            Workload::Flows(_) => "flows",
            Workload::Trace(_) => "trace",
            Workload::Collective(_) => "collective",
            Workload::Jobs(_) => "jobs",
        }
    }
}

/// Reads, writes and read-modify-writes of remote memory, drawn at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Share of reads among all messages. Default one half (EDM §4.3).
    #[serde(default = "half")]
    pub read_fraction: Fraction,
    /// Share of atomic read-modify-writes among all messages; the rest are writes. Default none.
    #[serde(default = "none")]
    #[schemars(extend("x-unhashed" = "default"))]
    pub rmw_fraction: Fraction,
    /// Size of the data read or written. Default 64 B, a cache line (EDM §4.3).
    #[serde(default = "cache_line")]
    pub size: Size,
    /// Size of the request of a read. Default 8 B, an address (EDM §4.3).
    #[serde(default = "address")]
    pub request_size: Bytes,
    /// Size of the request of a read-modify-write: its address and arguments. Default 24 B, a compare-and-swap (EDM
    /// §2.3).
    #[serde(default = "compare_and_swap")]
    #[schemars(extend("x-unhashed" = "default"))]
    pub rmw_request_size: Bytes,
    /// Size of the answer to a read-modify-write. Default 1 B, whether it succeeded (EDM §2.3).
    #[serde(default = "yes_or_no")]
    #[schemars(extend("x-unhashed" = "default"))]
    pub rmw_size: Bytes,
    /// Offered load: offered bytes divided by the capacity of the links of the nodes.
    pub load: Fraction,
    /// Number of messages in all.
    pub messages: u64,
    /// Who talks to whom. Default all-to-all.
    #[serde(default)]
    pub pattern: Pattern,
    /// Times at which messages are submitted. Default Poisson.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Nodes that send requests, and nodes that hold memory. Default: every node does both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blades: Option<Blades>,
    /// Messages to disk blades. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Messages or time at the beginning that are not counted, because the network is emptier then. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub warm_up: Margin,
    /// Messages or time at the end that are not counted. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub cool_down: Margin,
}

/// Reads and writes of disk blades, in the same ratio as reads and writes of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Share among all messages.
    pub fraction: Fraction,
    /// Size of the data read or written. Default 512 B, a sector (DDC §2.2).
    #[serde(default = "sector")]
    pub size: Size,
}

/// Byte streams whose size is known in advance, drawn at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowWorkload {
    /// Number of bytes in a stream.
    pub size: Size,
    /// Offered load: offered bytes divided by the capacity of the links of the nodes.
    pub load: Fraction,
    /// Number of messages in all.
    pub messages: u64,
    /// Who talks to whom. Default all-to-all.
    #[serde(default)]
    pub pattern: Pattern,
    /// Times at which messages are submitted. Default Poisson.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Messages or time at the beginning that are not counted, because the network is emptier then. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub warm_up: Margin,
    /// Messages or time at the end that are not counted. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub cool_down: Margin,
}

fn half() -> Fraction {
    Fraction::new(0.5).expect("one half is a fraction")
}

fn none() -> Fraction {
    Fraction::new(0.0).expect("nothing is a fraction")
}

fn compare_and_swap() -> Bytes {
    Bytes::new(24)
}

fn yes_or_no() -> Bytes {
    Bytes::new(1)
}

fn sector() -> Size {
    Size::Fixed(Bytes::new(512))
}

fn cache_line() -> Size {
    Size::Fixed(Bytes::new(64))
}

fn address() -> Bytes {
    Bytes::new(8)
}
