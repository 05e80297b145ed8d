//! Completion time of a message that is alone, simulated where no closed form exists.
//!
//! Paths of one length count as alike, so each size is simulated once for each length; without switches, paths whose
//! ends are equally far apart in each dimension.

use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_engine::Fabric;
use unrack_engine::events::{Core, Observer, Sim, Unobserved};
use unrack_engine::network::Network;
use unrack_rack::graph::Cube;
use unrack_units::Time;
use unrack_workload::{Computing, ListedMessages, Message, MessageId};

/// Packets of a message up to which it is simulated where a lower bound is known: a longer one takes about as long as
/// that, and would take seconds.
pub(in crate::fabric) const MOST_SIMULATED: u32 = 1 << 14;

/// Completion times known so far, by the bytes of the message.
#[derive(Default)]
pub(in crate::fabric) struct Lone {
    pub known: RefCell<BTreeMap<(Alike, u64), Time>>,
}

impl Lone {
    /// Returns the completion time of a message that is alone. It is simulated on the fabric that `afresh` creates, as
    /// it is before its first message and without faults, unless a message like it has been before.
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

/// Simulates a message alone on a fabric without faults; returns its completion time.
pub(in crate::fabric) fn simulated<F: Fabric, O: Observer>(
    fabric: F,
    network: &Network,
    message: &Message,
    observer: O,
) -> (Time, O) {
    let work = ListedMessages::new(vec![(Time::ZERO, *message)].into(), network.nodes());
    let work = work.expect("a message of this network");
    let (run, _, observer) = Sim::observed(Alone(fabric), work, observer).run();
    // Nothing is in its way; but its own parameters may let it take longer than simulated time.
    (run.outcomes[0].completion().unwrap_or(run.ended), observer)
}

/// Parameters that determine the time, besides bytes: number of links on the path, whether the ends are in one rack,
/// kind, bytes of the request, and where the ends are, as far as that matters.
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

/// Returns where the ends are: with hosts, in their racks, because the first lines of buffers are in the memory of one
/// host; on a torus or mesh, the distance in each dimension, because a message may take several paths; on another graph,
/// both nodes.
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

/// Returns the hops between two nodes in each dimension, as digits of one number.
fn apart(cube: &Cube, [a, b]: [u32; 2]) -> u32 {
    let hops = |dimension| {
        let [a, b] = [a, b].map(|node| cube.coordinate(node, dimension));
        cube.hops(dimension, a, b).into_iter().flatten().min().unwrap_or(0)
    };
    (0..cube.dimensions()).fold(0, |digits, dimension| digits * cube.side(dimension) + hops(dimension))
}

/// Fabric for a single message, without an unloaded time.
struct Alone<F>(F);

impl<F: Fabric> Fabric for Alone<F> {
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
