//! Roles of the nodes of a datacenter: the racks to which they belong, and the kinds of blades that they are (DDC
//! §2.2).

use crate::error::WorkloadError;
use crate::message::NodeId;
use unrack_rack::{Blades, Organization, Scope};

/// Racks that contain the same number of nodes each. Nodes are numbered rack by rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BladeRacks {
    pub racks: u32,
    pub hosts: u32,
}

impl BladeRacks {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.racks * self.hosts
    }

    /// Returns the number of the rack that contains a node.
    pub fn rack_of(&self, node: NodeId) -> u32 {
        node / self.hosts
    }

    /// Returns the `n`-th node in an order in which racks take turns: first the first node of every rack, then the
    /// second node of every rack, and so on.
    pub fn in_turn(&self, n: u32) -> NodeId {
        n % self.racks * self.hosts + n / self.racks
    }
}

/// Converts a number of nodes to a single rack that contains all of them.
impl From<u32> for BladeRacks {
    fn from(nodes: u32) -> BladeRacks {
        BladeRacks { racks: 1, hosts: nodes }
    }
}

/// Nodes that are compute, memory and disk blades, each kind in ascending order. In a single rack, the compute blades
/// have the lowest node numbers, followed by the memory blades and then the disk blades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BladeNodes {
    pub compute: Vec<NodeId>,
    pub memory: Vec<NodeId>,
    pub disk: Vec<NodeId>,
}

impl BladeNodes {
    /// Chooses the nodes for these blades. The racks must have enough nodes, and every compute blade must find the
    /// blades that it needs within its scope.
    ///
    /// # Errors
    /// If the racks cannot hold these blades. The error names the rule that is violated.
    pub fn new(blades: Blades, racks: BladeRacks) -> Result<BladeNodes, WorkloadError> {
        let refuse = |rule| Err(WorkloadError::new(KEY, rule, counts(blades)));
        let Blades { compute, memory, disk, organization, scope } = blades;
        if compute == 0 || memory == 0 {
            return refuse("has at least one that computes and one of memory");
        }
        if u64::from(compute) + u64::from(memory) + u64::from(disk) > u64::from(racks.nodes()) {
            return refuse("fits on the nodes of the network");
        }
        let nodes = BladeNodes {
            compute: place(organization, racks, 0, compute),
            memory: place(organization, racks, compute, memory),
            disk: place(organization, racks, compute + memory, disk),
        };
        match scope {
            Scope::Rack if nodes.is_any_apart(racks) => {
                refuse("has, with the scope of a rack, every kind in each rack that computes")
            }
            _ => Ok(nodes),
        }
    }

    /// Returns whether any rack has a compute blade but lacks a kind of blade that exists in other racks.
    fn is_any_apart(&self, racks: BladeRacks) -> bool {
        let lacks = |rack: u32, nodes: &[NodeId]| {
            !nodes.is_empty() && nodes.binary_search_by_key(&rack, |node| racks.rack_of(*node)).is_err()
        };
        let mut in_use = self.compute.iter().map(|node| racks.rack_of(*node));
        in_use.any(|rack| lacks(rack, &self.memory) || lacks(rack, &self.disk))
    }
}

const KEY: &str = "workload.blades";

/// Returns the nodes of `count` blades of one kind, in ascending order. `before` is the number of blades of other
/// kinds that have been placed already.
fn place(organization: Organization, racks: BladeRacks, before: u32, count: u32) -> Vec<NodeId> {
    let place = |n| match organization {
        Organization::Mixed => racks.in_turn(n),
        Organization::Segregated => n,
    };
    let mut nodes: Vec<NodeId> = (before..before + count).map(place).collect();
    nodes.sort_unstable();
    nodes
}

/// Returns the numbers of blades of each kind as text for an error message.
fn counts(blades: Blades) -> String {
    let Blades { compute, memory, disk, .. } = blades;
    let disks = if disk > 0 { format!(" and {disk} disk") } else { String::new() };
    format!("{compute} compute and {memory} memory{disks}")
}

/// Nodes in ascending order, grouped by rack.
pub(crate) struct ByRack {
    pub nodes: Vec<NodeId>,
    /// Index of the first node of each rack, followed by the number of nodes.
    starts: Vec<u32>,
}

impl ByRack {
    /// Groups nodes, which must be in ascending order.
    pub(crate) fn new(nodes: Vec<NodeId>, racks: BladeRacks) -> ByRack {
        let before = |rack| nodes.partition_point(|node| racks.rack_of(*node) < rack) as u32;
        let starts = (0..=racks.racks).map(before).collect();
        ByRack { nodes, starts }
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns the range of indices in [`ByRack::nodes`] that are the nodes of a rack.
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
            let racks = BladeRacks { racks, hosts };
            let organization = if mixed { Organization::Mixed } else { Organization::Segregated };
            let blades = Blades { disk: d, organization, ..Blades::new(c, m) };
            prop_assume!(c + m + d <= racks.nodes());
            let BladeNodes { compute, memory, disk } = BladeNodes::new(blades, racks).unwrap();
            let kinds = [compute, memory, disk];
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
        let racks = BladeRacks { racks: 3, hosts: 4 };
        let check = |blades| BladeNodes::new(blades, racks);
        let rack_scope = |blades: Blades| check(Blades { scope: Scope::Rack, ..blades });
        assert!(rack_scope(Blades::new(6, 6)).is_ok());
        assert!(rack_scope(Blades::new(6, 2)).is_err());
        assert!(check(Blades::new(6, 2)).is_ok());
        assert!(rack_scope(Blades { disk: 1, ..Blades::new(6, 3) }).is_err());
        let segregated = Blades { organization: Organization::Segregated, ..Blades::new(4, 4) };
        assert!(rack_scope(segregated).is_err() && check(segregated).is_ok());
    }
}
