//! A network of queues under transports that send packet by packet: what `pfabric`, `phost`, `ird`,
//! `fastpass`, `ndp`, `homa` and `pfc-dcqcn` share.
//!
//! A [`Transport`] holds the cores of all nodes and is asked for a packet whenever a node's link is free,
//! so that what leaves next is decided when it leaves. A switch port is a [`Queue`], whose rules are the
//! protocol's. A packet costs an event at each switch and one at its end; where it waits, one more.

mod parts;
mod pause;
mod queue;
mod seen;
mod transfers;
mod wires;

pub use self::parts::Parcel;
pub(super) use self::queue::{Loss, Lossless, Queue, SmallestFirst, StrictPriority, Trimming};
pub(super) use self::transfers::{Role, Transfer};

use self::pause::Pauses;
use self::transfers::Transfers;
use super::parts::Part;
use super::slab::Slab;
use super::stream::Plan;
pub(super) use super::timers::Side;
use super::timers::{Alarm, Needs, Timers};
use crate::engine::{Core, Observer, PacketKind, Tie, Tied, Wait};
use crate::error::SetupError;
use crate::network::Pace;
use crate::topology::End;
use std::collections::VecDeque;
use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

/// What decides who sends what, and when.
pub(super) trait Transport: Sized {
    /// What a packet says to its receiver.
    type Header: Copy + Send;
    /// What it asks to be told later.
    type Timer: Copy + Send;
    type Queue: Queue;
    /// As in scenarios and tables.
    const NAME: &'static str;
    /// Packets of a node take all ways in turn, control included; else those of a transfer all take the same.
    const SPRAYS: bool;
    /// What it does at the nodes of a switch depends on those, and on packets that come, alone.
    const SPLITS: bool;

    /// Makes both ends of a transfer.
    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32);
    /// Its sender may begin now.
    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32);
    /// A packet has arrived at its end.
    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Self::Header>);
    /// A packet to [`OUTSIDE`] has arrived there.
    fn receive_outside<O: Observer>(&mut self, _net: &mut Net<Self, O>, _packet: &Packet<Self::Header>) {
        unreachable!("no transport sends there but one that receives there");
    }
    /// The first packet of its answer has arrived, which acknowledges this request.
    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32);
    /// The link of a node is free: what it sends now.
    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Self::Header>>;
    /// Whether [`Transport::poll`] may have something for this node.
    fn is_ready(&self, node: NodeId) -> bool;
    fn handle_timer<O: Observer>(&mut self, net: &mut Net<Self, O>, timer: Self::Timer);
    /// What a packet is, and of data or what answers it: which segment.
    fn describe(header: &Self::Header) -> (PacketKind, Option<u32>);
    /// When [`Transport::handle_alarm`] is due for this end of a transfer. It may move to later at any time; if it
    /// comes to be sooner, or something at last, [`Transport::keep_alarm`] has to be called, at this end.
    fn deadline(&self, transfer: u32, side: Side) -> Option<Time>;
    /// The deadline of this end of a transfer has come.
    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, side: Side);
    fn keep_alarm<O: Observer>(&self, net: &mut Net<Self, O>, transfer: u32, side: Side) {
        if let Some(at) = self.deadline(transfer, side) {
            net.set_alarm(at, transfer, side);
        }
    }
    /// How long a message takes alone in the network.
    fn unloaded(&self, plan: &Plan, message: &Message) -> Time {
        alone::<Self>(plan, message, None, |_, _| Time::ZERO)
    }
}

/// Where packets go that leave the network at the switch of their sender: for what is not one of its nodes.
pub(super) const OUTSIDE: NodeId = NodeId::MAX;

#[derive(Debug, Clone, Copy)]
pub struct Packet<H> {
    pub transfer: u32,
    pub to: NodeId,
    /// On the wire.
    pub wire: u32,
    pub payload: u32,
    /// What the queues go by.
    pub rank: u32,
    /// A queue took the payload away.
    pub trimmed: bool,
    pub header: H,
    /// The switch port it is on its way to, or in.
    port: u32,
    /// Which of equal ways it takes.
    hash: u32,
    /// When it joined what waits for the link that it is to cross next.
    ready: Time,
    /// A switch marked it for congestion.
    pub marked: bool,
    /// The link that it came by to its switch: see [`Pauses`].
    came_by: u32,
}

