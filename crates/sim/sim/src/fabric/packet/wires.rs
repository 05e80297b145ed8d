//! The path of a packet: from the link of a node through switch ports to its destination.

use super::{Event, FROM_NODE, Loss, OUTSIDE, Packet, Queue, TransferRole, Transport, Wires};
use crate::fabric::stream::flow_hash;
use unrack_engine::events::{Core, LinkId, Mechanism, Observer};
use unrack_engine::network::Departure;
use unrack_engine::topology::LinkEnd;
use unrack_units::Time;
use unrack_workload::{Endpoints, MessageId, NodeId};

impl<T: Transport> Wires<T> {
    pub(super) fn open(
        &mut self,
        id: MessageId,
        ends: Endpoints,
        bytes: u64,
        role: TransferRole,
        answers: Option<u32>,
    ) {
        let segments = self.plan.framing.segments(bytes);
        let transfer = self.transfers.open(id, ends, (bytes, segments), role, answers);
        self.keep(transfer);
        self.opened.push(transfer);
    }

    /// Sends a packet on the link of a node. The link must be free.
    pub(super) fn put<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        from: NodeId,
        mut packet: Packet<T::Header>,
    ) {
        let host = &mut self.hosts[from as usize];
        packet.hash = match T::SPRAYS {
            true => {
                host.sprayed = host.sprayed.wrapping_add(1);
                host.sprayed
            }
            false => flow_hash(self.transfers[packet.transfer].name),
        };
        let topology = &self.plan.network.topology;
        let link = topology.host_link();
        let first = core.now();
        let is_outside = packet.to == OUTSIDE;
        if !is_outside {
            packet.port = topology.route_at(topology.switch_of(from), packet.to, packet.hash, first);
        }
        let last = first + link.pace.transmit(u64::from(packet.wire));
        host.free_at = last;
        core.sent(u64::from(packet.payload));
        packet.ready = first;
        packet.came_by = from;
        let departure = Departure { first, last };
        let at = match is_outside {
            true => last + self.way_outside,
            false => self.ready(departure, &packet) + link.propagation,
        };
        core.hop(LinkId::Host(from), last - first, || self.seen(&packet, LinkId::Host(from), departure, at));
        let is_lost = core.met_fault(topology.loses(LinkId::Host(from), departure));
        let index = self.packets.insert(packet);
        match is_lost {
            true => self.lose(core, Loss { packet: index, bytes: packet.payload, whole: true }),
            false if is_outside => core.schedule(at, Event::AtOutside(index)),
            false => core.schedule(at, Event::AtSwitch { packet: index, by: FROM_NODE }),
        }
    }

    /// Returns when a packet with this departure can be queued at the next port, not counting propagation.
    pub(super) fn ready(&self, departure: Departure, packet: &Packet<T::Header>) -> Time {
        self.plan.ready(departure, packet.wire, self.ports[packet.port as usize].pace)
    }

    pub(super) fn forward<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, index: u32) {
        let packet = &mut self.packets[index];
        packet.ready = core.now();
        let number = packet.port;
        let port = &mut self.ports[number as usize];
        let idle = port.free_at <= core.now() && port.queue.is_empty() && port.queue.passes(packet.rank);
        if packet.payload > 0 {
            let under_way = || port.pace.bytes_in(port.free_at.saturating_sub(core.now()));
            let ahead = if idle { 0 } else { under_way() + port.queue.bytes() };
            core.queued(number, ahead);
            if port.queue.marks(number, ahead) {
                packet.marked = true;
                core.acted(Mechanism::Mark);
            }
        }
        if idle {
            return self.depart(core, number, index);
        }
        if T::Queue::PAUSES {
            let packet = *packet;
            if !self.hold(core, &packet) {
                return self.lose(core, Loss { packet: index, bytes: packet.payload, whole: true });
            }
        }
        let port = &mut self.ports[number as usize];
        match &mut self.pools {
            None => port.queue.offer(index, &mut self.packets, &mut self.losses, self.room),
            Some(pools) => {
                let (before, room) = (port.queue.bytes(), pools.room(port.switch));
                port.queue.offer(index, &mut self.packets, &mut self.losses, room);
                pools.changed(port.switch, before, port.queue.bytes());
            }
        }
        if !port.draining && !port.queue.is_empty() {
            port.draining = true;
            core.schedule(port.free_at, Event::PortFree(number));
        }
        while let Some(loss) = self.losses.pop() {
            if loss.whole {
                core.acted(Mechanism::FullBuffer);
            }
            self.lose(core, loss);
        }
    }

    /// Sends a packet from a free port.
    pub(super) fn depart<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        number: u32,
        index: u32,
    ) {
        let port = &mut self.ports[number as usize];
        let packet = &mut self.packets[index];
        if T::Queue::PAUSES {
            packet.came_by = self.hosts.len() as u32 + number;
        }
        let first = core.now();
        let last = first + port.pace.transmit(u64::from(packet.wire));
        port.free_at = last;
        let (propagation, end, departure) = (port.propagation, port.end, Departure { first, last });
        let (at, event) = match end {
            LinkEnd::Node(_) => (last + propagation, Event::AtNode(index)),
            LinkEnd::Switch(switch) => {
                let topology = &self.plan.network.topology;
                packet.port = topology.route_at(switch, packet.to, packet.hash, first);
                let at = self.ready(departure, &self.packets[index]) + propagation;
                (at, Event::AtSwitch { packet: index, by: number })
            }
        };
        core.hop(LinkId::Port(number), last - first, || {
            self.seen(&self.packets[index], LinkId::Port(number), departure, at)
        });
        let bytes = self.packets[index].payload;
        if core.met_fault(self.plan.network.topology.loses(LinkId::Port(number), departure)) {
            self.lose(core, Loss { packet: index, bytes, whole: true });
        } else if let LinkEnd::Switch(switch) = end
            && let Some(part) = self.elsewhere(switch)
        {
            self.cross(part, at, number, index);
        } else {
            core.schedule(at, event);
        }
    }

    pub(super) fn drain<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, number: u32) {
        let port = &mut self.ports[number as usize];
        if port.free_at > core.now() {
            // A pause frame has used the port since this event was scheduled.
            return core.schedule(port.free_at, Event::PortFree(number));
        }
        port.draining = false;
        let before = port.queue.bytes();
        let Some(index) = port.queue.take(&self.packets) else { return };
        if let Some(pools) = &mut self.pools {
            pools.changed(port.switch, before, port.queue.bytes());
        }
        if T::Queue::PAUSES {
            let packet = self.packets[index];
            self.let_go(core, &packet);
        }
        self.depart(core, number, index);
        let port = &mut self.ports[number as usize];
        if !port.queue.is_empty() {
            port.draining = true;
            core.schedule(port.free_at, Event::PortFree(number));
        }
    }

    pub(super) fn lose<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, loss: Loss) {
        let transfer = self.packets[loss.packet].transfer;
        if T::HEARS_OF_LOSSES && loss.whole {
            self.lost.push(self.packets[loss.packet].header);
        }
        let message = self.transfers[transfer].message;
        let looks = || self.looks(&self.packets[loss.packet]);
        if !loss.whole {
            return core.trimmed(message, u64::from(loss.bytes), looks);
        }
        core.dropped(message, u64::from(loss.bytes), looks);
        self.packets.release(loss.packet);
        self.transfers.drop_reference(transfer);
    }
}
