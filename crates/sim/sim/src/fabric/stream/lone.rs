//! Streams of a message that is alone, simulated where there is no arithmetic for it.

use super::kind::Kind;
use super::{Event, Streams};
use crate::fabric::lone::simulated;
use unrack_engine::Fabric;
use unrack_engine::events::{Core, Observer};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

impl<K: Kind> Streams<K> {
    /// Returns the completion time of a message that is alone; it is simulated if none like it has been.
    pub(in crate::fabric) fn carried_alone(&self, message: &Message) -> Time {
        self.lone.completion(&self.plan.network, message, || Alone(self.afresh()))
    }

    /// Simulates a message alone, without faults; returns its completion time.
    pub(in crate::fabric) fn carry_alone<O: Observer>(&self, message: &Message, observer: O) -> (Time, O) {
        simulated(Alone(self.afresh()), &self.plan.network, message, observer)
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
