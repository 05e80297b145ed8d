//! Links by which nodes send, switch ports, and the packets on their way through them.

use super::StreamPlan;
use super::event::{Event, FROM_NODE};
use super::kind::{Kind, SignalOf};
use super::nic::{HostNic, QUANTUM};
use super::open::OpenStreams;
use super::packet::{Body, Packet};
use super::seen::looks;
use crate::fabric::buffer::QueueRoom;
use crate::fabric::occupancy::Occupancy;
use crate::fabric::slab::Slab;
use unrack_engine::events::{Core, Hop, LinkId, Mechanism, Observer};
use unrack_engine::network::{Departure, Pace, Port};
use unrack_engine::topology::LinkEnd;
use unrack_units::{Bytes, Rate, Time};

/// A switch port and the link behind it.
struct SwitchPort {
    port: Port,
    pace: Pace,
    propagation: Time,
    end: LinkEnd,
    /// Number of bytes in the queue above which an arriving data packet is marked.
    threshold: u64,
}

/// State of all links and ports.
pub(in crate::fabric) struct Wires<K: Kind> {
    /// Links by which nodes send.
    nics: Vec<HostNic>,
    /// Queue length of such a link, in bytes, at which subflows have to take turns.
    nic_limit: u64,
    ports: Vec<SwitchPort>,
    /// Waiting bytes of switches that share their buffers; `None` if each port has a separate buffer.
    pub(in crate::fabric) occupancy: Option<Box<Occupancy>>,
    /// Buffer of each port, if the ports of a switch do not share one.
    pub(in crate::fabric) room: QueueRoom,
    packets: Slab<Packet<SignalOf<K>>>,
}

/// Outcome for a packet at a switch port.
#[derive(Debug, Clone, Copy)]
pub(super) enum SwitchFate {
    /// The next event of the packet is scheduled.
    On,
    Lost,
    /// The packet crosses to another part of the network. It comes from port `by`, and is due there at time `at`.
    Elsewhere {
        part: u32,
        at: Time,
        by: u32,
    },
}

impl<K: Kind> Wires<K> {
    /// Creates the links and ports of a network. `threshold` returns the number of waiting bytes above which a port of this rate marks data
    /// packets.
    pub(super) fn new(plan: &StreamPlan, threshold: impl Fn(Rate) -> Bytes) -> Wires<K> {
        let topology = &plan.network.topology;
        let port = |port| {
            let (link, end) = (topology.link(port), topology.end(port));
            let (pace, propagation) = (link.pace, link.propagation);
            let threshold = threshold(pace.rate()).get();
            SwitchPort { port: Port::new(pace), pace, propagation, end, threshold }
        };
        let nic = |link| HostNic::new(topology.attachment_link(link).pace);
        Wires {
            nics: (0..topology.attachments()).map(nic).collect(),
            nic_limit: u64::from(QUANTUM) * plan.full_packet().get(),
            ports: (0..topology.ports()).map(port).collect(),
            occupancy: Occupancy::new(plan.buffer, topology).map(Box::new),
            room: QueueRoom::Own(plan.buffer.of_port().get()),
            packets: Slab::new(),
        }
    }

    /// Copies the marking thresholds of other wires on the same network.
    pub(super) fn with_thresholds_of(mut self, other: &Wires<K>) -> Wires<K> {
        for (port, other) in self.ports.iter_mut().zip(&other.ports) {
            port.threshold = other.threshold;
        }
        self
    }

