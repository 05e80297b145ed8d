//! `mptcp`: Multipath TCP (RFC 8684), a subflow by each NIC of a pool (DRack §4.3).
//!
//! Each message is a connection of its own, open when it starts with all its subflows; a read is one of its request
//! and then one of its answer, as in [`super::stream`]. Between racks that pool their NICs, subflow k leaves by the
//! k-th NIC, counted from one that the connection's hash says; elsewhere subflows differ in their hashes only. Switches
//! drop what does not fit.

mod carry;
mod inside;

use self::carry::Packet;
use super::Fabric;
use super::buffer::Room;
use super::occupancy::Occupancy;
use super::slab::Slab;
use super::stream::lone::places;
use super::stream::nic::{Nic, QUANTUM};
use super::stream::{Ethernet, Plan, flow_hash, transfer_name};
use crate::engine::{Core, Observer, Sim, Tie, Tied, Wait};
use crate::error::SetupError;
use crate::host::{self, Counts, Hosts, Reading};
use crate::network::{Network, Pace, Port};
use crate::topology::End;
use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_protocol::mptcp::{Params, Receiver, Sender};
use unrack_protocol::tcp::Timeouts;
use unrack_units::Time;
use unrack_workload::{Listed, Message, MessageId, NodeId};

/// Multipath TCP.
pub struct Mptcp {
    plan: Plan,
    params: Params,
    timeouts: Timeouts,
    /// Of a connection between racks.
    subflows: u32,
    /// Of each link by which nodes send.
    nics: Vec<Nic>,
    nic_limit: u64,
    /// Switch ports.
    hops: Vec<Hop>,
    /// Of switches that share their buffers.
    occupancy: Option<Box<Occupancy>>,
    /// Of each port, if they do not.
    room: Room,
    packets: Slab<Packet>,
    connections: Slab<Connection>,
    opened: u32,
    /// If packets take their time in nodes.
    hosts: Option<Box<Hosts>>,
    /// What messages take alone, as far as it is known. `None`: this run is to find that out.
    alone: Option<RefCell<BTreeMap<Lone, Time>>>,
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
    /// Of the first subflow; those of the others follow.
    hash: u32,
    /// Tells this connection from others that had its place.
    serial: u32,
    /// Packets under way, and an answer that has to acknowledge this request.
    references: u32,
    sender: Sender,
    receiver: Receiver,
    reading: Reading,
    /// By subflow: whether it waits for its turn at its link, and the earliest timer set.
    links: Vec<(bool, Time)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its end is the end of the message.
    Data,
    /// Its end opens the answer.
    Request,
    /// As data; its first packet to arrive acknowledges the request, the connection of this number.
    Answer(u32),
}

#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet is ready to be queued at its switch port.
    AtSwitch(u32),
    /// The last bit of a packet has come to its node.
    AtNode(u32),
    /// A link by which nodes send has sent all it was given.
    Refill(u32),
    Timer {
        connection: u32,
        serial: u32,
        subflow: u32,
    },
    /// Something in a host.
    Host(host::Event),
}

impl Tied for Event {
    fn tie(&self) -> u32 {
        if matches!(self, Event::Timer { .. }) { Tie::ALARM } else { Tie::HERE }
    }
}

/// What the completion of a message alone depends on: links on its way, whether it is in its rack, its sizes, and, with
/// hosts, which of their racks.
type Lone = (usize, bool, bool, u64, u32, [u32; 2]);

/// Those of a connection are told apart in six bits.
const MOST_SUBFLOWS: u32 = 64;

