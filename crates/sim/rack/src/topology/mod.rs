//! Topologies of a rack, and what each of them connects. [`kinds`](crate::kinds) defines how a scenario names them.

mod switches;

pub(crate) use switches::{MOST_NODES, MOST_PORTS};
pub use switches::{RefusedTopology, Switches};

use crate::graph::list::Cable;
use crate::graph::{Graph, Sides};
use crate::wiring::Wiring;
use crate::workload::FileRef;
use serde_json::Value as Schema;
use std::sync::Arc;
use toml::Table;

/// How nodes and switches are connected.
#[derive(Debug, Clone, PartialEq)]
pub enum TopologySpec {
    /// Nodes around one switch.
    Star { nodes: u32 },
    /// Racks of hosts, each around its leaf. Every leaf is linked to every spine.
    LeafSpine { racks: u32, hosts_per_rack: u32, spines: u32 },
    /// Three tiers of switches with `ports` ports each.
    FatTree { ports: u32 },
    /// Racks that pool their NICs, with one NIC per host (DRack §4.1). `link` connects a NIC to its aggregation switch,
    /// and `core_link` connects an aggregation switch to a core switch.
    Drack { racks: u32, hosts_per_rack: u32, cores: u32 },
    /// Racks of hosts with one NIC each, around a ToR switch (DRack §7.1). `link` connects a NIC to its ToR switch.
    /// `core_link` is each uplink of a ToR switch; it has one uplink to every aggregation switch.
    Torack { racks: u32, hosts_per_rack: u32, uplinks: u32 },
    /// Nodes that forward for each other, connected in rings.
    Torus { sides: Sides },
    /// Nodes that forward for each other, connected in lines.
    Mesh { sides: Sides },
    /// Nodes that forward for each other, connected by the cables that a file lists.
    Graph(Cabling),
    /// Nodes around switches that another crate connects.
    Built(ExternalTopology),
}

/// Cables between nodes, as a file lists them ([`crate::graph::list`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cabling {
    pub file: FileRef,
    pub graph: Arc<Graph>,
    /// Properties of each cable, by the number of the cable ([`Graph::cable`]).
    pub cables: Arc<[Cable]>,
}

