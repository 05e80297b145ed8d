//! Completion time of a message that is alone in its network, simulated where no closed form exists.
//!
//! Each message size is simulated once for each kind of path. Paths with the same number of links are alike; in a topology without
//! switches, paths are alike if their ends are equally far apart in each dimension.

use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_engine::Fabric;
use unrack_engine::events::{Core, Observer, Sim, Unobserved};
use unrack_engine::network::Network;
use unrack_rack::graph::Cube;
use unrack_units::Time;
use unrack_workload::{Computing, ListedMessages, Message, MessageId};

/// Number of packets up to which a message is simulated although a lower bound is known. A longer message takes about as long as its bound,
/// and its simulation would take seconds.
pub(in crate::fabric) const MOST_SIMULATED: u32 = 1 << 14;

/// Completion times known so far, by message size in bytes.
#[derive(Default)]
pub(in crate::fabric) struct Lone {
    pub known: RefCell<BTreeMap<(Alike, u64), Time>>,
}

impl Lone {
    /// Returns the completion time of a message that is alone. The first message of each size and kind of path is simulated on the fabric
    /// that `afresh` creates, which is in its state before the first message and has no faults. Later messages like it use the stored
    /// result.
    pub(in crate::fabric) fn completion<F: Fabric>(
        &self,
        network: &Network,
        message: &Message,
        afresh: impl FnOnce() -> F,
    ) -> Time {
        let key = (Alike::new(network, message), message.bytes);
        if let Some(time) = self.known.borrow().get(&key) {
            return *time;
        }
        let (time, _) = simulated(afresh(), network, message, Unobserved);
        self.known.borrow_mut().insert(key, time);
        time
    }
}

/// Simulates a message alone on a fabric without faults, and returns its completion time and the observer.
pub(in crate::fabric) fn simulated<F: Fabric, O: Observer>(
    fabric: F,
    network: &Network,
    message: &Message,
    observer: O,
) -> (Time, O) {
    let work = ListedMessages::new(vec![(Time::ZERO, *message)].into(), network.nodes());
    let work = work.expect("a message of this network");
    let (run, _, observer) = Sim::observed(LoneFabric(fabric), work, observer).run();
    // No other message delays this one, but the fabric's parameters may make it take longer than the simulated time.
    (run.outcomes[0].completion().unwrap_or(run.ended), observer)
}

/// Parameters of a message that determine its time alone, in addition to its bytes: the number of links on the path, whether the ends are
/// in one rack, the kind, the bytes of the request, and the positions of the ends as far as they matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::fabric) struct Alike {
    pub links: usize,
    inside: bool,
    kind: u8,
    request: u32,
    places: [u32; 2],
}

impl Alike {
    /// Returns the parameters of a message.
    pub(in crate::fabric) fn new(network: &Network, message: &Message) -> Alike {
        Alike {
            links: network.links(message.src, message.dst).count(),
            inside: network.topology.switch_of(message.src) == network.topology.switch_of(message.dst),
            kind: message.kind as u8,
            request: message.request,
            places: places(network, message),
        }
    }
}

/// Returns the positions of a message's ends, as far as they affect its time. With hosts: their positions in their racks, because the first
/// lines of buffers are in the memory of one host. On a torus or mesh: the distance in each dimension, because a message may take several
/// paths. On another graph: the two nodes.
fn places(network: &Network, message: &Message) -> [u32; 2] {
    let (topology, ends) = (&network.topology, [message.src, message.dst]);
    match topology.graph() {
        Some(graph) => match graph.as_cube().filter(|_| !topology.is_uneven()) {
            Some(cube) => [apart(cube, ends), 0],
            None => ends,
        },
        None if topology.hosts().is_some() => ends.map(|host| host % topology.racks().hosts),
        None => [0; 2],
    }
}

/// Returns the number of hops between two nodes in each dimension, encoded as the digits of one number.
fn apart(cube: &Cube, [a, b]: [u32; 2]) -> u32 {
    let hops = |dimension| {
        let [a, b] = [a, b].map(|node| cube.coordinate(node, dimension));
        cube.hops(dimension, a, b).into_iter().flatten().min().unwrap_or(0)
    };
    (0..cube.dimensions()).fold(0, |digits, dimension| digits * cube.side(dimension) + hops(dimension))
}

/// Fabric that carries a single message and does not compute its unloaded time.
struct LoneFabric<F>(F);

impl<F: Fabric> Fabric for LoneFabric<F> {
    type Event = F::Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<F::Event, O>, id: MessageId) {
        self.0.submit(core, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<F::Event, O>, event: F::Event) {
        self.0.handle(core, event);
    }
    fn compute<O: Observer>(&mut self, core: &mut Core<F::Event, O>, computing: Computing) {
        self.0.compute(core, computing);
    }
    fn unloaded(&self, _: &Message) -> Time {
        Time::ZERO
    }
}
