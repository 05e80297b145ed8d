//! One part of the packet network, in a split run.
//!
//! A transfer with its two ends is stored in each part that its packets pass. The part of the sender uses only the sending end, and the
//! part of the receiver only the receiving end. Each part counts the packets that are in it.

use super::headroom::FRAME;
use super::{Event, Net, Packet, PacketNetwork, Queue, TransferRole, Transport, Wires};
use crate::fabric::parts::NetworkPart;
use std::sync::Arc;
use unrack_engine::Largest;
use unrack_engine::events::{Core, Unobserved};
use unrack_units::Time;
use unrack_workload::MessageId;

/// Packet or pause that has crossed to another part, with the time at which it is due in that part.
pub struct Parcel<H> {
    at: Time,
    what: ParcelContent<H>,
}

enum ParcelContent<H> {
    /// Packet of the transfer with this name. It came from port `by`.
    Packet { by: u32, name: u32, packet: Packet<H> },
    /// Request to the sender of this link to pause, or to resume.
    Pause { link: u32, pause: bool },
}

impl<T: Transport> Wires<T> {
    /// Records the index of a transfer in this part.
    pub(super) fn keep(&mut self, transfer: u32) {
        if let Some(part) = &mut self.part {
            part.keep(self.transfers[transfer].name, transfer);
        }
    }

    /// Returns the part that a switch belongs to, or `None` if that is this part.
    pub(super) fn elsewhere(&self, switch: u32) -> Option<u32> {
        self.part.as_ref().and_then(|part| part.elsewhere(switch))
    }

    fn hand_over(&mut self, to: u32, at: Time, what: ParcelContent<T::Header>) {
        if let Some(part) = &mut self.part {
            part.crossed.push((to, Parcel { at, what }));
        }
    }

    /// Passes a packet to another part.
    pub(super) fn cross(&mut self, to: u32, at: Time, by: u32, index: u32) {
        let packet = self.packets[index];
        self.packets.release(index);
        let name = self.transfers[packet.transfer].name;
        self.transfers.drop_reference(packet.transfer);
        self.hand_over(to, at, ParcelContent::Packet { by, name, packet });
    }

    pub(super) fn cross_pause(&mut self, to: u32, at: Time, link: u32, pause: bool) {
        self.hand_over(to, at, ParcelContent::Pause { link, pause });
    }

    fn place(&self, name: u32) -> Option<u32> {
        self.part.as_ref().and_then(|part| part.place(name))
    }
}

impl<T: Transport> PacketNetwork<T> {
    /// Returns the largest message: see [`Fabric::largest`](crate::Fabric::largest).
    pub fn largest(&self) -> Largest {
        self.wires.plan.largest()
    }

    /// Returns the lookahead: see [`Fabric::lookahead`](crate::Fabric::lookahead).
    pub fn lookahead(&self) -> Time {
        let plan = &self.wires.plan;
        let link = plan.network.topology.core_link();
        match plan.lookahead() {
            _ if !T::SPLITS => Time::ZERO,
            // A pause frame takes effect on arrival, without the latency of a switch.
            packets if T::Queue::PAUSES => packets.min(link.propagation + link.pace.transmit(FRAME)),
            packets => packets,
        }
    }

    /// Becomes part `me` of a split run: see [`Split`](unrack_engine::events::Split).
    pub fn become_part(&mut self, me: u32, part_of: Arc<[u32]>) {
        self.wires.part = Some(Box::new(NetworkPart::new(me, part_of)));
        self.wires.transfers.closed = Some(Vec::new());
    }

    fn part(&mut self) -> &mut NetworkPart<Parcel<T::Header>> {
        self.wires.part.as_mut().expect("only parts of a split run are asked")
    }

    /// Returns the items that have crossed to other parts: see [`Split`](unrack_engine::events::Split).
    pub fn crossed(&mut self) -> &mut Vec<(u32, Parcel<T::Header>)> {
        &mut self.part().crossed
    }

    /// Returns the names of the transfers that were closed: see [`Split`](unrack_engine::events::Split).
    pub fn closed(&mut self) -> &mut Vec<u32> {
        self.wires.transfers.closed.as_mut().expect("only parts of a split run are asked")
    }

    /// Takes an item that came from another part: see [`Split`](unrack_engine::events::Split).
    pub fn take(
        &mut self,
        core: &mut Core<Event<T::Timer>, Unobserved>,
        Parcel { at, what }: Parcel<T::Header>,
    ) {
        match what {
            ParcelContent::Pause { link, pause } => core.schedule(at, Event::Pause { link, pause }),
            ParcelContent::Packet { by, name, packet } => {
                let transfer = match self.wires.place(name) {
                    Some(transfer) => transfer,
                    None => self.create_named(core, name),
                };
                self.wires.transfers[transfer].references += 1;
                let packet = self.wires.packets.insert(Packet { transfer, ..packet });
                core.schedule(at, Event::AtSwitch { packet, by });
            }
        }
    }

    fn create_named(&mut self, core: &mut Core<Event<T::Timer>, Unobserved>, name: u32) -> u32 {
        let id = MessageId(name / 2);
        let message = *core.message(id);
        let (ends, bytes, role) = match (name % 2 == 1, message.kind.is_answered()) {
            (true, _) => (message.endpoints().reversed(), message.bytes, TransferRole::Answer(0)),
            (false, true) => (message.endpoints(), u64::from(message.request), TransferRole::Request),
            (false, false) => (message.endpoints(), message.bytes, TransferRole::Data),
        };
        let segments = self.wires.plan.framing.segments(bytes);
        let transfer = self.wires.transfers.open(id, ends, (bytes, segments), role, None);
        if let TransferRole::Answer(_) = role {
            // In the part that receives the answer, the request stays open until the answer has come.
            let request = self.wires.place(name - 1);
            self.wires.transfers[transfer].role = request.map_or(TransferRole::Data, TransferRole::Answer);
        }
        self.wires.keep(transfer);
        self.transport.create(&mut Net { core, wires: &mut self.wires }, transfer);
        transfer
    }

    /// Returns the number of references to a transfer: see [`Split`](unrack_engine::events::Split).
    pub fn under_way(&self, name: u32) -> i32 {
        self.wires.place(name).map_or(0, |transfer| self.wires.transfers[transfer].references)
    }

    /// Forgets a transfer: see [`Split`](unrack_engine::events::Split).
    pub fn forget(&mut self, name: u32) {
        if let Some(transfer) = self.part().forget(name) {
            self.wires.transfers.forget(transfer);
        }
    }
}