impl<H> Packet<H> {
    pub fn new(transfer: u32, to: NodeId, (wire, payload): (u32, u32), rank: u32, header: H) -> Packet<H> {
        let (trimmed, marked, port, hash, ready, came_by) = (false, false, 0, 0, Time::ZERO, 0);
        Packet { transfer, to, wire, payload, rank, trimmed, marked, header, port, hash, ready, came_by }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Event<T> {
    /// A packet is ready to be queued at its switch port. It came by this port of another switch.
    AtSwitch {
        packet: u32,
        by: u32,
    },
    /// The last bit of a packet has come to its node.
    AtNode(u32),
    /// A packet has come to [`OUTSIDE`].
    AtOutside(u32),
    /// A switch port at which packets wait is free.
    PortFree(u32),
    /// A node that has more to send is free to.
    NodeFree(NodeId),
    /// A pause frame has come to the sender of a link, which it tells to pause or to go on.
    Pause {
        link: u32,
        pause: bool,
    },
    /// The first alarm of the queue of this switch's nodes is due.
    Alarms(u32),
    Alarm(Alarm),
    Transport(T),
}

/// Instead of a port: a node, or [`OUTSIDE`].
const FROM_NODE: u32 = u32::MAX;
/// Pause frames come after packets by as many links.
const PAUSES: u32 = 1 << 31;

impl<T: Copy + Send> Tied for Event<T> {
    fn tie(&self) -> u32 {
        match *self {
            Event::AtSwitch { by, .. } if by != FROM_NODE => by + 1,
            Event::Pause { link, .. } => PAUSES + link,
            Event::Alarms(_) | Event::Alarm(_) => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}

/// A switch port and the link behind it.
struct Port<Q> {
    pace: Pace,
    propagation: Time,
    end: End,
    free_at: Time,
    /// Has an event for when it is free.
    draining: bool,
    queue: Q,
}

/// The sending side of a node.
struct Host<H> {
    free_at: Time,
    /// Has an event for when it is free.
    waking: bool,
    /// Leaves before anything that the transport has.
    control: VecDeque<Packet<H>>,
    /// Packets sent, if they take all ways in turn.
    sprayed: u32,
    /// May send control only.
    paused: bool,
}

/// All but the transport.
pub(super) struct Wires<T: Transport> {
    pub plan: Plan,
    ports: Vec<Port<T::Queue>>,
    hosts: Vec<Host<T::Header>>,
    packets: Slab<Packet<T::Header>>,
    transfers: Transfers,
    /// Of the nodes of each switch.
    alarms: Vec<Timers>,
    pauses: Option<Pauses>,
    /// Of a run that is split.
    part: Option<Box<Part<Parcel<T::Header>>>>,
    /// From the end of a packet on a node's link to its arrival outside.
    way_outside: Time,
    losses: Vec<Loss>,
    /// What the transport has asked for and has not happened yet.
    opened: Vec<u32>,
    woken: Vec<NodeId>,
}

pub(super) struct PacketNetwork<T: Transport> {
    wires: Wires<T>,
    transport: T,
}

/// The network as a transport sees it.
pub(super) struct Net<'a, T: Transport, O> {
    core: &'a mut Core<Event<T::Timer>, O>,
    wires: &'a mut Wires<T>,
}

impl<T: Transport, O: Observer> Net<'_, T, O> {
    pub fn now(&self) -> Time {
        self.core.now()
    }

    pub fn transfer(&self, transfer: u32) -> &Transfer {
        &self.wires.transfers[transfer]
    }

    pub fn plan(&self) -> &Plan {
        &self.wires.plan
    }

    /// Segment `number` of a transfer: bytes on the wire, and payload.
    pub fn segment(&self, transfer: u32, number: u32) -> (u32, u32) {
        let framing = &self.wires.plan.framing;
        let payload = framing.payload(self.wires.transfers[transfer].bytes, number);
        (framing.wire(payload).get() as u32, payload as u32)
    }

    /// A packet without payload: bytes on the wire, and payload.
    pub fn bare(&self) -> (u32, u32) {
        (self.wires.plan.framing.wire(0).get() as u32, 0)
    }

    /// The node may have something to send.
    pub fn wake(&mut self, node: NodeId) {
        self.wires.woken.push(node);
    }

    /// Sends a packet from `node` before any that the transport may have for it.
    pub fn send_first(&mut self, node: NodeId, packet: Packet<T::Header>) {
        self.wires.transfers[packet.transfer].references += 1;
        self.wires.hosts[node as usize].control.push_back(packet);
        self.wake(node);
    }

    /// From now on `wait` keeps the transfer from sending.
    pub fn waits(&mut self, transfer: u32, wait: Wait) {
        let message = self.wires.transfers[transfer].message;
        self.core.waits(message, || wait);
    }

    /// A packet from outside comes to the switch port of the node that it is for.
    pub fn send_from_outside(&mut self, at: Time, mut packet: Packet<T::Header>) {
        let topology = &self.wires.plan.network.topology;
        packet.port = topology.route(topology.switch_of(packet.to), packet.to, 0);
        self.wires.transfers[packet.transfer].references += 1;
        let packet = self.wires.packets.insert(packet);
        self.core.schedule(at, Event::AtSwitch { packet, by: FROM_NODE });
    }

    pub fn schedule(&mut self, at: Time, timer: T::Timer) {
        self.core.schedule(at, Event::Transport(timer));
    }

    /// Wakes this end of a transfer then, if it is open then. Nearly all alarms should be set the same time ahead.
    fn set_alarm(&mut self, at: Time, transfer: u32, side: Side) {
        let place = &mut self.wires.transfers[transfer];
        if at >= place.alarms[side as usize] {
            return;
        }
        place.alarms[side as usize] = at;
        let alarm = Alarm { owner: transfer, serial: place.serial, side };
        let node = if side == Side::Sender { place.src } else { place.dst };
        let switch = self.wires.plan.network.topology.switch_of(node);
        match self.wires.alarms[switch as usize].set(at, alarm) {
            Needs::Nothing => {}
            Needs::QueueEvent => self.core.schedule(at, Event::Alarms(switch)),
            Needs::OwnEvent => self.core.schedule(at, Event::Alarm(alarm)),
        }
    }

    /// The last byte of a transfer is here. Whether it is to be acknowledged: a request is by its answer.
    pub fn delivered(&mut self, transfer: u32) -> bool {
        let place = &mut self.wires.transfers[transfer];
        debug_assert!(!place.delivered);
        place.delivered = true;
        let (message, role) = (place.message, place.role);
        if role != Role::Request {
            self.core.complete(message);
            return true;
        }
        place.references += 1;
        let ends = (place.dst, place.src);
        let bytes = self.core.message(message).bytes;
        self.wires.open(message, ends, bytes, Role::Answer(transfer));
        false
    }

    /// Keeps a transfer, and its number, until as many calls of [`Net::release`].
    pub fn hold(&mut self, transfer: u32) {
        self.wires.transfers[transfer].references += 1;
    }

    pub fn release(&mut self, transfer: u32) {
        self.wires.transfers.drop_reference(transfer);
    }

    /// The sender of a transfer has nothing more to do.
    pub fn close(&mut self, transfer: u32) {
        self.wires.transfers.close(transfer);
    }

    pub fn retransmitted(&mut self, transfer: u32) {
        self.core.retransmitted(self.wires.transfers[transfer].message);
    }
}

impl<T: Transport> PacketNetwork<T> {
    pub(super) fn new(plan: Plan, transport: T, queue: T::Queue) -> Result<Self, SetupError> {
        let pauses = if T::Queue::PAUSES { Some(Pauses::new(&plan)?) } else { None };
        let topology = &plan.network.topology;
        let port = |port| {
            let (link, end) = (topology.link(port), topology.end(port));
            let (pace, propagation, queue) = (link.pace, link.propagation, queue.clone());
            Port { pace, propagation, end, free_at: Time::ZERO, draining: false, queue }
        };
        let host = |_| Host {
            free_at: Time::ZERO,
            waking: false,
            control: VecDeque::new(),
            sprayed: 0,
            paused: false,
        };
        let alarms = (0..topology.switches()).map(|_| Timers::default()).collect();
        let wires = Wires {
            ports: (0..topology.ports()).map(port).collect(),
            hosts: (0..plan.network.nodes()).map(host).collect(),
            plan,
            packets: Slab::new(),
            transfers: Transfers::new(),
            alarms,
            pauses,
            part: None,
            way_outside: Time::ZERO,
            losses: Vec::new(),
            opened: Vec::new(),
            woken: Vec::new(),
        };
        Ok(PacketNetwork { wires, transport })
    }

    pub(super) fn name(&self) -> &'static str {
        T::NAME
    }

    pub(super) fn transport(&self) -> &T {
        &self.transport
    }

    pub(super) fn unloaded(&self, message: &Message) -> Time {
        self.transport.unloaded(&self.wires.plan, message)
    }

    /// From the end of a packet on a node's link to its arrival outside.
    pub(super) fn set_outside(&mut self, way: Time) {
        self.wires.way_outside = way;
    }

    pub(super) fn submit<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), Role::Request),
            false => (message.bytes, Role::Data),
        };
        self.wires.open(id, (message.src, message.dst), bytes, role);
        self.settle(core);
    }

    pub(super) fn handle<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        event: Event<T::Timer>,
    ) {
        match event {
            Event::AtSwitch { packet, .. } => return self.wires.forward(core, packet),
            Event::PortFree(port) => return self.wires.drain(core, port),
            Event::AtNode(packet) => self.arrive(core, packet),
            Event::AtOutside(index) => {
                let packet = self.wires.packets[index];
                self.wires.packets.release(index);
                self.transport.receive_outside(&mut Net { core, wires: &mut self.wires }, &packet);
                self.wires.transfers.drop_reference(packet.transfer);
            }
            Event::NodeFree(node) => {
                self.wires.hosts[node as usize].waking = false;
                self.transmit(core, node);
            }
            Event::Pause { link, pause } => {
                if let Some(node) = self.wires.take_pause(core, link, pause) {
                    self.transmit(core, node);
                }
            }
            Event::Alarms(switch) => self.alarms_due(core, switch),
            Event::Alarm(alarm) => self.alarm(core, alarm),
            Event::Transport(timer) => {
                self.transport.handle_timer(&mut Net { core, wires: &mut self.wires }, timer);
            }
        }
        self.settle(core);
    }

    /// Does what the transport asked for, until it asks for nothing more.
    fn settle<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>) {
        loop {
            if let Some(transfer) = self.wires.opened.pop() {
                let net = &mut Net { core, wires: &mut self.wires };
                self.transport.create(net, transfer);
                self.transport.open(net, transfer);
            } else if let Some(node) = self.wires.woken.pop() {
                self.transmit(core, node);
            } else {
                return;
            }
        }
    }

    /// Sends one packet, if the link is free; else, or if there may be more, sees to it when it is.
    fn transmit<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, node: NodeId) {
        let host = &mut self.wires.hosts[node as usize];
        if host.waking {
            return;
        }
        if host.free_at <= core.now() {
            let packet = match host.control.pop_front() {
                Some(packet) => packet,
                None if host.paused => return,
                None => {
                    let net = &mut Net { core, wires: &mut self.wires };
                    let Some(packet) = self.transport.poll(net, node) else { return };
                    self.wires.transfers[packet.transfer].references += 1;
                    packet
                }
            };
            self.wires.put(core, node, packet);
        }
        let host = &mut self.wires.hosts[node as usize];
        if !host.control.is_empty() || (!host.paused && self.transport.is_ready(node)) {
            host.waking = true;
            core.schedule(host.free_at, Event::NodeFree(node));
        }
    }

    fn arrive<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, index: u32) {
        let packet = self.wires.packets[index];
        self.wires.packets.release(index);
        core.arrived(u64::from(packet.payload));
        let net = &mut Net { core, wires: &mut self.wires };
        let place = &mut net.wires.transfers[packet.transfer];
        if let Role::Answer(request) = place.role
            && packet.to == place.dst
        {
            place.role = Role::Data;
            self.transport.answered(net, request);
            net.wires.transfers.drop_reference(request);
        }
        self.transport.receive(net, &packet);
        self.wires.transfers.drop_reference(packet.transfer);
    }

    fn alarms_due<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, switch: u32) {
        while let Some(alarm) = self.wires.alarms[switch as usize].pop_due(core.now()) {
            self.alarm(core, alarm);
        }
        let (transfers, transport) = (&mut self.wires.transfers, &self.transport);
        let is_live = |Alarm { owner, serial, side }| {
            let place = &mut transfers[owner];
            let waits = place.serial == serial && transport.deadline(owner, side).is_some();
            if place.serial == serial && !waits {
                // It may come to wait again.
                place.alarms[side as usize] = Time::MAX;
            }
            waits
        };
        let alarms = &mut self.wires.alarms[switch as usize];
        if let Some(at) = alarms.next(is_live) {
            core.schedule(at, Event::Alarms(switch));
        }
    }

    fn alarm<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, alarm: Alarm) {
        let Alarm { owner, serial, side } = alarm;
        let place = &mut self.wires.transfers[owner];
        if place.serial != serial || core.now() < place.alarms[side as usize] {
            return;
        }
        place.alarms[side as usize] = Time::MAX;
        let net = &mut Net { core, wires: &mut self.wires };
        if self.transport.deadline(owner, side).is_some_and(|at| at <= net.now()) {
            self.transport.handle_alarm(net, owner, side);
        }
        if net.transfer(owner).serial == serial {
            self.transport.keep_alarm(net, owner, side);
        }
    }
}

