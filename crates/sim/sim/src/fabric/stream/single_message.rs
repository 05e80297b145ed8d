//! Streams for a message that is alone, to simulate its time where no closed form exists.

use super::drive::Drive;
use super::{Event, Streams};
use unrack_engine::Fabric;
use unrack_engine::events::{Core, Observer};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Streams that carry a single message and do not compute its unloaded time.
pub(super) struct LoneStreams<K: Drive>(pub(super) Streams<K>);

impl<K: Drive> Fabric for LoneStreams<K> {
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
