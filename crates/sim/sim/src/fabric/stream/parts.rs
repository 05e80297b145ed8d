//! A part of the network, in a run that is split.
//!
//! A stream has a place in each part that its packets pass. The part of the sender uses the sender, and that of the
//! receiver the receiver. Every part counts the packets that it has.

use super::kind::{Kind, SignalOf};
use super::packet::Packet;
use super::{Event, Role, Stream, Streams};
use crate::fabric::parts::Part;
use std::sync::Arc;
use unrack_engine::events::{Core, Unobserved};
use unrack_units::Time;
use unrack_workload::MessageId;

/// Packet that has crossed to another part: the time at which it is ready there, the port that it came from, its
/// stream, and the stream's hash.
pub struct Parcel<S = ()> {
    at: Time,
    by: u32,
    name: u32,
    hash: u32,
    packet: Packet<S>,
}

impl<K: Kind> Streams<K> {
    pub(in crate::fabric) fn become_part(&mut self, me: u32, part_of: Arc<[u32]>) {
        self.part = Some(Box::new(Part::new(me, part_of)));
    }

    pub(in crate::fabric) fn part(&mut self) -> &mut Part<Parcel<SignalOf<K>>> {
        self.part.as_mut().expect("only parts of a split run are asked for what crossed")
    }

    /// Returns the part of a switch, if that is another part.
    pub(super) fn elsewhere(&self, switch: u32) -> Option<u32> {
        self.part.as_ref().and_then(|part| part.elsewhere(switch))
    }

    /// Hands a packet over to another part.
    pub(super) fn cross(&mut self, to: u32, at: Time, by: u32, index: u32) {
        let packet = self.packets[index];
        let Stream { name, hash, .. } = self.streams[packet.stream];
        self.part().crossed.push((to, Parcel { at, by, name, hash, packet }));
        self.finish_packet(index);
    }

    pub(in crate::fabric) fn take(
        &mut self,
        core: &mut Core<Event, Unobserved>,
        parcel: Parcel<SignalOf<K>>,
    ) {
        let Parcel { at, by, name, hash, packet } = parcel;
        let stream = match self.part().place(name) {
            Some(stream) => stream,
            None => self.create_named(core, name, hash),
        };
        self.streams[stream].references += 1;
        let packet = self.packets.insert(Packet { stream, ..packet });
        core.schedule(at, Event::AtSwitch { packet, by });
    }

    fn create_named(&mut self, core: &Core<Event, Unobserved>, name: u32, hash: u32) -> u32 {
        let place = self.create_by_name(core, name);
        self.streams[place].hash = hash;
        place
    }

    fn create_by_name(&mut self, core: &Core<Event, Unobserved>, name: u32) -> u32 {
        let id = MessageId(name / 2);
        let message = core.message(id);
        if name % 2 == 1 {
            // In the part that the answer goes to, the request is open until the answer has come.
            let role = self.part().place(name - 1).map_or(Role::Data, Role::Answer);
            let back = message.endpoints().reversed();
            let place = self.create(id, back, message.bytes, Role::Answer(0));
            self.streams[place].role = role;
            return place;
        }
        let ends = message.endpoints();
        match message.kind.is_answered() {
            true => self.create(id, ends, u64::from(message.request), Role::Request),
            false => self.create(id, ends, message.bytes, Role::Data),
        }
    }

    pub(in crate::fabric) fn under_way(&self, name: u32) -> i32 {
        let place = self.part.as_ref().and_then(|part| part.place(name));
        place.map_or(0, |place| self.streams[place].references)
    }

    pub(in crate::fabric) fn forget(&mut self, name: u32) {
        if let Some(place) = self.part().forget(name) {
            self.release(place);
        }
    }
}
