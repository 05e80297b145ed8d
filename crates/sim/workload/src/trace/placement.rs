//! Placement of a replayed program: the nodes on which its replicas compute, and the nodes that store its pages.
//!
//! The placement follows DDC §4.1: every server of the traced cluster is split into blades, and the address space of
//! each CPU is uniformly partitioned across all memory blades (§2.2) in its scope.

use crate::blades::{BladeNodes, BladeRacks, ByRack};
use crate::error::WorkloadError;
use crate::message::NodeId;
use crate::random::scale;
use unrack_basis::mix;
use unrack_rack::{Blades, Scope};

/// Nodes on which the replicas of a program compute, and nodes that store their pages.
pub struct Placement {
    compute: Vec<NodeId>,
    memory: ByRack,
    racks: BladeRacks,
    scope: Scope,
    seed: u64,
}

impl Placement {
    /// Creates a placement in which each compute blade runs one replica of the program.
    ///
    /// # Errors
    /// If the racks cannot hold the blades.
    pub fn new(blades: Blades, racks: BladeRacks, seed: u64) -> Result<Placement, WorkloadError> {
        let BladeNodes { compute, memory, .. } = BladeNodes::new(blades, racks)?;
        let memory = ByRack::new(memory, racks);
        Ok(Placement { compute, memory, racks, scope: blades.scope, seed: mix(seed) })
    }

    /// Returns the number of replicas, which is the number of compute blades.
    pub fn replicas(&self) -> u32 {
        self.compute.len() as u32
    }

    /// Returns the compute blade on which a replica runs.
    pub fn compute_node(&self, replica: u32) -> NodeId {
        self.compute[replica as usize]
    }

    /// Returns the memory blade that stores a page of a replica. Each memory blade in the scope is chosen with the same
    /// probability, and a given page of a replica is always on the same blade.
    pub fn memory_node(&self, replica: u32, page: u64) -> NodeId {
        let hash = mix(mix(self.seed ^ u64::from(replica)) ^ page);
        let near = match self.scope {
            Scope::Datacenter => 0..self.memory.len(),
            Scope::Rack => self.memory.in_rack(self.racks.rack_of(self.compute_node(replica))),
        };
        self.memory.nodes[(near.start + scale((hash >> 32) as u32, near.len() as u32)) as usize]
    }
}
