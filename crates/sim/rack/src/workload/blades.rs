//! Roles of nodes (DDC §2.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Numbers of nodes that are blades of each kind. All other nodes are idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blades {
    /// Blades that compute.
    pub compute: u32,
    /// Blades of memory.
    pub memory: u32,
    /// Blades of disk. Default none.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub disk: u32,
    /// Distribution of the kinds of blades over racks. Default mixed (DDC §2.2).
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub organization: Organization,
    /// Part of the network in which a compute blade uses resources. Default datacenter.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub scope: Scope,
}

/// Distribution of the kinds of blades over racks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Organization {
    /// Each rack holds the same mix of kinds; counts differ by at most one blade.
    #[default]
    Mixed,
    /// Blades fill the racks in order: first compute, then memory, then disk.
    Segregated,
}

/// Part of the network in which the resources of a compute blade may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Resources in the same rack.
    Rack,
    #[default]
    Datacenter,
}

impl Blades {
    /// Returns blades of which half compute and the other half hold memory.
    pub fn half(nodes: u32) -> Blades {
        Blades::new(nodes / 2, nodes - nodes / 2)
    }

    /// Returns blades without disks, with the default organization and scope.
    pub fn new(compute: u32, memory: u32) -> Blades {
        Blades { compute, memory, disk: 0, organization: Organization::default(), scope: Scope::default() }
    }
}
