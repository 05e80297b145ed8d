//! Placement of a replayed program: the nodes on which it computes, and the nodes that hold its pages.
//!
//! DDC §4.1: every server of the traced cluster is split into blades, and each CPU's address space is uniformly
//! partitioned across all memory blades (§2.2) of its scope.

use crate::blades::{BladeNodes, BladeRacks, ByRack};
use crate::error::WorkloadError;
use crate::message::NodeId;
use crate::random::scale;
use unrack_basis::mix;
use unrack_rack::{Blades, Scope};

/// Nodes of the replicas, and nodes of their pages.
pub struct Placement {
    compute: Vec<NodeId>,
    memory: ByRack,
    racks: BladeRacks,
    scope: Scope,
    seed: u64,
}

impl Placement {
    /// Creates the placement on these blades.
    ///
    /// # Errors
    /// If the blades do not fit.
    pub fn new(blades: Blades, racks: BladeRacks, seed: u64) -> Result<Placement, WorkloadError> {
        let BladeNodes { compute, memory, .. } = BladeNodes::new(blades, racks)?;
        let memory = ByRack::new(memory, racks);
        Ok(Placement { compute, memory, racks, scope: blades.scope, seed: mix(seed) })
    }

    /// Returns the number of replicas: one on each compute blade.
    pub fn replicas(&self) -> u32 {
        self.compute.len() as u32
    }

    /// Returns the compute blade of a replica.
    pub fn compute_node(&self, replica: u32) -> NodeId {
        self.compute[replica as usize]
    }

    /// Returns the memory blade that holds a page of a replica. It is any blade in the scope with equal probability,
    /// and always the same one for a given page.
    pub fn memory_node(&self, replica: u32, page: u64) -> NodeId {
        let hash = mix(mix(self.seed ^ u64::from(replica)) ^ page);
        let near = match self.scope {
            Scope::Datacenter => 0..self.memory.len(),
            Scope::Rack => self.memory.in_rack(self.racks.rack_of(self.compute_node(replica))),
        };
        self.memory.nodes[(near.start + scale((hash >> 32) as u32, near.len() as u32)) as usize]
    }
}
