//! Routings. The routing of a flow determines the paths that its packets may take (§2.2.1). The source randomly chooses one of them as the
//! route of each packet.

mod draw;

pub use draw::Router;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use unrack_rack::graph::Graph;

/// Routing of a flow: the rule by which paths are chosen for its packets.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Random packet spraying: each packet takes one of the shortest paths, all of which are equally likely.
    #[default]
    Spraying,
    /// Dimension-order routing: a packet traverses one dimension of the torus after the other, in each by the shorter way around. If the
    /// two ways are equally long, each has probability 1/2. On a graph that is neither torus nor mesh, a packet leaves each node by the
    /// first port that leads closer to its destination.
    DestinationTag,
    /// Valiant's load balancing: a packet takes a random shortest path to a random node, and from there a random shortest path to its
    /// destination.
    Vlb,
    /// Weighted load balancing, as in RLB (Singh et al., SPAA 2002). In each dimension, which is a ring of `k` nodes, a packet takes the
    /// shorter way of `d` hops with probability `(k - d) / k`, and otherwise the longer way. The ways chosen in all dimensions form a box
    /// with source and destination at opposite corners; within this box, the packet is routed as in ROMM.
    Wlb,
    /// ROMM (Nesson and Johnsson): a packet goes to a random node of the box that all shortest paths span, and from there to its
    /// destination. In each of these two phases, the packet traverses one dimension after the other, in a random order.
    Romm,
    /// Equal-cost multipath: all packets of a flow take the same shortest path, which the hash of the flow selects.
    Ecmp,
}

impl Routing {
    /// All routings, in the order of their codes.
    pub const ALL: [Routing; 6] = [
        Routing::Spraying,
        Routing::DestinationTag,
        Routing::Vlb,
        Routing::Wlb,
        Routing::Romm,
        Routing::Ecmp,
    ];

    /// Returns the name that scenarios use.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::Spraying => "spraying",
            Routing::DestinationTag => "destination-tag",
            Routing::Vlb => "vlb",
            Routing::Wlb => "wlb",
            Routing::Romm => "romm",
            Routing::Ecmp => "ecmp",
        }
    }

    /// Returns the code that packets use.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the routing with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Routing> {
        Routing::ALL.get(usize::from(code)).copied()
    }

    /// Returns the number of hops of the longest route that a packet may take on a graph under this routing.
    pub fn longest(self, graph: &Graph) -> u32 {
        match (self, graph.as_cube()) {
            (Routing::Vlb, _) => 2 * graph.diameter(),
            // The worst case in a ring of k nodes is the longer way to a neighbour (k - 1 hops). The worst case in a line is from end to
            // end.
            (Routing::Wlb, Some(cube)) => (0..cube.dimensions()).map(|d| cube.side(d) - 1).sum(),
            _ => graph.diameter(),
        }
    }

    /// Checks whether the routing can be used on a graph.
    ///
    /// # Errors
    /// If the longest route would not fit into a packet's header, or if the routing needs the dimensions of a torus or mesh and the graph
    /// has none.
    pub fn check(self, graph: &Graph) -> Result<(), RoutingError> {
        let needs_cube = matches!(self, Routing::Wlb | Routing::Romm);
        if needs_cube && graph.as_cube().is_none() {
            return Err(RoutingError::NoDimensions(self));
        }
        match self.longest(graph) {
            hops if hops > MOST_HOPS => Err(RoutingError::TooFar { routing: self, hops }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Maximum number of hops of a route. The route field of a packet has 128 bits, and each hop takes three of them (§4.2).
pub const MOST_HOPS: u32 = 42;

/// Reason why a routing cannot be used on a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutingError {
    NoDimensions(Routing),
    TooFar { routing: Routing, hops: u32 },
}

impl std::error::Error for RoutingError {}

impl fmt::Display for RoutingError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RoutingError::NoDimensions(routing) => write!(f, "{routing} needs a torus or a mesh"),
            RoutingError::TooFar { routing, hops } => {
                write!(f, "{routing} may take {hops} hops, and a packet has room for {MOST_HOPS}")
            }
        }
    }
}
