//! How a torus is turned and moved so that what holds for the way from node 0 to one node holds for another.

use unrack_rack::graph::{Direction, Graph};

/// As many as a graph has dimensions at the most: two ports each, of eight.
const MOST: usize = 8;

/// What is asked of a torus for every link that is moved: by table, for divisions are slow.
#[derive(Debug, Clone)]
pub(super) struct Torus {
    ports: u32,
    axes: Vec<Axis>,
    /// By port.
    directions: Vec<Direction>,
    /// By link: the coordinates of the node where it begins, and its port.
    places: Vec<([u16; MOST], u8)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Axis {
    side: u32,
    stride: u32,
}

/// Of one pair of nodes.
pub(super) struct Turn {
    like: u32,
    /// By dimension: the coordinate of the source, and whether up and down change places.
    axes: [(u32, bool); MOST],
    /// By port at node 0.
    ports: [u8; 8],
}

impl Turn {
    /// The pair is like node 0 and this one.
    pub fn like(&self) -> u32 {
        self.like
    }
}

impl Torus {
    pub fn new(graph: &Graph) -> Option<Torus> {
        let cube = graph.as_cube().filter(|cube| cube.is_torus())?;
        let axis = |dimension| Axis { side: cube.side(dimension), stride: cube.stride(dimension) };
        let place = |link| {
            let mut at = [0; MOST];
            for (dimension, at) in at.iter_mut().enumerate().take(cube.dimensions()) {
                *at = cube.coordinate(graph.from(link), dimension) as u16;
            }
            (at, graph.port(link) as u8)
        };
        Some(Torus {
            ports: graph.links_of(0).len() as u32,
            axes: (0..cube.dimensions()).map(axis).collect(),
            directions: cube.directions().collect(),
            places: (0..graph.links()).map(place).collect(),
        })
    }

    pub fn turn(&self, src: u32, dst: u32) -> Turn {
        let mut turn = Turn { like: 0, axes: [(0, false); MOST], ports: [0; 8] };
        for (Axis { side, stride }, of) in self.axes.iter().zip(&mut turn.axes) {
            let from = src / stride % side;
            let apart = (dst / stride % side + side - from) % side;
            *of = (from, apart > side - apart);
            turn.like += apart.min(side - apart) * stride;
        }
        for (port, Direction { dimension, up }) in self.directions.iter().enumerate() {
            let up = *up != (turn.axes[*dimension].1 && self.axes[*dimension].side > 2);
            let other = self.directions.iter().position(|d| *d == Direction { dimension: *dimension, up });
            turn.ports[port] = other.expect("both ways of a ring have a port") as u8;
        }
        turn
    }

    /// Where a link is moved to.
    pub fn link(&self, turn: &Turn, link: u32) -> u32 {
        let (at, port) = &self.places[link as usize];
        let mut moved = 0;
        for ((Axis { side, stride }, (from, is_flipped)), at) in self.axes.iter().zip(turn.axes).zip(at) {
            let at = if is_flipped { from + side - u32::from(*at) } else { from + u32::from(*at) };
            moved += (if at >= *side { at - side } else { at }) * stride;
        }
        moved * self.ports + u32::from(turn.ports[usize::from(*port)])
    }
}
