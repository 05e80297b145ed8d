//! Completion time of a message that is alone, found by carrying it where there is no arithmetic for it.
//!
//! Paths of one length count as alike, so each size is carried once for each length.

use super::kind::Kind;
use super::{Event, Streams};
use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_engine::Fabric;
use unrack_engine::events::{Core, Observer, Sim, Unobserved};
use unrack_engine::network::Network;
use unrack_units::Time;
use unrack_workload::{ListedMessages, Message, MessageId};

/// Completion times known so far, by the bytes of the message.
#[derive(Default)]
pub(in crate::fabric) struct Lone {
    pub known: RefCell<BTreeMap<(Alike, u64), Time>>,
}

/// Parameters that determine the time, besides bytes: number of links on the path, whether the ends are in one rack,
/// whether there is an answer, the bytes of the request and, with hosts, the places of the ends in their racks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::fabric) struct Alike {
    pub links: usize,
    inside: bool,
    answered: bool,
    request: u32,
    places: [u32; 2],
}

impl Alike {
    /// Returns the parameters of a message.
    pub(in crate::fabric) fn new(network: &Network, message: &Message) -> Alike {
        Alike {
            links: network.links(message.src, message.dst).count(),
            inside: network.topology.switch_of(message.src) == network.topology.switch_of(message.dst),
            answered: message.kind.is_answered(),
            request: message.request,
            places: places(network, message),
        }
    }
}

/// Returns the places of the ends in their racks, with hosts. They matter because the first lines of buffers are in
/// the memory of one host.
fn places(network: &Network, message: &Message) -> [u32; 2] {
    let of_rack = network.topology.racks().hosts;
    match network.topology.hosts() {
        Some(_) => [message.src, message.dst].map(|host| host % of_rack),
        None => [0; 2],
    }
}

impl<K: Kind> Streams<K> {
    /// Returns the completion time of a message that is alone; it is carried if none like it has been.
    pub(in crate::fabric) fn carried_alone(&self, message: &Message) -> Time {
        let key = (Alike::new(&self.plan.network, message), message.bytes);
        if let Some(time) = self.lone.known.borrow().get(&key) {
            return *time;
        }
        let (time, _) = self.carry_alone(message, Unobserved);
        self.lone.known.borrow_mut().insert(key, time);
        time
    }

    /// Carries a message alone, without faults; returns its completion time.
    pub(in crate::fabric) fn carry_alone<O: Observer>(&self, message: &Message, observer: O) -> (Time, O) {
        let work = ListedMessages::new(vec![(Time::ZERO, *message)].into(), self.plan.network.nodes());
        let work = work.expect("a message of this network");
        let (run, _, observer) = Sim::observed(Alone(self.afresh()), work, observer).run();
        (run.outcomes[0].completion().expect("nothing is in its way"), observer)
    }
}

/// Streams for a single message, without an unloaded time.
struct Alone<K: Kind>(Streams<K>);

impl<K: Kind> Fabric for Alone<K> {
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
