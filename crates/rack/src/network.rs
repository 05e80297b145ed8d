//! Network of a rack: its topology, links and switches.

use crate::graph::list::Cable;
use crate::graph::{Graph, Sides};
use crate::workload::FileRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unrack_units::{Bytes, Rate, Time};

use crate::wiring::Wiring;

/// Network of a rack, ready to be built.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub topology: Topology,
    /// Link of each node to its switch; in a rack without switches, every link without properties of its own.
    pub link: Link,
    /// Link between switches.
    pub core_link: Link,
    /// Link of each host to the CXL switch of its rack, on a `drack` or with `[host]`.
    pub cxl_link: Link,
    pub switch: Switch,
    /// Largest packet, without headers of the fabric.
    pub mtu: Bytes,
    /// Headers around the payload of a packet, for fabrics of packets.
    pub headers: Headers,
}

/// Headers around the payload of a packet on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Headers {
    /// Headers of Ethernet, IPv4 and a transport, with preamble and gap.
    #[default]
    Ethernet,
    /// No headers: to compare with simulators that count payload only. No packet is below 8 B.
    None,
}

/// Connection of nodes and switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// Nodes around one switch.
    Star { nodes: u32 },
    /// Racks of hosts around a leaf each; every leaf is linked to every spine.
    LeafSpine { racks: u32, hosts_per_rack: u32, spines: u32 },
    /// Three tiers of switches with `ports` ports each.
    FatTree { ports: u32 },
    /// Racks that pool their NICs, as many as hosts (DRack §4.1): `link` connects a NIC to its aggregation switch,
    /// `core_link` an aggregation switch to a core switch.
    Drack { racks: u32, hosts_per_rack: u32, cores: u32 },
    /// Racks of hosts with a NIC each, around a ToR switch (DRack §7.1): `link` connects a NIC to its ToR switch,
    /// `core_link` is each of a ToR switch's uplinks, one to every aggregation switch.
    Torack { racks: u32, hosts_per_rack: u32, uplinks: u32 },
    /// Nodes that forward for each other, in rings.
    Torus { sides: Sides },
    /// Nodes that forward for each other, in lines.
    Mesh { sides: Sides },
    /// Nodes that forward for each other, connected as a file lists.
    Graph(Cabling),
}

/// Cables between nodes, as a file lists them ([`crate::graph::list`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cabling {
    pub file: FileRef,
    pub graph: Arc<Graph>,
    /// Properties of each cable, by number ([`Graph::cable`]).
    pub cables: Arc<[Cable]>,
}

impl Topology {
    pub(crate) const KINDS: &[&str] =
        &["star", "leaf-spine", "fat-tree", "drack", "torack", "torus", "mesh", "graph"];

    /// Returns the name of the kind in scenarios.
    pub fn kind(&self) -> &'static str {
        match self {
            Topology::Star { .. } => "star",
            Topology::LeafSpine { .. } => "leaf-spine",
            Topology::FatTree { .. } => "fat-tree",
            Topology::Drack { .. } => "drack",
            Topology::Torack { .. } => "torack",
            Topology::Torus { .. } => "torus",
            Topology::Mesh { .. } => "mesh",
            Topology::Graph(_) => "graph",
        }
    }

    /// Returns the number of nodes, saturating: see the bounds of each part.
    pub fn nodes(&self) -> u32 {
        match *self {
            Topology::Graph(Cabling { ref graph, .. }) => graph.nodes(),
            Topology::Star { nodes } => nodes,
            Topology::LeafSpine { racks, hosts_per_rack, .. }
            | Topology::Drack { racks, hosts_per_rack, .. }
            | Topology::Torack { racks, hosts_per_rack, .. } => racks.saturating_mul(hosts_per_rack),
            Topology::FatTree { ports } => ports.saturating_pow(3) / 4,
            Topology::Torus { sides } | Topology::Mesh { sides } => sides.nodes(),
        }
    }

    /// Returns the ports of all switches; in a rack without switches, an upper bound of its links plus one port per
    /// node.
    pub fn ports(&self) -> u64 {
        let product = |a: u32, b: u64| u64::from(a).saturating_mul(b);
        match *self {
            Topology::Star { nodes } => nodes.into(),
            Topology::LeafSpine { racks, hosts_per_rack, spines: up }
            | Topology::Torack { racks, hosts_per_rack, uplinks: up } => {
                product(racks, u64::from(hosts_per_rack) + 2 * u64::from(up))
            }
            Topology::FatTree { ports } => product(ports, product(ports, u64::from(ports))) / 4 * 5,
            Topology::Drack { racks, hosts_per_rack, cores } => {
                product(racks, 3 * u64::from(hosts_per_rack) + 2 * u64::from(cores))
            }
            Topology::Torus { sides } | Topology::Mesh { sides } => {
                product(sides.nodes(), 2 * sides.as_slice().len() as u64 + 1)
            }
            Topology::Graph(Cabling { ref graph, .. }) => u64::from(graph.links()) + u64::from(graph.nodes()),
        }
    }

    /// Returns the graph of nodes that forward for each other; `None` where there are switches.
    ///
    /// # Panics
    /// If the graph cannot be built, which a checked scenario excludes.
    pub fn graph(&self) -> Option<Arc<Graph>> {
        let graph = |sides, wraps| Arc::new(Graph::cube(sides, wraps).expect("a checked torus or mesh"));
        match *self {
            Topology::Graph(Cabling { ref graph, .. }) => Some(graph.clone()),
            Topology::Torus { sides } => Some(graph(sides, true)),
            Topology::Mesh { sides } => Some(graph(sides, false)),
            Topology::Star { .. }
            | Topology::LeafSpine { .. }
            | Topology::FatTree { .. }
            | Topology::Drack { .. }
            | Topology::Torack { .. } => None,
        }
    }

    /// Returns whether nodes forward for each other, without switches.
    pub fn is_direct(&self) -> bool {
        matches!(self, Topology::Torus { .. } | Topology::Mesh { .. } | Topology::Graph(_))
    }

    /// Returns the wiring of NICs, if they are pooled.
    pub fn wiring(&self) -> Option<Wiring> {
        match *self {
            Topology::Drack { racks, hosts_per_rack, cores } => Some(Wiring { racks, hosts_per_rack, cores }),
            _ => None,
        }
    }
}

