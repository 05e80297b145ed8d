//! A network of queues for transports that send packet by packet, shared by `pfabric`, `phost`, `ird`, `fastpass`, `ndp`, `homa` and
//! `pfc-dcqcn`.
//!
//! A [`Transport`] holds the protocol cores of all nodes. The network asks it for a packet whenever the link of a node is free, so that the
//! transport chooses each packet as late as possible. A switch port is a [`Queue`], whose rules belong to the protocol. A packet costs one
//! event at each switch, one at its end, and one more at each port where it waits.

mod event;
mod headroom;
mod net;
mod parts;
mod pause;
mod queue;
mod seen;
#[cfg(test)]
mod tests;
mod transfers;
mod transport;
mod wires;

use self::event::FROM_NODE;
pub use self::event::{Event, OUTSIDE, Packet};
pub use self::net::Net;
pub use self::parts::Parcel;
pub use self::queue::{Loss, Lossless, Queue, SmallestFirst, StrictPriority, Trimming};
pub use self::transfers::{Transfer, TransferRole};
pub use self::transport::Transport;
pub(super) use self::transport::alone;

use self::pause::Pauses;
use self::transfers::OpenTransfers;
use super::buffer::Pools;
pub use super::buffer::QueueRoom;
use super::parts::NetworkPart;
pub use super::slab::Slab;
pub use super::stream::StreamPlan;
pub use super::timers::TransferSide;
use super::timers::{Alarm, Timers};
use std::collections::VecDeque;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Mechanism, Observer};
use unrack_engine::network::Pace;
use unrack_engine::topology::LinkEnd;
pub use unrack_units::Time;
use unrack_workload::NodeId;
pub use unrack_workload::{Message, MessageId};

/// A switch port and the link behind it.
struct Port<Q> {
    pace: Pace,
    propagation: Time,
    switch: u32,
    end: LinkEnd,
    free_at: Time,
    /// Whether an event is scheduled for the time at which the port is free.
    draining: bool,
    queue: Q,
}

/// Sending side of a node.
struct Host<H> {
    free_at: Time,
    /// Whether an event is scheduled for the time at which the link is free.
    waking: bool,
    /// Control packets, which are sent before the packets that the transport returns when it is polled.
    control: VecDeque<Packet<H>>,
    /// Number of packets that the node has sent, if packets take all paths in turn.
    sprayed: u32,
    /// Whether a pause is in effect, so that the node may send only control packets.
    paused: bool,
}

/// State of the network except the transport.
pub struct Wires<T: Transport> {
    pub plan: StreamPlan,
    ports: Vec<Port<T::Queue>>,
    hosts: Vec<Host<T::Header>>,
    packets: Slab<Packet<T::Header>>,
    transfers: OpenTransfers,
    /// Alarms of the nodes of each switch, by switch.
    alarms: Vec<Timers>,
    pauses: Option<Pauses>,
    /// Waiting bytes of switches that share their buffers; `None` if each port has a separate buffer.
    pools: Option<Pools>,
    /// Buffer of each port, if the ports of a switch do not share one.
    room: QueueRoom,
    /// State of this part, in a split run.
    part: Option<Box<NetworkPart<Parcel<T::Header>>>>,
    /// Time from the end of a packet on a node's link to its arrival at [`OUTSIDE`].
    way_outside: Time,
    losses: Vec<Loss>,
    /// Open transfers that the transport has not been informed of yet.
    opened: Vec<u32>,
    /// Nodes that may have something to send.
    woken: Vec<NodeId>,
    /// Headers of lost packets that the transport has not been informed of yet.
    lost: Vec<T::Header>,
}

/// Network of queues under a transport.
pub struct PacketNetwork<T: Transport> {
    wires: Wires<T>,
    transport: T,
}

impl<T: Transport> PacketNetwork<T> {
    /// Creates the network. Each switch port gets a copy of `queue`.
    ///
    /// # Errors
    /// If a pausing queue has no room for the packets that still arrive after a pause is requested.
    pub fn new(plan: StreamPlan, transport: T, queue: T::Queue) -> Result<Self, SetupError> {
        let pauses = if T::Queue::PAUSES { Some(Pauses::new(&plan)?) } else { None };
        let topology = &plan.network.topology;
        let port = |port| {
            let (link, end) = (topology.link(port), topology.end(port));
            let (pace, propagation, queue) = (link.pace, link.propagation, queue.clone());
            Port {
                pace,
                propagation,
                switch: topology.owner(port),
                end,
                free_at: Time::ZERO,
                draining: false,
                queue,
            }
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
            room: QueueRoom::Own(plan.buffer.of_port().get()),
            // The state of pauses counts waiting bytes by link instead.
            pools: Pools::new(plan.buffer, topology.switches()).filter(|_| !T::Queue::PAUSES),
            plan,
            packets: Slab::new(),
            transfers: OpenTransfers::new(),
            alarms,
            pauses,
            part: None,
            way_outside: Time::ZERO,
            losses: Vec::new(),
            opened: Vec::new(),
            woken: Vec::new(),
            lost: Vec::new(),
        };
        Ok(PacketNetwork { wires, transport })
    }

    /// Returns the transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the completion time of a message alone: see [`Fabric::unloaded`](unrack_engine::Fabric::unloaded).
    pub fn unloaded(&self, message: &Message) -> Time {
        self.transport.unloaded(&self.wires.plan, message)
    }

