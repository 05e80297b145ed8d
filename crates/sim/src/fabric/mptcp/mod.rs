//! `mptcp`: Multipath TCP (RFC 8684), a subflow by each NIC of a pool (DRack §4.3).
//!
//! Each message has a connection, of its own or one that is kept, which is open with all its subflows when the
//! message starts. A read has one for its request and then one for its answer, as in [`super::stream`]. Between racks
//! that pool their NICs, subflow k leaves by the k-th NIC, counted from one that the connection's hash selects;
//! elsewhere subflows differ in their hashes only. Switches drop packets that do not fit.

mod alone;
mod carry;
mod inside;

use self::alone::Alone;
use self::carry::Packet;
use super::Fabric;
use super::buffer::Room;
use super::occupancy::Occupancy;
use super::pool::Pool;
use super::slab::Slab;
use super::stream::nic::{Nic, QUANTUM};
use super::stream::{Ethernet, Plan, flow_hash, transfer_name};
use crate::engine::{Core, Observer, Tie, Tied, Wait};
use crate::error::SetupError;
use crate::host::{self, Counts, Hosts, Reading};
use crate::memory::Cost;
use crate::network::{Network, Pace, Port};
use crate::registry::{Registered, Site};
use crate::topology::End;
use unrack_protocol::mptcp::{Params, Receiver, Resting, Sender, Subflows};
use unrack_protocol::tcp::{Connections, Timeouts};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Computing, Message, MessageId, NodeId};

/// Multipath TCP on a network.
pub struct Mptcp {
    plan: Plan,
    params: Params,
    timeouts: Timeouts,
    /// Number of subflows of a connection between racks.
    subflows: u32,
    /// State of each link by which nodes send.
    nics: Vec<Nic>,
    nic_limit: u64,
    /// Switch ports.
    hops: Vec<Hop>,
    /// Bytes at switches that share their buffers; `None` if ports have buffers of their own.
    occupancy: Option<Box<Occupancy>>,
    /// Buffer of each port, if switches do not share theirs.
    room: Room,
    packets: Slab<Packet>,
    connections: Slab<Connection>,
    opened: u32,
    /// Idle connections, if connections are kept.
    pool: Option<Pool<Kept>>,
    /// State of hosts, if packets take time in nodes.
    hosts: Option<Box<Hosts>>,
    /// Completion times of messages that are alone, as far as they are known.
    alone: Alone,
}

/// A switch port and the link behind it.
struct Hop {
    port: Port,
    pace: Pace,
    propagation: Time,
    end: End,
}

struct Connection {
    id: MessageId,
    src: NodeId,
    dst: NodeId,
    role: Role,
    bytes: u64,
    segments: u32,
    /// Hash of the first subflow; those of the others follow.
    hash: u32,
    /// Serial number that tells this connection from others with the same index.
    serial: u32,
    /// Number of packets under way, plus an answer that has to acknowledge this request.
    references: u32,
    sender: Sender,
    receiver: Receiver,
    reading: Reading,
    /// Subflows that wait for their turn at their links.
    waiting: Subflows,
    /// Earliest timer set, by subflow.
    alarms: Vec<Time>,
    /// The sender is done.
    closed: bool,
}

/// Connection that no message uses.
struct Kept {
    hash: u32,
    sender: Resting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Carries the data of a message, which is complete at the end of it.
    Data,
    /// Carries a request, whose end opens the answer.
    Request,
    /// Carries an answer; its first packet to arrive acknowledges the request, the connection of this index.
    Answer(u32),
}

/// Events of [`Mptcp`].
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet is ready to be queued at its switch port.
    AtSwitch(u32),
    /// The last bit of a packet has arrived at its node.
    AtNode(u32),
    /// A link by which nodes send has sent all that it was given.
    Refill(u32),
    Timer {
        connection: u32,
        serial: u32,
        subflow: u32,
    },
    /// An event inside a host.
    Host(host::Event),
}

impl Tied for Event {
    fn tie(&self) -> u32 {
        if matches!(self, Event::Timer { .. }) { Tie::ALARM } else { Tie::HERE }
    }
}

