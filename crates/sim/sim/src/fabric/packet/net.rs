//! Interface by which a transport uses the network.

use super::{Event, FROM_NODE, Packet, Transfer, TransferRole, Transport, Wires};
use crate::fabric::stream::StreamPlan;
use crate::fabric::timers::{Alarm, Needs, TransferSide};
use unrack_engine as engine;
use unrack_engine::PacketSize;
use unrack_engine::events::{Core, Observer, PacketKind, WaitReason};
use unrack_units::Time;
use unrack_workload::{Endpoints, NodeId};

/// Network as a transport uses it.
pub struct Net<'a, T: Transport, O> {
    pub(super) core: &'a mut Core<Event<T::Timer>, O>,
    pub(super) wires: &'a mut Wires<T>,
}

impl<T: Transport, O: Observer> Net<'_, T, O> {
    /// Returns the present simulated time.
    pub fn now(&self) -> Time {
        self.core.now()
    }

    /// Returns a transfer by its number.
    pub fn transfer(&self, transfer: u32) -> &Transfer {
        &self.wires.transfers[transfer]
    }

    /// Returns the salt of the random draws that this end of a transfer makes.
    pub fn salt(&self, transfer: u32, side: TransferSide) -> u32 {
        self.wires.plan.salt(self.transfer(transfer).name, side)
    }

    /// Returns the plan of the network.
    pub fn plan(&self) -> &StreamPlan {
        &self.wires.plan
    }

    /// Returns the size of segment `number` of a transfer.
    pub fn segment(&self, transfer: u32, number: u32) -> PacketSize {
        let framing = &self.wires.plan.framing;
        let payload = framing.payload(self.wires.transfers[transfer].bytes, number);
        PacketSize { wire: framing.wire(payload).get() as u32, payload: payload as u32 }
    }

    /// Returns the size of a packet without payload.
    pub fn bare(&self) -> PacketSize {
        PacketSize { wire: self.wires.plan.framing.wire(0).get() as u32, payload: 0 }
    }

    /// Records that the node may have something to send.
    pub fn wake(&mut self, node: NodeId) {
        self.wires.woken.push(node);
    }

    /// Sends a packet from `node` before all packets that the transport returns when it is polled.
    pub fn send_first(&mut self, node: NodeId, packet: Packet<T::Header>) {
        self.wires.transfers[packet.transfer].references += 1;
        self.wires.hosts[node as usize].control.push_back(packet);
        self.wake(node);
    }

    /// Reports that from now on `wait` keeps the transfer from sending. The closure `wait` is called only if the run has an observer.
    pub fn waits(&mut self, transfer: u32, wait: impl FnOnce() -> WaitReason) {
        if O::HOPS {
            self.core.waits(self.wires.transfers[transfer].message, wait);
        }
    }

    /// Reports that this transfer lost a packet of this kind, about this segment. To be used if the packet itself was counted as a packet
    /// of another transfer.
    pub fn lost(&mut self, transfer: u32, kind: PacketKind, segment: u32) {
        if O::HOPS {
            let Transfer { message, src, dst, .. } = self.wires.transfers[transfer];
            let offset = Some(self.wires.offset(transfer, segment));
            self.core.lost(message, || engine::ObservedPacket {
                offset,
                ..engine::ObservedPacket::new(kind, src, dst)
            });
        }
    }

    /// Schedules the arrival of a packet from [`OUTSIDE`](super::OUTSIDE) at the switch port of its destination.
    pub fn send_from_outside(&mut self, at: Time, mut packet: Packet<T::Header>) {
        let topology = &self.wires.plan.network.topology;
        packet.port = topology.route(topology.switch_of(packet.to), packet.to, 0);
        self.wires.transfers[packet.transfer].references += 1;
        let packet = self.wires.packets.insert(packet);
        self.core.schedule(at, Event::AtSwitch { packet, by: FROM_NODE });
    }

    /// Schedules a timer of the transport.
    pub fn schedule(&mut self, at: Time, timer: T::Timer) {
        self.core.schedule(at, Event::Transport(timer));
    }

    /// Sets an alarm for this end of a transfer. The alarm is ignored if the transfer has ended by then. Nearly all alarms should be set
    /// the same time ahead, because such alarms need no separate event.
    pub(super) fn set_alarm(&mut self, at: Time, transfer: u32, side: TransferSide) {
        // A deadline that moved to an earlier time may have passed already.
        let at = at.max(self.now());
        let place = &mut self.wires.transfers[transfer];
        if at >= place.alarms[side as usize] {
            return;
        }
        place.alarms[side as usize] = at;
        let alarm = Alarm { owner: transfer, serial: place.serial, side };
        let node = if side == TransferSide::Sender { place.src } else { place.dst };
        let switch = self.wires.plan.network.topology.switch_of(node);
        match self.wires.alarms[switch as usize].set(at, alarm) {
            Needs::Nothing => {}
            Needs::QueueEvent => self.core.schedule(at, Event::Alarms(switch)),
            Needs::OwnEvent => self.core.schedule(at, Event::Alarm(alarm)),
        }
    }

    /// Records that the last byte of a transfer has arrived. Returns whether the receiver must acknowledge it: not if it is a request,
    /// because the answer acknowledges a request.
    pub fn delivered(&mut self, transfer: u32) -> bool {
        let place = &mut self.wires.transfers[transfer];
        debug_assert!(!place.delivered);
        place.delivered = true;
        let (message, role) = (place.message, place.role);
        if role != TransferRole::Request {
            self.core.complete(message);
            return true;
        }
        let back = Endpoints { src: place.dst, dst: place.src };
        let bytes = self.core.message(message).bytes;
        self.wires.open(message, back, bytes, TransferRole::Answer(transfer), Some(transfer));
        false
    }

    /// Keeps a transfer and its number until [`Net::release`] has been called once for each call of this function.
    pub fn hold(&mut self, transfer: u32) {
        self.wires.transfers[transfer].references += 1;
    }

    /// Ends one [`Net::hold`] of a transfer.
    pub fn release(&mut self, transfer: u32) {
        self.wires.transfers.drop_reference(transfer);
    }

    /// Records that the sender of a transfer has finished.
    pub fn close(&mut self, transfer: u32) {
        self.wires.transfers.close(transfer);
    }

    /// Stops sending a transfer. Its message counts as lost, unless it has arrived.
    pub fn give_up(&mut self, transfer: u32) {
        self.core.give_up(self.wires.transfers[transfer].message);
        self.close(transfer);
    }

    /// Stops waiting for a transfer that its receiver holds: see [`Net::hold`].
    pub fn give_up_receiving(&mut self, transfer: u32) {
        self.core.give_up(self.wires.transfers[transfer].message);
        self.release(transfer);
    }

    /// Counts a retransmission of a transfer.
    pub fn retransmitted(&mut self, transfer: u32) {
        self.core.retransmitted(self.wires.transfers[transfer].message);
    }
}
