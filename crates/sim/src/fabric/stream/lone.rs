//! Completion time of a message that is alone, found by carrying it where there is no arithmetic for it.
//!
//! Paths of one length count as alike, so each size is carried once for each length.

use super::{Event, Streams};
use crate::engine::{Core, Observer, Sim};
use crate::fabric::Fabric;
use crate::network::Network;
use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_protocol::tcp::Control;
use unrack_units::Time;
use unrack_workload::{Listed, Message, MessageId};

/// Completion times known so far.
#[derive(Default)]
pub(super) struct Lone {
    known: RefCell<BTreeMap<Key, Time>>,
}

/// Parameters that determine the time: number of links on the path, whether the ends are in one rack, whether there is
/// an answer, the bytes of the message and of the request and, with hosts, the places of the ends in their racks.
type Key = (usize, bool, bool, u64, u32, [u32; 2]);

impl Lone {
    fn key(network: &Network, message: &Message) -> Key {
        let inside = network.topology.switch_of(message.src) == network.topology.switch_of(message.dst);
        let links = network.links(message.src, message.dst).count();
        (links, inside, message.kind.is_answered(), message.bytes, message.request, places(network, message))
    }
}

/// Returns the places of the ends in their racks, with hosts. They matter because the first lines of buffers are in
/// the memory of one host.
pub(in crate::fabric) fn places(network: &Network, message: &Message) -> [u32; 2] {
    let of_rack = network.topology.racks().hosts;
    match network.topology.hosts() {
        Some(_) => [message.src, message.dst].map(|host| host % of_rack),
        None => [0; 2],
    }
}

impl<C: Control + Clone> Streams<C> {
    pub(super) fn carried_alone(&self, message: &Message) -> Time {
        let network = &self.plan.network;
        let key = Lone::key(network, message);
        if let Some(time) = self.lone.known.borrow().get(&key) {
            return *time;
        }
        let work = Listed::new(vec![(Time::ZERO, *message)].into(), network.nodes());
        let (run, ..) = Sim::new(Alone(self.afresh()), work.expect("a message of this network")).run();
        let time = run.outcomes[0].completion().expect("nothing is in its way");
        self.lone.known.borrow_mut().insert(key, time);
        time
    }
}

/// Streams for a single message, without an unloaded time.
struct Alone<C>(Streams<C>);

impl<C: Control + Clone> Fabric for Alone<C> {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        self.0.submit(core, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        self.0.handle(core, event);
    }
    fn unloaded(&self, _: &Message) -> Time {
        Time::ZERO
    }
}