impl Mptcp {
    /// Creates Multipath TCP on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Mptcp, SetupError> {
        let plan = Plan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let topology = &network.topology;
        let pooled = topology.pooled();
        let subflows = params.subflows.unwrap_or(pooled.min(Subflows::MOST));
        let most = if pooled > 1 { pooled.min(Subflows::MOST) } else { Subflows::MOST };
        if !(1..=most).contains(&subflows) {
            let rule = "is from 1 to the virtual NICs of a host (64 at most)";
            return Err(SetupError::new(
                "fabric.subflows",
                rule,
                format!("{subflows}, with {pooled} NICs to a rack"),
            ));
        }
        let timeouts = params.timeouts(plan.round_trip());
        let plan = Plan { kept: params.connections == Connections::Kept, ..plan };
        Ok(Mptcp::on(plan, params, timeouts, subflows))
    }

    fn on(plan: Plan, params: &Params, timeouts: Timeouts, subflows: u32) -> Mptcp {
        let topology = &plan.network.topology;
        let hop = |port| {
            let (link, end) = (topology.link(port), topology.end(port));
            Hop { port: Port::new(link.pace), pace: link.pace, propagation: link.propagation, end }
        };
        let nic = |link| Nic::new(topology.attachment_link(link).pace);
        Mptcp {
            params: params.clone(),
            timeouts,
            subflows,
            nics: (0..topology.attachments()).map(nic).collect(),
            nic_limit: u64::from(QUANTUM) * plan.full_packet().get(),
            hops: (0..topology.ports()).map(hop).collect(),
            occupancy: Occupancy::new(plan.buffer, topology).map(Box::new),
            room: Room::Own(plan.buffer.of_port().get()),
            packets: Slab::new(),
            connections: Slab::new(),
            opened: 0,
            pool: plan.kept.then(Pool::new),
            alone: Alone::default(),
            hosts: plan.hosts().map(Box::new),
            plan,
        }
    }

    /// Returns whether nothing is under way, in hosts either.
    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.packets.used() == 0
            && self.connections.used() == 0
            && self.hosts.as_ref().is_none_or(|hosts| hosts.is_at_rest())
    }

    fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        id: MessageId,
        (src, dst): (NodeId, NodeId),
        bytes: u64,
        role: Role,
    ) {
        let topology = &self.plan.network.topology;
        let between = topology.switch_of(src) != topology.switch_of(dst);
        let subflows = if between { self.subflows } else { 1 };
        let segments = self.plan.framing.segments(bytes);
        self.opened = self.opened.wrapping_add(1).max(1);
        let (hash, sender) = match self.pool.as_mut().and_then(|pool| pool.take((src, dst))) {
            Some(Kept { hash, sender }) => (hash, Sender::resume(&self.params, sender, core.now(), segments)),
            None => {
                // Half of the range, so that the next hashes are the next numbers.
                let hash = flow_hash(transfer_name(id, matches!(role, Role::Answer(_)))) >> 1;
                (hash, Sender::new(&self.params, subflows, self.timeouts, segments))
            }
        };
        let connection = self.connections.insert(Connection {
            id,
            src,
            dst,
            role,
            bytes,
            segments,
            hash,
            serial: self.opened,
            references: 0,
            sender,
            receiver: Receiver::new(subflows),
            reading: Reading::default(),
            waiting: Subflows::NONE,
            alarms: vec![Time::MAX; subflows as usize],
            closed: false,
        });
        self.send(core, connection, Subflows::first(subflows));
    }

    /// Returns the link by which a subflow sends.
    fn nic_of(&self, now: Time, connection: u32, subflow: u32) -> u32 {
        let Connection { src, dst, hash, .. } = self.connections[connection];
        self.plan.network.topology.attachment_at(src, dst, hash + subflow, now)
    }

    /// Sends what the links of these subflows take at once. No other subflow has anything to send, except those that
    /// wait for their links already.
    fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, which: Subflows) {
        let (now, mut nics, mut open) = (core.now(), [0; Subflows::MOST as usize], Subflows::NONE);
        let free = which.without(self.connections[connection].waiting);
        for k in free {
            let nic = self.nic_of(now, connection, k);
            nics[k as usize] = nic;
            open.set(k, self.is_open(now, connection, k, nic));
        }
        while let Some(sent) = self.send_one(core, connection, open) {
            let nic = nics[sent as usize];
            for k in open.filter(|k| nics[*k as usize] == nic) {
                open.set(k, self.is_open(now, connection, k, nic));
            }
        }
        let in_host = self.hosts.is_some();
        let wait = || if in_host { Wait::Nothing } else { Wait::Window };
        core.waits(self.connections[connection].id, wait);
        for k in free {
            if self.connections[connection].sender.wants(k) {
                self.wait(core, connection, k, nics[k as usize]);
            }
        }
        self.set_timers(core, connection, which);
    }

    fn wait<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, subflow: u32, nic: u32) {
        let place = &mut self.connections[connection];
        place.waiting.set(subflow, true);
        core.waits(place.id, || Wait::Turn);
        if self.hosts.is_some() {
            return self.wait_in_host(core.now(), connection, subflow);
        }
        self.nics[nic as usize].wait(connection * Subflows::MOST + subflow);
        self.schedule_refill(core, nic);
    }

    /// Sends a segment by one of the `open` subflows, if there is one to send; returns the subflow.
    fn send_one<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        connection: u32,
        open: Subflows,
    ) -> Option<u32> {
        let place = &mut self.connections[connection];
        let before = place.sender.retransmissions();
        let mapped = place.sender.poll_transmit(core.now(), open)?;
        if place.sender.retransmissions() > before {
            core.retransmitted(place.id);
        }
        self.send_data(core, connection, mapped);
        Some(mapped.subflow)
    }

    /// Lets the subflows that wait for a free link take turns.
    fn refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        self.nics[nic as usize].refilling = false;
        while let Some(waiting) = self.nics[nic as usize].next_ready() {
            let (connection, subflow) = (waiting / Subflows::MOST, waiting % Subflows::MOST);
            self.take_turn(core, connection, subflow);
            // A turn may be empty: another subflow may have sent the segment that this one waited for.
            if self.nics[nic as usize].free_at() > core.now() {
                break;
            }
        }
        if self.nics[nic as usize].has_ready() {
            self.schedule_refill(core, nic);
        }
    }

    fn schedule_refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        let place = &mut self.nics[nic as usize];
        if !place.refilling {
            place.refilling = true;
            core.schedule(place.free_at().max(core.now()), Event::Refill(nic));
        }
    }

    fn set_timers<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, which: Subflows) {
        let Connection { sender, alarms, serial, .. } = &mut self.connections[connection];
        for subflow in which {
            let alarm = &mut alarms[subflow as usize];
            if let Some(at) = sender.poll_timeout(subflow).filter(|at| *at < *alarm) {
                *alarm = at;
                core.schedule(at, Event::Timer { connection, serial: *serial, subflow });
            }
        }
    }

    fn expire<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, serial: u32, subflow: u32) {
        let place = &mut self.connections[connection];
        if place.serial != serial || core.now() < place.alarms[subflow as usize] {
            return;
        }
        place.alarms[subflow as usize] = Time::MAX;
        place.sender.handle_timeout(core.now(), subflow);
        if place.sender.has_given_up() {
            return self.give_up(core, connection);
        }
        let all = place.sender.subflows();
        self.send(core, connection, all);
        self.free_if_over(connection);
    }

    /// Returns the sender of a finished connection to the pool, and frees its place when nothing refers to it.
    fn free_if_over(&mut self, connection: u32) {
        let place = &mut self.connections[connection];
        if place.sender.is_done()
            && !std::mem::replace(&mut place.closed, true)
            && let Some(pool) = &mut self.pool
            && let Some(sender) = place.sender.rest()
        {
            pool.put((place.src, place.dst), Kept { hash: place.hash, sender });
        }
        let idle = place.references == 0 && place.waiting.is_empty();
        if idle && place.sender.is_done() && place.serial != 0 {
            place.serial = 0;
            self.connections.release(connection);
        }
    }
}

