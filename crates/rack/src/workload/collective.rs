//! Collective operations among all nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// One operation, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collective {
    pub operation: Operation,
    /// Of each node's data.
    pub size: Bytes,
    /// Nodes that hold the data, with `parameter-server`: the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Default 1.
    #[serde(default = "once")]
    pub iterations: u32,
    /// What each node computes before an iteration. Default none.
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
    /// All-reduce by `servers`.
    ParameterServer,
}

fn once() -> u32 {
    1
}
