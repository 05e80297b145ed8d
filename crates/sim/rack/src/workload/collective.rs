//! Collective operations among all nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// A collective operation that all nodes repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collective {
    pub operation: Operation,
    /// Size of the data of each node.
    pub size: Bytes,
    /// With `parameter-server`, the number of nodes that hold the data; they are the last nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Number of operations. Default 1.
    #[serde(default = "once")]
    pub iterations: u32,
    /// Time that each node computes before an iteration. Default none.
    #[serde(default)]
    pub compute: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// All-reduce by a ring.
    RingAllReduce,
    /// All-reduce by exchanges at halving and doubling distances.
    HalvingDoubling,
    AllGather,
    AllToAll,
    /// All-reduce through `servers`.
    ParameterServer,
}

fn once() -> u32 {
    1
}