impl TopologySpec {
    /// Returns the name of the kind in scenarios.
    pub fn kind(&self) -> &'static str {
        match *self {
            TopologySpec::Star { .. } => "star",
            TopologySpec::LeafSpine { .. } => "leaf-spine",
            TopologySpec::FatTree { .. } => "fat-tree",
            TopologySpec::Drack { .. } => "drack",
            TopologySpec::Torack { .. } => "torack",
            TopologySpec::Torus { .. } => "torus",
            TopologySpec::Mesh { .. } => "mesh",
            TopologySpec::Graph(_) => "graph",
            TopologySpec::Built(ref built) => built.name,
        }
    }

    /// Returns the number of nodes. It saturates at `u32::MAX`, because the values may not have been checked yet.
    pub fn nodes(&self) -> u32 {
        match *self {
            TopologySpec::Graph(Cabling { ref graph, .. }) => graph.nodes(),
            TopologySpec::Built(ref built) => built.switches.nodes(),
            TopologySpec::Star { nodes } => nodes,
            TopologySpec::LeafSpine { racks, hosts_per_rack, .. }
            | TopologySpec::Drack { racks, hosts_per_rack, .. }
            | TopologySpec::Torack { racks, hosts_per_rack, .. } => racks.saturating_mul(hosts_per_rack),
            TopologySpec::FatTree { ports } => ports.saturating_pow(3) / 4,
            TopologySpec::Torus { sides } | TopologySpec::Mesh { sides } => sides.nodes(),
        }
    }

    /// Returns the number of ports of all switches. In a rack without switches, it returns an upper bound of the number
    /// of links, plus one port per node.
    pub fn ports(&self) -> u64 {
        let product = |a: u32, b: u64| u64::from(a).saturating_mul(b);
        match *self {
            TopologySpec::Star { nodes } => nodes.into(),
            TopologySpec::LeafSpine { racks, hosts_per_rack, spines: up }
            | TopologySpec::Torack { racks, hosts_per_rack, uplinks: up } => {
                product(racks, u64::from(hosts_per_rack) + 2 * u64::from(up))
            }
            TopologySpec::FatTree { ports } => product(ports, product(ports, u64::from(ports))) / 4 * 5,
            TopologySpec::Drack { racks, hosts_per_rack, cores } => {
                product(racks, 3 * u64::from(hosts_per_rack) + 2 * u64::from(cores))
            }
            TopologySpec::Torus { sides } | TopologySpec::Mesh { sides } => {
                product(sides.nodes(), 2 * sides.as_slice().len() as u64 + 1)
            }
            TopologySpec::Graph(Cabling { ref graph, .. }) => {
                u64::from(graph.links()) + u64::from(graph.nodes())
            }
            TopologySpec::Built(ref built) => built.switches.ports(),
        }
    }

    /// Returns the graph of nodes that forward for each other; `None` if the network has switches.
    ///
    /// # Panics
    /// If the graph cannot be built, which the check of a scenario excludes.
    pub fn graph(&self) -> Option<Arc<Graph>> {
        let graph = |sides, wraps| Arc::new(Graph::cube(sides, wraps).expect("a checked torus or mesh"));
        match *self {
            TopologySpec::Graph(Cabling { ref graph, .. }) => Some(graph.clone()),
            TopologySpec::Torus { sides } => Some(graph(sides, true)),
            TopologySpec::Mesh { sides } => Some(graph(sides, false)),
            TopologySpec::Star { .. }
            | TopologySpec::LeafSpine { .. }
            | TopologySpec::FatTree { .. }
            | TopologySpec::Drack { .. }
            | TopologySpec::Torack { .. }
            | TopologySpec::Built(_) => None,
        }
    }

    /// Returns whether nodes forward for each other, so that the network has no switches.
    pub fn is_direct(&self) -> bool {
        matches!(self, TopologySpec::Torus { .. } | TopologySpec::Mesh { .. } | TopologySpec::Graph(_))
    }

    /// Returns the number of switches; it saturates at `u32::MAX`. A node that forwards for others counts as a switch.
    pub fn switches(&self) -> u32 {
        match *self {
            TopologySpec::Star { .. } => 1,
            TopologySpec::LeafSpine { racks, spines: up, .. }
            | TopologySpec::Torack { racks, uplinks: up, .. } => racks.saturating_add(up),
            TopologySpec::FatTree { ports } => 5 * (ports / 2).saturating_pow(2),
            TopologySpec::Drack { racks, cores, .. } => racks.saturating_mul(2).saturating_add(cores),
            TopologySpec::Torus { .. } | TopologySpec::Mesh { .. } | TopologySpec::Graph(_) => self.nodes(),
            TopologySpec::Built(ref built) => built.switches.switches,
        }
    }

    /// Returns the maximum number of hosts in a rack, and the number of NICs that each host may use.
    pub(crate) fn hosts_and_nics(&self) -> (u32, u32) {
        match *self {
            TopologySpec::Drack { hosts_per_rack, .. } => (hosts_per_rack, hosts_per_rack),
            TopologySpec::LeafSpine { hosts_per_rack, .. } | TopologySpec::Torack { hosts_per_rack, .. } => {
                (hosts_per_rack, 1)
            }
            TopologySpec::FatTree { ports } => (ports / 2, 1),
            TopologySpec::Built(ref built) => (built.switches.hosts_per_rack, 1),
            _ => (self.nodes(), 1),
        }
    }

    /// Returns the wiring of the NICs; `None` if they are not pooled.
    pub fn wiring(&self) -> Option<Wiring> {
        match *self {
            TopologySpec::Drack { racks, hosts_per_rack, cores } => {
                Some(Wiring { racks, hosts_per_rack, cores })
            }
            _ => None,
        }
    }
}

/// Topology of a kind that another crate adds.
#[derive(Debug, Clone)]
pub struct ExternalTopology {
    /// Name of the kind in scenarios.
    pub(crate) name: &'static str,
    /// Function that returns the schema of the keys.
    pub(crate) schema: fn() -> Schema,
    /// Keys of the topology in the scenario, including defaults.
    pub(crate) keys: Table,
    pub switches: Arc<Switches>,
}

impl PartialEq for ExternalTopology {
    fn eq(&self, other: &ExternalTopology) -> bool {
        (self.name, &self.keys, &self.switches) == (other.name, &other.keys, &other.switches)
    }
}