impl Registered for Mptcp {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "mptcp",
        about: "subflows over each NIC of a pool",
        several_links: true,
        hosts: true,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 150.0, open: 950.0, overhead: Cost::ETHERNET, ..Cost::NONE };
    type Params = Params;

    fn build(site: &Site, params: &Params) -> Result<Mptcp, SetupError> {
        Mptcp::new(site.network, site.ethernet, params)
    }
}

impl Fabric for Mptcp {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), Role::Request),
            false => (message.bytes, Role::Data),
        };
        self.open(core, id, (message.src, message.dst), bytes, role);
        self.settle_hosts(core);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::AtSwitch(packet) => self.forward(core, packet),
            Event::AtNode(packet) => self.arrive(core, packet),
            Event::Refill(nic) => self.refill(core, nic),
            Event::Timer { connection, serial, subflow } => self.expire(core, connection, serial, subflow),
            Event::Host(event) => self.handle_host(core.now(), event),
        }
        self.settle_hosts(core);
    }

    fn compute<O: Observer>(&mut self, core: &mut Core<Event, O>, computing: Computing) {
        self.start_computing(core, computing);
    }

    fn hosts(&self) -> Option<Counts> {
        self.hosts.as_ref().map(|hosts| hosts.counts())
    }

    // Departure from the contract: the message is carried ([`alone`]).
    fn unloaded(&self, message: &Message) -> Time {
        // The time depends on earlier messages, so this is a bound for all of them.
        if self.plan.kept {
            return self.plan.network.ideal(message);
        }
        self.carried_alone(message)
    }
}