    /// Sets the seed for the random draws of repeated timeouts.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.wires.plan.seed = seed;
        self
    }

    /// Sets the time from the end of a packet on a node's link to its arrival at [`OUTSIDE`].
    pub fn set_outside(&mut self, way: Time) {
        self.wires.way_outside = way;
    }

    /// Returns whether no packet waits, no link is paused or asked to pause, and no packet or transfer is stored.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Wires { ports, hosts, packets, transfers, pauses, .. } = &self.wires;
        ports.iter().all(|port| port.queue.is_empty() && port.queue.bytes() == 0)
            && hosts.iter().all(|host| host.control.is_empty() && !host.paused)
            && (packets.used(), transfers.used()) == (0, 0)
            && pauses.as_ref().is_none_or(Pauses::is_empty)
            && self.wires.pools.as_ref().is_none_or(Pools::is_empty)
            && self.transport.is_empty()
    }

    /// Sends a message: see [`Fabric::submit`](unrack_engine::Fabric::submit).
    pub fn submit<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), TransferRole::Request),
            false => (message.bytes, TransferRole::Data),
        };
        self.wires.open(id, message.endpoints(), bytes, role, None);
        self.settle(core);
    }

    /// Handles an event: see [`Fabric::handle`](unrack_engine::Fabric::handle).
    pub fn handle<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, event: Event<T::Timer>) {
        match event {
            Event::AtSwitch { packet, .. } => {
                self.wires.forward(core, packet);
                if self.wires.lost.is_empty() {
                    return;
                }
            }
            Event::PortFree(port) => {
                self.wires.drain(core, port);
                if self.wires.lost.is_empty() {
                    return;
                }
            }
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
            Event::PauseAgain(link) => self.wires.repeat_pause(core, link),
            Event::PauseEnds(link) => {
                if let Some(node) = self.wires.end_pause(core, link) {
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

    /// Carries out the pending work of the transport until none is left: opened transfers, woken nodes and lost packets.
    fn settle<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>) {
        loop {
            if let Some(transfer) = self.wires.opened.pop() {
                let net = &mut Net { core, wires: &mut self.wires };
                self.transport.create(net, transfer);
                self.transport.open(net, transfer);
            } else if let Some(node) = self.wires.woken.pop() {
                self.transmit(core, node);
            } else if T::HEARS_OF_LOSSES
                && let Some(header) = self.wires.lost.pop()
            {
                self.transport.lost(&mut Net { core, wires: &mut self.wires }, &header);
            } else {
                return;
            }
        }
    }

    /// Sends one packet of a node if its link is free. If the link is busy, or the node may have more to send, schedules the next attempt.
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
        if let TransferRole::Answer(request) = place.role
            && packet.to == place.dst
        {
            place.role = TransferRole::Data;
            self.transport.answered(net, request);
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
                // Clear the recorded alarm, because the transfer may get a new deadline later.
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
            net.core.acted(Mechanism::Timeout);
            self.transport.handle_alarm(net, owner, side);
        }
        if net.transfer(owner).serial == serial {
            self.transport.keep_alarm(net, owner, side);
        }
    }
}

/// Check that tests make at the end of a run.
#[cfg(test)]
pub(super) trait Emptied: unrack_engine::Fabric {
    fn is_empty(&self) -> bool;
}

/// Implements [`Fabric`](unrack_engine::Fabric) and [`Split`](unrack_engine::Split) for a struct whose field `network` is a
/// [`PacketNetwork`]. The other arguments are the [`Transport::Timer`] and the [`Transport::Header`] of its transport.
#[macro_export]
macro_rules! packet_fabric {
    ($fabric:ident $(<$policy:ident: $bound:ident>)?, $timer:ty, $header:ty) => {
        impl $(<$policy: $bound>)? $crate::Fabric for $fabric $(<$policy>)? {
            type Event = $crate::fabric::packet::Event<$timer>;

            fn submit<O: $crate::engine::Observer>(
                &mut self,
                core: &mut $crate::engine::Core<Self::Event, O>,
                id: $crate::fabric::packet::MessageId,
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
            fn unloaded(&self, message: &$crate::fabric::packet::Message) -> $crate::fabric::packet::Time {
                self.network.unloaded(message)
            }
            fn largest(&self) -> Option<$crate::engine::Largest> {
                Some(self.network.largest())
            }
            fn lookahead(&self) -> $crate::fabric::packet::Time {
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

/// Does the same as [`packet_fabric`](crate::packet_fabric), and also lets tests check that a finished run has left no state behind.
macro_rules! fabric_of_packets {
    ($fabric:ident $(<$policy:ident: $bound:ident>)?, $timer:ty, $header:ty) => {
        $crate::packet_fabric!($fabric $(<$policy: $bound>)?, $timer, $header);

        #[cfg(test)]
        impl $(<$policy: $bound>)? $crate::fabric::packet::Emptied for $fabric $(<$policy>)? {
            fn is_empty(&self) -> bool {
                self.network.is_empty()
            }
        }
    };
}
pub(super) use fabric_of_packets;

/// Stores `value` at this index, which must be at most one beyond the last one.
pub(super) fn put<V>(all: &mut Vec<V>, index: u32, value: V) {
    match all.get_mut(index as usize) {
        Some(place) => *place = value,
        None => all.push(value),
    }
}
