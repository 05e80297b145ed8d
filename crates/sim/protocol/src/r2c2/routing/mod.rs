//! Routings: the paths of a flow (§2.2.1), from which the source draws the route of each packet.

mod draw;

pub use draw::Router;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use unrack_rack::graph::Graph;

/// Choice of paths for the packets of a flow.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Random packet spraying: each packet takes one of the shortest paths, all of which are equally likely.
    #[default]
    Spraying,
    /// Dimension-order routing: one dimension after the other, each by the shorter way around. If the two ways are
    /// equally long, each has probability 1/2. On a graph that is neither torus nor mesh, a packet leaves each node by
    /// the first port that leads closer.
    DestinationTag,
    /// Valiant: spraying to a random node, and from there to the destination.
    Vlb,
    /// Weighted load balancing, as RLB (Singh et al., SPAA 2002): in each dimension, a packet takes the shorter way of
    /// `d` hops in a ring of `k` with probability `(k - d) / k`, and otherwise the longer one. Between the corners
    /// chosen in this way it continues as in ROMM.
    Wlb,
    /// Nesson and Johnsson: to a random node of the minimal quadrant and from there to the destination. Each of the
    /// two phases goes one dimension after the other, in a random order.
    Romm,
    /// Equal-cost multipath: one shortest path, chosen by the hash of the flow.
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

    /// Returns the number of hops of the longest route that a packet may take.
    pub fn longest(self, graph: &Graph) -> u32 {
        match (self, graph.as_cube()) {
            (Routing::Vlb, _) => 2 * graph.diameter(),
            // Worst case in a ring of k: the long way to a neighbour; in a line: from end to end.
            (Routing::Wlb, Some(cube)) => (0..cube.dimensions()).map(|d| cube.side(d) - 1).sum(),
            _ => graph.diameter(),
        }
    }

    /// Checks whether the routing can be used on a graph.
    ///
    /// # Errors
    /// If a packet's route would not fit into its header, or if the routing needs dimensions and the graph has none.
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

/// Maximum number of hops of a route: each hop takes three of 128 bits (§4.2).
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