    /// Returns whether no packet is in flight.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.packets.used() == 0
    }

    pub(super) fn nic(&mut self, nic: u32) -> &mut HostNic {
        &mut self.nics[nic as usize]
    }

    /// Returns whether a stream may send by this link at once, without waiting for its turn.
    pub(super) fn is_open(&self, nic: u32, now: Time) -> bool {
        self.nics[nic as usize].is_open(now, self.nic_limit)
    }

    pub(super) fn packet(&self, index: u32) -> &Packet<SignalOf<K>> {
        &self.packets[index]
    }

    pub(super) fn insert(&mut self, packet: Packet<SignalOf<K>>) -> u32 {
        self.packets.insert(packet)
    }

    pub(super) fn release(&mut self, index: u32) {
        self.packets.release(index);
    }

    /// Returns the device behind the last port that a packet passed.
    pub(super) fn end_of(&self, index: u32) -> LinkEnd {
        self.ports[self.packets[index].port as usize].end
    }

    /// Queues a packet at a link by which nodes send. Returns its departure, and whether the packet is lost on the link.
    pub(super) fn launch<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        plan: &StreamPlan,
        open: &OpenStreams<K>,
        nic: u32,
        index: u32,
    ) -> (Departure, bool) {
        let topology = &plan.network.topology;
        let link = LinkId::Host(nic);
        let packet = &mut self.packets[index];
        packet.port = topology.route_at(topology.switch_at(nic), packet.to, packet.hash, core.now());
        let packet = self.packets[index];
        let departure = self.nics[nic as usize].enqueue(core.now(), u64::from(packet.wire));
        let at = self.ready(plan, departure, &packet) + topology.propagation(link);
        let now = core.now();
        core.hop(link, departure.last - departure.first, || {
            let propagation = topology.propagation(link);
            seen(&packet, open, plan, (link, propagation, true), now, departure, at)
        });
        let is_lost = core.met_fault(topology.loses(link, departure));
        if !is_lost {
            core.schedule(at, Event::AtSwitch { packet: index, by: FROM_NODE });
        }
        (departure, is_lost)
    }

    /// Returns when a packet with this departure can be queued at the next port, not counting propagation.
    fn ready(&self, plan: &StreamPlan, departure: Departure, packet: &Packet<SignalOf<K>>) -> Time {
        plan.ready(departure, packet.wire, self.ports[packet.port as usize].pace)
    }

    /// Queues a packet at its switch port, or drops it if there is no room.
    pub(super) fn forward<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        plan: &StreamPlan,
        open: &OpenStreams<K>,
        index: u32,
    ) -> SwitchFate {
        let packet = &mut self.packets[index];
        let by = packet.port;
        let port = &mut self.ports[by as usize];
        let ahead = port.port.backlog(core.now());
        if matches!(packet.body, Body::Data(_)) {
            core.queued(packet.port, ahead);
            // DCTCP §3.1: mark a packet that arrives at a queue longer than K.
            if ahead > port.threshold {
                packet.marked = true;
                core.acted(Mechanism::Mark);
            }
        }
        let room = match &mut self.occupancy {
            None => self.room,
            Some(occupancy) => occupancy.room(by, core.now()),
        };
        if !room.takes(ahead, packet.wire) {
            core.acted(Mechanism::FullBuffer);
            return SwitchFate::Lost;
        }
        let departure = port.port.enqueue(core.now(), u64::from(packet.wire));
        if let Some(occupancy) = &mut self.occupancy {
            occupancy.queued(by, core.now(), departure.last);
        }
        let (propagation, end, link) = (port.propagation, port.end, LinkId::Port(packet.port));
        let topology = &plan.network.topology;
        let (at, event) = match end {
            LinkEnd::Node(_) => (departure.last + propagation, Event::AtNode(index)),
            LinkEnd::Switch(switch) => {
                packet.port = topology.route_at(switch, packet.to, packet.hash, core.now());
                let at = self.ready(plan, departure, &self.packets[index]) + propagation;
                (at, Event::AtSwitch { packet: index, by: if K::SPLITS { by } else { FROM_NODE } })
            }
        };
        let now = core.now();
        core.hop(link, departure.last - departure.first, || {
            let to_switch = matches!(end, LinkEnd::Switch(_));
            seen(&self.packets[index], open, plan, (link, propagation, to_switch), now, departure, at)
        });
        if core.met_fault(topology.loses(link, departure)) {
            return SwitchFate::Lost;
        }
        if let LinkEnd::Switch(switch) = end
            && let Some(part) = open.elsewhere(switch)
        {
            return SwitchFate::Elsewhere { part, at, by };
        }
        core.schedule(at, event);
        SwitchFate::On
    }
}

/// Describes the passage of a packet over a link: when it joined the queue (`ready`), leaves, and can be forwarded (`onward`). The tuple
/// holds the link, its propagation, and whether it leads to a switch.
fn seen<K: Kind>(
    packet: &Packet<SignalOf<K>>,
    open: &OpenStreams<K>,
    plan: &StreamPlan,
    (link, propagation, to_switch): (LinkId, Time, bool),
    ready: Time,
    Departure { first, last }: Departure,
    onward: Time,
) -> Hop {
    let device = if to_switch { plan.network.switch_latency } else { Time::ZERO };
    Hop {
        link,
        message: Some(open[packet.stream].id),
        packet: looks(packet, open, plan.framing.mss().get()),
        wire: packet.wire,
        payload: packet.payload,
        ready,
        first,
        last,
        shares: false,
        repeated: Time::ZERO,
        serial: onward - first - propagation - device,
        propagation,
        onward,
    }
}