impl Mptcp {
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Mptcp, SetupError> {
        let plan = Plan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let topology = &network.topology;
        let pooled = topology.pooled();
        let subflows = params.subflows.unwrap_or(pooled.min(MOST_SUBFLOWS));
        let most = if pooled > 1 { pooled.min(MOST_SUBFLOWS) } else { MOST_SUBFLOWS };
        if !(1..=most).contains(&subflows) {
            let rule = "is from 1 to the virtual NICs of a host (64 at most)";
            return Err(SetupError::new(
                "fabric.subflows",
                rule,
                format!("{subflows}, with {pooled} NICs to a rack"),
            ));
        }
        let timeouts = params.timeouts(plan.round_trip());
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
            alone: Some(RefCell::default()),
            hosts: plan.hosts().map(Box::new),
            plan,
        }
    }

    /// Nothing is under way, in hosts either.
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
        // Half of the range, so that the next hashes are the next numbers.
        let hash = flow_hash(transfer_name(id, matches!(role, Role::Answer(_)))) >> 1;
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
            sender: Sender::new(&self.params, subflows, self.timeouts, segments),
            receiver: Receiver::new(subflows),
            reading: Reading::default(),
            links: vec![(false, Time::MAX); subflows as usize],
        });
        self.send(core, connection);
    }

    /// The link by which a subflow sends.
    fn nic_of(&self, now: Time, connection: u32, subflow: u32) -> u32 {
        let Connection { src, dst, hash, .. } = self.connections[connection];
        self.plan.network.topology.attachment_at(src, dst, hash + subflow, now)
    }

    /// The connection may have something to send: what its links take at once.
    fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32) {
        let subflows = self.connections[connection].links.len() as u32;
        let nics: Vec<u32> = (0..subflows).map(|k| self.nic_of(core.now(), connection, k)).collect();
        loop {
            for (k, nic) in (0..).zip(&nics) {
                let open = self.is_open(core.now(), connection, k, *nic);
                let place = &mut self.connections[connection];
                place.sender.set_blocked(k, place.links[k as usize].0 || !open);
            }
            if !self.send_one(core, connection) {
                break;
            }
        }
        let in_host = self.hosts.is_some();
        let wait = || if in_host { Wait::Nothing } else { Wait::Window };
        core.waits(self.connections[connection].id, wait);
        for (k, nic) in (0..).zip(nics) {
            let place = &mut self.connections[connection];
            if !place.links[k as usize].0 && place.sender.wants(k) {
                self.wait(core, connection, k, nic);
            }
        }
        self.set_timers(core, connection);
    }

    fn wait<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, subflow: u32, nic: u32) {
        let place = &mut self.connections[connection];
        place.links[subflow as usize].0 = true;
        core.waits(place.id, || Wait::Turn);
        if self.hosts.is_some() {
            return self.wait_in_host(core.now(), connection, subflow);
        }
        self.nics[nic as usize].wait(connection * MOST_SUBFLOWS + subflow);
        self.schedule_refill(core, nic);
    }

    /// Whether there was something to send.
    fn send_one<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32) -> bool {
        let place = &mut self.connections[connection];
        let before = place.sender.retransmissions();
        let Some(mapped) = place.sender.poll_transmit(core.now()) else { return false };
        if place.sender.retransmissions() > before {
            core.retransmitted(place.id);
        }
        self.send_data(core, connection, mapped);
        true
    }

    /// A link is free: those that wait for it take turns.
    fn refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        self.nics[nic as usize].refilling = false;
        while let Some(waiting) = self.nics[nic as usize].next_ready() {
            let (connection, subflow) = (waiting / MOST_SUBFLOWS, waiting % MOST_SUBFLOWS);
            self.take_turn(core, connection, subflow);
            // A turn may be empty: what the subflow waited to send has gone by another.
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

    fn set_timers<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32) {
        let Connection { sender, links, serial, .. } = &mut self.connections[connection];
        for (subflow, (_, alarm)) in (0..).zip(links) {
            if let Some(at) = sender.poll_timeout(subflow).filter(|at| *at < *alarm) {
                *alarm = at;
                core.schedule(at, Event::Timer { connection, serial: *serial, subflow });
            }
        }
    }

    fn expire<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, serial: u32, subflow: u32) {
        let place = &mut self.connections[connection];
        if place.serial != serial || core.now() < place.links[subflow as usize].1 {
            return;
        }
        place.links[subflow as usize].1 = Time::MAX;
        place.sender.handle_timeout(core.now(), subflow);
        if place.sender.has_given_up() {
            core.give_up(place.id);
            return self.free_if_over(connection);
        }
        self.send(core, connection);
        self.free_if_over(connection);
    }

    /// Frees the place of a connection that has sent and heard all.
    fn free_if_over(&mut self, connection: u32) {
        let place = &mut self.connections[connection];
        let waits = place.links.iter().any(|(waits, _)| *waits);
        if place.sender.is_done() && place.references == 0 && !waits && place.serial != 0 {
            place.serial = 0;
            self.connections.release(connection);
        }
    }
}

impl Fabric for Mptcp {
    type Event = Event;

    fn name(&self) -> &'static str {
        "mptcp"
    }

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

    fn hosts(&self) -> Option<Counts> {
        self.hosts.as_ref().map(|hosts| hosts.counts())
    }

    // Departure from the contract: which subflow takes which segment depends on when acknowledgements come, so that
    // the message is carried alone instead. All ways of one length are alike, and each size is carried once.
    fn unloaded(&self, message: &Message) -> Time {
        let Some(known) = &self.alone else { return Time::ZERO };
        let network = &self.plan.network;
        let inside = network.topology.switch_of(message.src) == network.topology.switch_of(message.dst);
        let links = network.links(message.src, message.dst).count();
        let key: Lone = (
            links,
            inside,
            message.kind.is_answered(),
            message.bytes,
            message.request,
            places(network, message),
        );
        if let Some(time) = known.borrow().get(&key) {
            return *time;
        }
        let topology = network.topology.clone().without_faults();
        let plan = Plan { network: Network { topology, ..network.clone() }, ..self.plan.clone() };
        let on = Mptcp::on(plan, &self.params, self.timeouts, self.subflows);
        let fabric = Mptcp { alone: None, ..on };
        let work = Listed::new(vec![(Time::ZERO, *message)].into(), network.nodes());
        let (run, ..) = Sim::new(fabric, work.expect("a message of this network")).run();
        let time = run.outcomes[0].completion().expect("nothing is in its way");
        known.borrow_mut().insert(key, time);
        time
    }
}