/// A full-duplex link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Link {
    /// Rate each way. Default 100 Gb/s (EDM §4.3).
    pub rate: Rate,
    /// Delay from one end to the other. Default 10 ns (EDM table 1).
    pub propagation: Time,
}

impl Default for Link {
    fn default() -> Link {
        Link { rate: Rate::from_gbps(100), propagation: Time::from_ns(10) }
    }
}

impl Link {
    pub(crate) const SLOWEST: Rate = Rate::from_bps(1_000_000);
    pub(crate) const FASTEST: Rate = Rate::from_gbps(100_000);
    /// Longest propagation: a rack is no further across than a light-second.
    pub(crate) const LONGEST: Time = Time::from_us(1_000_000);
    /// Default link of a host to the CXL switch of its rack: PCIe 5.0 x16 (DRack §2.4: 500 Gb/s), and half of what a
    /// round trip through a CXL switch adds to a local access (§7.1: 170 to 270 ns), shared by two links.
    pub const CXL: Link = Link { rate: Rate::from_gbps(500), propagation: Time::from_ns(55) };
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Switch {
    /// Delay from a bit's arrival to its departure when nothing is ahead of it, for fabrics without a switch latency of
    /// their own. Default 0: then only the fabric makes packets wait.
    pub latency: Time,
    /// Buffer of each output port or, if shared, of all ports of a switch together. Default 36 KiB (DDC §4.2).
    pub buffer: Buffer,
    /// A queue in a shared buffer may grow while it is below this many times the free space (Choudhury and Hahne 1998).
    /// Default 1: a lone queue gets half. (DCQCN §4: beta = 8 of 8 priorities.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Whether a packet leaves before its last bit is in. Default true.
    pub cut_through: bool,
}

impl Switch {
    /// Returns the `alpha` of a shared buffer.
    pub fn alpha(&self) -> f64 {
        self.alpha.unwrap_or(1.0)
    }
}

impl Default for Switch {
    fn default() -> Switch {
        let buffer = Buffer::Limited(Bytes::new(36 << 10));
        Switch { latency: Time::ZERO, buffer, alpha: None, cut_through: true }
    }
}

/// Size of a buffer: a size, `unlimited`, or a size that is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Bytes of each port.
    Limited(Bytes),
    Unlimited,
    /// Bytes of each switch, shared by its ports.
    Shared(Bytes),
}

impl Buffer {
    /// Returns the limit, if there is one.
    pub fn limit(self) -> Option<Bytes> {
        match self {
            Buffer::Limited(bytes) | Buffer::Shared(bytes) => Some(bytes),
            Buffer::Unlimited => None,
        }
    }
}

impl std::str::FromStr for Buffer {
    type Err = unrack_units::UnitError;
    fn from_str(text: &str) -> Result<Buffer, Self::Err> {
        match (text, text.strip_prefix("shared ")) {
            ("unlimited", _) => Ok(Buffer::Unlimited),
            (_, Some(size)) => size.parse().map(Buffer::Shared),
            (size, None) => size.parse().map(Buffer::Limited),
        }
    }
}

impl std::fmt::Display for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Buffer::Limited(bytes) => bytes.fmt(f),
            Buffer::Unlimited => f.pad("unlimited"),
            Buffer::Shared(bytes) => write!(f, "shared {bytes}"),
        }
    }
}

crate::as_text::as_text!(
    Buffer,
    "a size such as \"36KiB\" of each port, \"shared 12MiB\" of each switch, or \"unlimited\""
);
