//! Roles of nodes: racks, and the blades in them (DDC §2.2).

use crate::error::WorkloadError;
use crate::message::NodeId;

/// Racks of equal size. Nodes are numbered rack by rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Racks {
    pub racks: u32,
    pub hosts: u32,
}

impl Racks {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.racks * self.hosts
    }

    /// Returns the rack of a node.
    pub fn rack_of(&self, node: NodeId) -> u32 {
        node / self.hosts
    }

    /// Returns the `n`-th node if racks take turns: the first of every rack, the second of every rack, and so on.
    pub fn in_turn(&self, n: u32) -> NodeId {
        n % self.racks * self.hosts + n / self.racks
    }
}

/// Puts all nodes in one rack.
impl From<u32> for Racks {
    fn from(nodes: u32) -> Racks {
        Racks { racks: 1, hosts: nodes }
    }
}

/// Numbers of nodes that are blades of each kind; any others idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blades {
    pub compute: u32,
    pub memory: u32,
    pub disk: u32,
    pub organization: Organization,
    pub scope: Scope,
}

/// Distribution of the kinds of blades over racks. A single rack holds first the blades that compute, then blades of
/// memory, then blades of disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Organization {
    /// Each rack holds the same mix of kinds (DDC §2.2), give or take a blade.
    #[default]
    Mixed,
    /// The first racks hold the blades that compute, the next ones blades of memory, then blades of disk.
    Segregated,
}

/// Part of the network where the resources of a compute blade may be (DDC §2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    Rack,
    #[default]
    Datacenter,
}

impl Blades {
    /// Returns blades without disks, with mixed racks and datacenter scope.
    pub fn new(compute: u32, memory: u32) -> Blades {
        Blades { compute, memory, disk: 0, organization: Organization::default(), scope: Scope::default() }
    }

    /// Returns blades where half of the nodes compute and the other half hold memory.
    pub fn half(nodes: u32) -> Blades {
        Blades::new(nodes / 2, nodes - nodes / 2)
    }

    /// Checks that these racks have room for the blades, and that every compute blade has what it needs in its scope.
    ///
    /// # Errors
    /// The rule that the blades break.
    pub fn check(&self, racks: Racks) -> Result<(), WorkloadError> {
        if self.compute == 0 || self.memory == 0 {
            return Err(WorkloadError::new(KEY, "has at least one that computes and one of memory", self));
        }
        let all = u64::from(self.compute) + u64::from(self.memory) + u64::from(self.disk);
        if all > u64::from(racks.nodes()) {
            return Err(WorkloadError::new(KEY, "fits on the nodes of the network", self));
        }
        let has = |rack, nodes: &[NodeId]| nodes.iter().any(|node| racks.rack_of(*node) == rack);
        let (memory, disk) = (self.memory_nodes(racks), self.disk_nodes(racks));
        let lacking = |node: &NodeId| {
            let rack = racks.rack_of(*node);
            !has(rack, &memory) || self.disk > 0 && !has(rack, &disk)
        };
        if self.scope == Scope::Rack && self.compute_nodes(racks).iter().any(lacking) {
            let rule = "has, with the scope of a rack, every kind in each rack that computes";
            return Err(WorkloadError::new(KEY, rule, self));
        }
        Ok(())
    }

    /// Returns the nodes that compute, in ascending order.
    pub fn compute_nodes(&self, racks: Racks) -> Vec<NodeId> {
        self.nodes(racks, 0, self.compute)
    }

    /// Returns the nodes of memory, in ascending order.
    pub fn memory_nodes(&self, racks: Racks) -> Vec<NodeId> {
        self.nodes(racks, self.compute, self.memory)
    }

    /// Returns the nodes of disk, in ascending order.
    pub fn disk_nodes(&self, racks: Racks) -> Vec<NodeId> {
        self.nodes(racks, self.compute + self.memory, self.disk)
    }

    fn nodes(&self, racks: Racks, first: u32, count: u32) -> Vec<NodeId> {
        let place = |n| match self.organization {
            Organization::Mixed => racks.in_turn(n),
            Organization::Segregated => n,
        };
        let mut nodes: Vec<NodeId> = (first..first + count).map(place).collect();
        nodes.sort_unstable();
        nodes
    }
}

const KEY: &str = "workload.blades";

impl std::fmt::Display for Blades {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} compute and {} memory", self.compute, self.memory)?;
        if self.disk > 0 { write!(f, " and {} disk", self.disk) } else { Ok(()) }
    }
}

/// Nodes in ascending order, grouped by rack.
pub(crate) struct ByRack {
    pub nodes: Vec<NodeId>,
    /// Index of the first node of each rack; and the number of nodes.
    starts: Vec<u32>,
}

impl ByRack {
    /// Groups nodes, which must be in ascending order.
    pub(crate) fn new(nodes: Vec<NodeId>, racks: Racks) -> ByRack {
        let before = |rack| nodes.partition_point(|node| racks.rack_of(*node) < rack) as u32;
        let starts = (0..=racks.racks).map(before).collect();
        ByRack { nodes, starts }
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns the indices in [`ByRack::nodes`] of a rack's nodes.
    pub(crate) fn in_rack(&self, rack: u32) -> std::ops::Range<u32> {
        self.starts[rack as usize]..self.starts[rack as usize + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blades_are_nodes_of_their_own_and_racks_are_mixed(
            (racks, hosts) in (1u32..9, 1u32..9), (c, m, d) in (1u32..20, 1u32..20, 0u32..20), mixed: bool,
        ) {
            let racks = Racks { racks, hosts };
            let organization = if mixed { Organization::Mixed } else { Organization::Segregated };
            let blades = Blades { disk: d, organization, ..Blades::new(c, m) };
            prop_assume!(c + m + d <= racks.nodes());
            let kinds = [blades.compute_nodes(racks), blades.memory_nodes(racks), blades.disk_nodes(racks)];
            let mut all = kinds.concat();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len() as u32, c + m + d);
            prop_assert!(all.iter().all(|node| *node < racks.nodes()));
            for kind in kinds {
                let by_rack = ByRack::new(kind, racks);
                let counts: Vec<usize> = (0..racks.racks).map(|rack| by_rack.in_rack(rack).len()).collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                prop_assert!(!mixed || most - least <= 1, "{:?}", counts);
            }
        }
    }

    #[test]
    fn the_scope_of_a_rack_needs_every_kind_in_it() {
        let racks = Racks { racks: 3, hosts: 4 };
        let rack_scope = |blades: Blades| Blades { scope: Scope::Rack, ..blades }.check(racks);
        assert!(rack_scope(Blades::new(6, 6)).is_ok());
        assert!(rack_scope(Blades::new(6, 2)).is_err());
        assert!(Blades::new(6, 2).check(racks).is_ok());
        assert!(rack_scope(Blades { disk: 1, ..Blades::new(6, 3) }).is_err());
        let segregated = Blades { organization: Organization::Segregated, ..Blades::new(4, 4) };
        assert!(rack_scope(segregated).is_err() && segregated.check(racks).is_ok());
    }
}