/// How long a message takes alone in the network, if each of its transfers is sent `ahead` after it was opened,
/// without a break or a packet each `spacing`.
pub(super) fn alone<T: Transport>(
    plan: &Plan,
    message: &Message,
    spacing: Option<Time>,
    ahead: impl Fn(NodeId, NodeId) -> Time,
) -> Time {
    let transfer = |src, dst, bytes| {
        let mut alone = plan.alone(src, dst);
        alone.spacing = spacing;
        if T::SPRAYS {
            alone.ways = plan.network.topology.ways(src, dst);
        }
        ahead(src, dst) + alone.stream(bytes)
    };
    match message.kind.is_answered() {
        true => {
            transfer(message.src, message.dst, u64::from(message.request))
                + transfer(message.dst, message.src, message.bytes)
        }
        false => transfer(message.src, message.dst, message.bytes),
    }
}

/// Makes a [`Fabric`](super::Fabric) of a struct around a [`PacketNetwork`] that is called `network`, whose
/// transport has this [`Transport::Timer`].
macro_rules! fabric_of_packets {
    ($fabric:ident $(<$policy:ident: $bound:ident>)?, $timer:ty, $header:ty) => {
        impl $(<$policy: $bound>)? $crate::fabric::Fabric for $fabric $(<$policy>)? {
            type Event = $crate::fabric::packet::Event<$timer>;

            fn name(&self) -> &'static str {
                self.network.name()
            }
            fn submit<O: $crate::engine::Observer>(
                &mut self,
                core: &mut $crate::engine::Core<Self::Event, O>,
                id: unrack_workload::MessageId,
            ) {
                self.network.submit(core, id);
            }
            fn handle<O: $crate::engine::Observer>(
                &mut self,
                core: &mut $crate::engine::Core<Self::Event, O>,
                event: Self::Event,
            ) {
                self.network.handle(core, event);
            }
            fn unloaded(&self, message: &unrack_workload::Message) -> unrack_units::Time {
                self.network.unloaded(message)
            }
            fn lookahead(&self) -> unrack_units::Time {
                self.network.lookahead()
            }
        }

        impl $(<$policy: $bound>)? $crate::engine::Split for $fabric $(<$policy>)? {
            type Parcel = $crate::fabric::packet::Parcel<$header>;

            fn become_part(&mut self, me: u32, part_of: std::sync::Arc<[u32]>) {
                self.network.become_part(me, part_of);
            }
            fn crossed(&mut self) -> &mut Vec<(u32, Self::Parcel)> {
                self.network.crossed()
            }
            fn take(
                &mut self,
                core: &mut $crate::engine::Core<Self::Event, $crate::engine::Unobserved>,
                parcel: Self::Parcel,
            ) {
                self.network.take(core, parcel);
            }
            fn closed(&mut self) -> &mut Vec<u32> {
                self.network.closed()
            }
            fn under_way(&self, transfer: u32) -> i32 {
                self.network.under_way(transfer)
            }
            fn forget(&mut self, transfer: u32) {
                self.network.forget(transfer);
            }
        }
    };
}
pub(super) use fabric_of_packets;

/// Keeps `value` at this index, which is at most one beyond the last.
pub(super) fn put<V>(all: &mut Vec<V>, index: u32, value: V) {
    match all.get_mut(index as usize) {
        Some(place) => *place = value,
        None => all.push(value),
    }
}
