//! Which node does what: the rack's mix of blades, and where a page lives.
//!
//! DDC §4.1: every server of the traced cluster is split into blades, and each CPU's address space
//! is uniformly partitioned across all memory blades (§2.2).

use crate::error::WorkloadError;
use crate::message::NodeId;
use crate::random::{mix, scale};

/// The mix of a rack: the first nodes compute, the next ones hold memory, any others idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blades {
    pub compute: u32,
    pub memory: u32,
}

impl Blades {
    /// Half of the nodes compute, the other half hold memory.
    pub fn half(nodes: u32) -> Blades {
        Blades { compute: nodes / 2, memory: nodes - nodes / 2 }
    }

    pub fn check(&self, nodes: u32) -> Result<(), WorkloadError> {
        if self.compute == 0 || self.memory == 0 {
            return Err(WorkloadError::new("workload.blades", "has at least one of each kind", self));
        }
        match u64::from(self.compute) + u64::from(self.memory) <= u64::from(nodes) {
            true => Ok(()),
            false => Err(WorkloadError::new("workload.blades", "fits on the nodes of the rack", self)),
        }
    }
}

impl std::fmt::Display for Blades {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} compute and {} memory", self.compute, self.memory)
    }
}

/// Where replicas run and where their pages are.
#[derive(Debug, Clone, Copy)]
pub struct Placement {
    blades: Blades,
    seed: u64,
}

impl Placement {
    pub fn new(blades: Blades, seed: u64) -> Placement {
        Placement { blades, seed: mix(seed) }
    }

    /// One replica on each compute blade.
    pub fn replicas(&self) -> u32 {
        self.blades.compute
    }

    pub fn compute_node(&self, replica: u32) -> NodeId {
        replica
    }

    /// The memory blade that holds a page of a replica: any, all equally likely, always the same.
    pub fn memory_node(&self, replica: u32, page: u64) -> NodeId {
        let hash = mix(mix(self.seed ^ u64::from(replica)) ^ page);
        self.blades.compute + scale((hash >> 32) as u32, self.blades.memory)
    }
}
