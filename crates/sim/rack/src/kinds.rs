//! Kinds of topologies that a scenario can name.
//!
//! A kind has a name, keys, and a function that reads them. It is an entry of [`KINDS`] or, if another crate connects
//! the nodes and switches ([`Connects`]), of [`KnownNames::topologies`](crate::KnownNames::topologies).

use crate::check::Checker;
use crate::graph::Sides;
use crate::schema;
use crate::topology::{ExternalTopology, RefusedTopology, Switches, TopologySpec};
use crate::tree::Node;
use crate::wiring::Wiring;
use crate::workload::FileRef;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Schema;
use std::sync::Arc;
use toml::Table;

/// A kind of topology that a scenario can name.
#[derive(Clone, Copy)]
pub struct TopologyKind {
    /// Name in scenarios.
    pub name: &'static str,
    /// One-line description of how nodes are connected.
    pub about: &'static str,
    pub(crate) schema: fn() -> Schema,
    pub(crate) read: fn(&mut Checker, &Node) -> Option<TopologySpec>,
}

/// Keys of a topology that another crate adds. They determine how nodes and switches are connected.
///
/// The documentation of the fields of the type is the help text of `unrack scenario explain`.
pub trait Connects: DeserializeOwned + Serialize + JsonSchema {
    /// Name in scenarios.
    const NAME: &'static str;
    /// One-line description of how nodes are connected.
    const ABOUT: &'static str;

    /// Returns the switches and the cables between them.
    ///
    /// # Errors
    /// If a key is out of range.
    fn switches(&self) -> Result<Switches, RefusedTopology>;
}

impl TopologyKind {
    /// Creates the kind of a topology that another crate adds.
    pub const fn new<T: Connects>() -> TopologyKind {
        TopologyKind { name: T::NAME, about: T::ABOUT, schema: schema::for_type::<T>, read: read_built::<T> }
    }
}

impl std::fmt::Debug for TopologyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name)
    }
}

/// Kinds of this crate, in the order in which they are listed to users.
pub(crate) static KINDS: [TopologyKind; 8] = [
    TopologyKind {
        name: "star",
        about: "nodes around one switch",
        schema: schema::for_type::<StarTopology>,
        read: |checker, node| keys(checker, node).map(|StarTopology { nodes }| TopologySpec::Star { nodes }),
    },
    TopologyKind {
        name: "leaf-spine",
        about: "racks around a leaf each, which is linked to every spine",
        schema: schema::for_type::<LeafSpine>,
        read: |checker, node| {
            let LeafSpine { racks, hosts_per_rack, spines } = keys(checker, node)?;
            Some(TopologySpec::LeafSpine { racks, hosts_per_rack, spines })
        },
    },
    TopologyKind {
        name: "fat-tree",
        about: "three tiers of equal switches",
        schema: schema::for_type::<FatTree>,
        read: |checker, node| keys(checker, node).map(|FatTree { ports }| TopologySpec::FatTree { ports }),
    },
    TopologyKind {
        name: "drack",
        about: "racks that pool their NICs (DRack §4.1)",
        schema: schema::for_type::<DrackTopology>,
        read: |checker, node| {
            let DrackTopology { racks, hosts_per_rack, cores } = keys(checker, node)?;
            let cores = cores.unwrap_or(Wiring::default_cores(racks, hosts_per_rack));
            Some(TopologySpec::Drack { racks, hosts_per_rack, cores })
        },
    },
    TopologyKind {
        name: "torack",
        about: "racks with a ToR switch, and a NIC for each host (DRack §7.1)",
        schema: schema::for_type::<Torack>,
        read: |checker, node| {
            let Torack { racks, hosts_per_rack, uplinks } = keys(checker, node)?;
            Some(TopologySpec::Torack { racks, hosts_per_rack, uplinks: uplinks.unwrap_or(hosts_per_rack) })
        },
    },
    TopologyKind {
        name: "torus",
        about: "nodes that forward for each other, in rings",
        schema: schema::for_type::<Cube>,
        read: |checker, node| keys(checker, node).map(|Cube { shape }| TopologySpec::Torus { sides: shape }),
    },
    TopologyKind {
        name: "mesh",
        about: "nodes that forward for each other, in lines",
        schema: schema::for_type::<Cube>,
        read: |checker, node| keys(checker, node).map(|Cube { shape }| TopologySpec::Mesh { sides: shape }),
    },
    TopologyKind {
        name: "graph",
        about: "nodes that forward for each other, connected as a file lists",
        schema: schema::for_type::<CablesFile>,
        read: |checker, node| {
            let CablesFile { file } = keys(checker, node)?;
            checker.cabling(file)
        },
    },
];

/// Returns the schema of the keys of a topology.
pub(crate) fn schema_of(topology: &TopologySpec) -> Schema {
    let name = topology.kind();
    match topology {
        TopologySpec::Built(built) => (built.schema)(),
        _ => (KINDS.iter().find(|kind| kind.name == name).expect("a kind of this crate").schema)(),
    }
}

/// Reads the keys other than `kind`.
fn keys<T: DeserializeOwned>(checker: &mut Checker, node: &Node) -> Option<T> {
    checker.decode_beside(node, "network.topology", "kind")
}

/// Reads the keys of a topology that another crate adds, and connects its switches.
fn read_built<T: Connects>(checker: &mut Checker, node: &Node) -> Option<TopologySpec> {
    let read: T = keys(checker, node)?;
    let complain = |checker: &mut Checker, key: &str, why: String| match key.is_empty() {
        true => checker.complain("network.topology", why),
        false => checker.complain(&format!("network.topology.{key}"), why),
    };
    match read.switches().and_then(Switches::checked) {
        Ok(switches) => {
            let keys = Table::try_from(&read).expect("keys that were read are TOML");
            Some(TopologySpec::Built(ExternalTopology {
                name: T::NAME,
                schema: schema::for_type::<T>,
                keys,
                switches: Arc::new(switches),
            }))
        }
        Err(RefusedTopology { key, why }) => {
            complain(checker, key, why);
            None
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct StarTopology {
    nodes: u32,
}

#[derive(Deserialize, JsonSchema)]
struct LeafSpine {
    racks: u32,
    hosts_per_rack: u32,
    spines: u32,
}

#[derive(Deserialize, JsonSchema)]
struct FatTree {
    /// Ports of each switch: the k of a k-ary fat tree.
    ports: u32,
}

#[derive(Deserialize, JsonSchema)]
struct DrackTopology {
    racks: u32,
    hosts_per_rack: u32,
    /// Number of core switches. Default: the number at which no link is oversubscribed.
    #[serde(default)]
    cores: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Torack {
    racks: u32,
    hosts_per_rack: u32,
    /// Number of uplinks of each ToR switch. Default: the number of hosts per rack, so that no link is oversubscribed.
    #[serde(default)]
    uplinks: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Cube {
    /// Nodes along each dimension.
    shape: Sides,
}

#[derive(Deserialize, JsonSchema)]
struct CablesFile {
    /// File with one cable per line ([`crate::graph::list`]).
    file: FileRef,
}
