//! A part of the network, in a run that is split.
//!
//! A stream has a place in each part that its packets pass. The part of the sender uses the sender, and that of the
//! receiver the receiver. Every part counts the packets that it has.

use super::StreamPlan;
use super::event::Event;
use super::kind::{Kind, SignalOf};
use super::open::{OpenStreams, Role, Stream};
use super::packet::{Packet, Parcel};
use crate::fabric::parts::Part;
use unrack_engine::events::{Core, Unobserved};
use unrack_units::Time;
use unrack_workload::MessageId;

impl<K: Kind> OpenStreams<K> {
    pub(super) fn part(&mut self) -> &mut Part<Parcel<SignalOf<K>>> {
        self.part.as_mut().expect("only parts of a split run are asked for what crossed")
    }

    /// Returns the part of a switch, if that is another part.
    pub(super) fn elsewhere(&self, switch: u32) -> Option<u32> {
        self.part.as_ref().and_then(|part| part.elsewhere(switch))
    }

    /// Hands a packet over to another part.
    pub(super) fn cross(&mut self, to: u32, at: Time, by: u32, packet: Packet<SignalOf<K>>) {
        let Stream { name, hash, .. } = self[packet.stream];
        self.part().crossed.push((to, Parcel { at, by, name, hash, packet }));
    }

    /// Returns the place of a stream of which a packet has come from another part.
    pub(super) fn place_of(
        &mut self,
        core: &Core<Event, Unobserved>,
        plan: &StreamPlan,
        name: u32,
        hash: u32,
    ) -> u32 {
        self.part().place(name).unwrap_or_else(|| {
            let place = self.create_by_name(core, plan, name);
            self[place].hash = hash;
            place
        })
    }

    fn create_by_name(&mut self, core: &Core<Event, Unobserved>, plan: &StreamPlan, name: u32) -> u32 {
        let id = MessageId(name / 2);
        let message = core.message(id);
        if name % 2 == 1 {
            // In the part that the answer goes to, the request is open until the answer has come.
            let role = self.part().place(name - 1).map_or(Role::Data, Role::Answer);
            let back = message.endpoints().reversed();
            let place = self.create(plan, id, back, message.bytes, Role::Answer(0));
            self[place].role = role;
            return place;
        }
        let ends = message.endpoints();
        match message.kind.is_answered() {
            true => self.create(plan, id, ends, u64::from(message.request), Role::Request),
            false => self.create(plan, id, ends, message.bytes, Role::Data),
        }
    }

    pub(super) fn under_way(&self, name: u32) -> i32 {
        let place = self.part.as_ref().and_then(|part| part.place(name));
        place.map_or(0, |place| self[place].references)
    }

    pub(super) fn forget(&mut self, name: u32) {
        if let Some(place) = self.part().forget(name) {
            self.release(place);
        }
    }
}
