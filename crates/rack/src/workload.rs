//! What a rack is asked to do, as described: no message is made here.

mod size;
mod trace;

pub use size::{BUILT_IN_CDFS, Size, SizeUnit};
pub use trace::{Blades, FileRef, Replay, TimeOffsets, Trace};

use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Fraction};

#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    Memory(Memory),
    Flows(Flows),
    Trace(Trace),
}

impl Workload {
    /// As `workload.kind` in a scenario.
    pub const KINDS: &[&str] = &["memory", "flows", "trace"];

    pub const fn kind(&self) -> &'static str {
        match self {
            Workload::Memory(_) => "memory",
            Workload::Flows(_) => "flows",
            Workload::Trace(_) => "trace",
        }
    }
}

/// Kinds of the design that this version does not have.
pub(crate) const LATER: &[&str] = &["collective", "jobs"];

/// Reads and writes of remote memory, drawn at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Reads among all messages. Default one half (EDM §4.3).
    #[serde(default = "half")]
    pub read_fraction: Fraction,
    /// Of the data read or written. Default 64 B, a cache line (EDM §4.3).
    #[serde(default = "cache_line")]
    pub size: Size,
    /// Of a read's request. Default 8 B, an address (EDM §4.3).
    #[serde(default = "address")]
    pub request_size: Bytes,
    /// Bytes offered over what the nodes' links can carry.
    pub load: Fraction,
    /// How many, in all.
    pub messages: u64,
    /// Default all-to-all.
    #[serde(default)]
    pub pattern: Pattern,
    /// Default Poisson.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Which nodes ask and which hold memory. Default: every node does both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blades: Option<Blades>,
}

/// Byte streams of known size, drawn at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    pub size: Size,
    /// Bytes offered over what the nodes' links can carry.
    pub load: Fraction,
    /// How many, in all.
    pub messages: u64,
    /// Default all-to-all.
    #[serde(default)]
    pub pattern: Pattern,
    /// Default Poisson.
    #[serde(default)]
    pub arrivals: Arrivals,
}

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each message between a source and a destination of its own, all equally likely.
    #[default]
    AllToAll,
    /// Each source has one destination, each destination one source, for the whole run.
    Permutation,
    /// All sources ask one destination, the last node that can be one.
    Incast,
}

/// When messages are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independently: gaps are exponential.
    #[default]
    Poisson,
    /// At equal gaps.
    Fixed,
}

fn half() -> Fraction {
    Fraction::new(0.5).expect("one half is a fraction")
}

fn cache_line() -> Size {
    Size::Fixed(Bytes::new(64))
}

fn address() -> Bytes {
    Bytes::new(8)
}
