//! One part of the network of streams, in a split run.
//!
//! A stream is stored in each part that its packets pass. The part of the sending node uses the sender, and the part of the receiving node
//! uses the receiver. Each part counts the packets that are in it.

use super::StreamPlan;
use super::event::Event;
use super::kind::{Kind, SignalOf};
use super::open::{OpenStreams, Stream, StreamRole};
use super::packet::{Packet, Parcel};
use crate::fabric::parts::NetworkPart;
use unrack_engine::events::{Core, Unobserved};
use unrack_units::Time;
use unrack_workload::MessageId;

impl<K: Kind> OpenStreams<K> {
    pub(super) fn part(&mut self) -> &mut NetworkPart<Parcel<SignalOf<K>>> {
        self.part.as_mut().expect("only parts of a split run are asked for what crossed")
    }

    /// Returns the part that a switch belongs to, or `None` if that is this part.
    pub(super) fn elsewhere(&self, switch: u32) -> Option<u32> {
        self.part.as_ref().and_then(|part| part.elsewhere(switch))
    }

    /// Passes a packet to another part.
    pub(super) fn cross(&mut self, to: u32, at: Time, by: u32, packet: Packet<SignalOf<K>>) {
        let Stream { name, hash, .. } = self[packet.stream];
        self.part().crossed.push((to, Parcel { at, by, name, hash, packet }));
    }

    /// Returns the index of a stream, after one of its packets has come from another part. Creates the stream if it has no index here.
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
            // In the part that receives the answer, the request stays open until the answer has come.
            let role = self.part().place(name - 1).map_or(StreamRole::Data, StreamRole::Answer);
            let back = message.endpoints().reversed();
            let place = self.create(plan, id, back, message.bytes, StreamRole::Answer(0));
            self[place].role = role;
            return place;
        }
        let ends = message.endpoints();
        match message.kind.is_answered() {
            true => self.create(plan, id, ends, u64::from(message.request), StreamRole::Request),
            false => self.create(plan, id, ends, message.bytes, StreamRole::Data),
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
