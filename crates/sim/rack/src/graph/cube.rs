//! Coordinates of nodes in tori and meshes.

use super::{GraphError, MOST_NODES};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest number of dimensions, because each dimension takes at least one of the eight ports of a node.
const MOST_SIDES: usize = 8;

/// Number of nodes along each dimension, for example `[8, 8, 8]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sides {
    sides: [u32; MOST_SIDES],
    count: u8,
}

impl Sides {
    /// Creates the sides of a cube.
    ///
    /// # Errors
    /// If there are no sides or more than eight, or if a side is outside 1 to [`MOST_NODES`].
    pub fn new(sides: &[u32]) -> Result<Sides, GraphError> {
        let fits = (1..=MOST_SIDES).contains(&sides.len())
            && sides.iter().all(|side| (1..=MOST_NODES).contains(side));
        if !fits {
            return Err(GraphError::Sides);
        }
        let mut all = [1; MOST_SIDES];
        all[..sides.len()].copy_from_slice(sides);
        Ok(Sides { sides: all, count: sides.len() as u8 })
    }

    /// Returns the number of nodes along each dimension.
    pub fn as_slice(&self) -> &[u32] {
        &self.sides[..usize::from(self.count)]
    }

    /// Returns the number of nodes; it saturates at `u32::MAX`.
    pub fn nodes(&self) -> u32 {
        self.as_slice().iter().fold(1, |nodes, side| nodes.saturating_mul(*side))
    }
}

impl JsonSchema for Sides {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sides".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<u32>::json_schema(generator)
    }
}

impl Serialize for Sides {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sides, D::Error> {
        let sides = Vec::<u32>::deserialize(deserializer)?;
        Sides::new(&sides).map_err(serde::de::Error::custom)
    }
}

/// One step along a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CubeStep {
    pub dimension: usize,
    /// Whether the step goes to the next higher coordinate.
    pub up: bool,
}

/// Coordinates of the nodes of a torus or mesh. Node 0 has coordinate 0 in all dimensions, and the last dimension
/// changes fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cube {
    sides: Vec<u32>,
    strides: Vec<u32>,
    pub(super) wraps: bool,
}

impl Cube {
    pub(super) fn new(sides: Sides, wraps: bool) -> Result<Cube, GraphError> {
        if !(2..=MOST_NODES).contains(&sides.nodes()) {
            return Err(GraphError::Nodes(sides.nodes()));
        }
        let sides = sides.as_slice().to_vec();
        let mut strides = vec![1; sides.len()];
        for dimension in (1..sides.len()).rev() {
            strides[dimension - 1] = strides[dimension] * sides[dimension];
        }
        Ok(Cube { sides, strides, wraps })
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.sides.iter().product()
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.sides.len()
    }

    /// Returns the number of nodes along a dimension.
    pub fn side(&self, dimension: usize) -> u32 {
        self.sides[dimension]
    }

    /// Returns the difference between the numbers of two neighbours in a dimension, except where the dimension wraps
    /// around.
    pub fn stride(&self, dimension: usize) -> u32 {
        self.strides[dimension]
    }

    /// Returns whether all sides are rings, so that all nodes are equivalent.
    pub fn is_torus(&self) -> bool {
        self.wraps || self.sides.iter().all(|side| *side <= 2)
    }

    /// Returns the coordinate of a node in a dimension.
    pub fn coordinate(&self, node: u32, dimension: usize) -> u32 {
        node / self.strides[dimension] % self.sides[dimension]
    }

    /// Returns the directions that have a port, in the order of ports.
    pub fn directions(&self) -> impl Iterator<Item = CubeStep> + '_ {
        let both = |dimension| [true, false].map(|up| CubeStep { dimension, up });
        (0..self.dimensions()).flat_map(both).filter(|direction| self.is_way(*direction))
    }

    /// Returns whether a direction has a port. A ring of two nodes has only one cable, so that up from 0 and down from
    /// 1 are the same direction, up.
    fn is_way(&self, direction: CubeStep) -> bool {
        match self.sides[direction.dimension] {
            1 => false,
            2 => direction.up,
            _ => true,
        }
    }

    /// Returns the neighbour in this direction; `None` if there is none.
    pub fn step(&self, node: u32, direction: CubeStep) -> Option<u32> {
        let CubeStep { dimension, up } = direction;
        let (side, stride, at) =
            (self.sides[dimension], self.strides[dimension], self.coordinate(node, dimension));
        let next = match (side, up) {
            (1, _) => None,
            (2, _) => Some(1 - at),
            (_, true) if at + 1 < side => Some(at + 1),
            (_, true) => self.wraps.then_some(0),
            (_, false) if at > 0 => Some(at - 1),
            (_, false) => self.wraps.then_some(side - 1),
        }?;
        Some(node - at * stride + next * stride)
    }

    /// Returns the number of hops along a dimension from one coordinate to another, going up and going down. A
    /// direction that does not lead there has `None`.
    pub fn hops(&self, dimension: usize, from: u32, to: u32) -> [Option<u32>; 2] {
        let side = self.sides[dimension];
        match (from == to, side, self.wraps) {
            (true, ..) => [Some(0), None],
            (_, 2, _) => [Some(1), None],
            (_, _, true) => [Some((to + side - from) % side), Some((from + side - to) % side)],
            (_, _, false) => [to.checked_sub(from), from.checked_sub(to)],
        }
    }

    /// Returns the number of hops of a shortest path between two nodes.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        let along = |dimension| {
            let hops = self.hops(dimension, self.coordinate(a, dimension), self.coordinate(b, dimension));
            hops.into_iter().flatten().min().unwrap_or(0)
        };
        (0..self.dimensions()).map(along).sum()
    }

    /// Returns the number of hops between the two nodes that are furthest apart.
    pub fn diameter(&self) -> u32 {
        let along = |side: &u32| if self.wraps { side / 2 } else { side - 1 };
        self.sides.iter().map(along).sum()
    }

    pub(super) fn cables(&self) -> Vec<(u32, u32)> {
        let ups = |node| {
            let up = self.directions().filter(|direction| direction.up);
            let ends = up.filter_map(move |direction| self.step(node, direction));
            ends.map(move |end| (node, end))
        };
        // Both nodes of a ring of two list the same cable; therefore only the lower one keeps it.
        (0..self.nodes())
            .flat_map(ups)
            .filter(|(node, end)| {
                let is_pair = self.step_is_mutual(*node, *end);
                !is_pair || node < end
            })
            .collect()
    }

    fn step_is_mutual(&self, node: u32, end: u32) -> bool {
        (0..self.dimensions()).any(|dimension| {
            self.sides[dimension] == 2 && self.coordinate(node, dimension) != self.coordinate(end, dimension)
        })
    }
}
