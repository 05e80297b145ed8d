//! Which nodes do what (DDC §2.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many nodes are blades of each kind; any others idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blades {
    pub compute: u32,
    pub memory: u32,
    /// Default none.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub disk: u32,
    /// Default mixed (DDC §2.2).
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub organization: Organization,
    /// Default datacenter.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub scope: Scope,
}

/// How kinds of blades are spread over racks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Organization {
    /// Each rack holds the same mix, give or take a blade.
    #[default]
    Mixed,
    /// Compute first, then memory, then disk, rack by rack.
    Segregated,
}

/// Where the resources of a compute blade may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    Rack,
    #[default]
    Datacenter,
}

impl Blades {
    /// Half of the nodes compute, the other half hold memory.
    pub fn half(nodes: u32) -> Blades {
        Blades::new(nodes / 2, nodes - nodes / 2)
    }

    pub fn new(compute: u32, memory: u32) -> Blades {
        Blades { compute, memory, disk: 0, organization: Organization::default(), scope: Scope::default() }
    }
}
