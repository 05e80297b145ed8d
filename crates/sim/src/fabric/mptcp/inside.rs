//! Packets of subflows inside hosts, if those take time: as in [`crate::fabric::stream`].

use super::carry::{Body, Packet};
use super::{Event, Mptcp, QUANTUM, Role};
use crate::engine::{Core, Observer, Wait};
use crate::host::{self, Output, Way};
use crate::topology::End;
use unrack_protocol::mptcp::Subflows;
use unrack_units::Time;
use unrack_workload::{Computing, NodeId};

impl Mptcp {
    /// Hands a packet that a node sends to its host, to go by this NIC if it goes by one.
    pub(super) fn enter_host(&mut self, now: Time, from: NodeId, nic: u32, index: u32) {
        let Some(hosts) = &mut self.hosts else { return };
        let Packet { to, hash, payload, .. } = self.packets[index];
        let way = hosts.way(from, to, nic);
        let bytes = self.plan.in_memory(payload);
        hosts.send(now, index, host::Packet::new((from, to), hash, (bytes, payload), way));
    }

    /// Hands a packet that has arrived at its last NIC to the host.
    pub(super) fn reach_host(&mut self, now: Time, index: u32) {
        let End::Node(nic) = self.hops[self.packets[index].port as usize].end else { return };
        self.hosts.as_mut().expect("asked for with hosts only").arrive(now, index, nic);
    }

    /// Starts a computation of a program. Without hosts that take time, its loads take none either.
    pub(super) fn start_computing<O: Observer>(&mut self, core: &mut Core<Event, O>, computing: Computing) {
        match &mut self.hosts {
            Some(hosts) => hosts.compute(core.now(), computing),
            None => core.wake_at(core.now() + computing.time, computing.actor),
        }
        self.settle_hosts(core);
    }

    pub(super) fn handle_host(&mut self, now: Time, event: host::Event) {
        self.hosts.as_mut().expect("asked for with hosts only").handle(now, event);
    }

    /// Carries out the outputs of hosts.
    pub(super) fn settle_hosts<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        while let Some(output) = self.hosts.as_mut().and_then(|hosts| hosts.poll()) {
            match output {
                Output::At(at, event) => core.schedule(at, Event::Host(event)),
                Output::Wire(packet, nic) => {
                    let departure = self.launch(core, nic, packet);
                    self.hosts.iter_mut().for_each(|hosts| hosts.leaves(packet, departure.last));
                }
                Output::Stack(packet) => self.reach_stack(core, packet),
                Output::Read(packet) => self.have_read(core, packet),
                Output::Lost(packet) => self.lose(core, packet),
                Output::Room(queue) => self.use_room(core, queue),
                Output::Computed(actor) => core.wake_at(core.now(), actor),
            }
        }
    }

    /// Returns whether the queue that a subflow sends by takes a packet now.
    pub(super) fn is_open(&self, now: Time, connection: u32, subflow: u32, nic: u32) -> bool {
        match &self.hosts {
            None => self.nics[nic as usize].is_open(now, self.nic_limit),
            Some(hosts) => {
                let (from, to, way) = self.way_of(now, connection, subflow);
                hosts.is_open(from, to, way)
            }
        }
    }

    fn way_of(&self, now: Time, connection: u32, subflow: u32) -> (NodeId, NodeId, Way) {
        let (from, to) = (self.connections[connection].src, self.connections[connection].dst);
        let hosts = self.hosts.as_ref().expect("asked for with hosts only");
        (from, to, hosts.way(from, to, self.nic_of(now, connection, subflow)))
    }

    /// Queues a subflow that waits for room, behind others.
    pub(super) fn wait_in_host(&mut self, now: Time, connection: u32, subflow: u32) {
        let (from, to, way) = self.way_of(now, connection, subflow);
        let waiting = connection * Subflows::MOST + subflow;
        self.hosts.iter_mut().for_each(|hosts| hosts.wait(from, to, way, waiting));
    }

    /// Lets subflows take turns at a queue that has room.
    fn use_room<O: Observer>(&mut self, core: &mut Core<Event, O>, queue: u32) {
        while let Some(hosts) = self.hosts.as_mut().filter(|hosts| hosts.has_room(queue))
            && let Some(waiting) = hosts.next_waiting(queue)
        {
            let (connection, subflow) = (waiting / Subflows::MOST, waiting % Subflows::MOST);
            self.take_turn(core, connection, subflow);
        }
    }

    fn reach_stack<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let packet = self.packets[index];
        let (segment, data) = match packet.body {
            Body::Data(segment, data) => (segment, data),
            Body::Ack(..) => {
                self.take_ack(core, &packet);
                return self.forget_packet(index);
            }
        };
        let place = &self.connections[packet.connection];
        let is_useless = place.reading.is_useless(data, place.receiver.next());
        self.take_data(core, packet, segment, data);
        let place = &mut self.connections[packet.connection];
        if !is_useless {
            place.reading.keep(data, index);
        }
        let Some(hosts) = &mut self.hosts else { return };
        // A copy may be what its subflow waited for, so that other segments are in order now.
        for packet in place.reading.take(place.receiver.next()) {
            hosts.read(core.now(), packet);
        }
        if is_useless {
            self.forget_packet(index);
        }
    }

    fn have_read<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let connection = self.packets[index].connection;
        let place = &mut self.connections[connection];
        let all = place.reading.read() && place.receiver.next() == place.segments;
        let (id, role) = (place.id, place.role);
        match (all, role) {
            (true, Role::Request) => self.answer(core, connection),
            (true, _) => core.complete(id),
            (false, _) => {}
        }
        self.finish_packet(index);
    }

    /// Ends a connection whose sender has given up: neither host keeps anything of it.
    pub(super) fn give_up<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32) {
        let place = &mut self.connections[connection];
        core.give_up(place.id);
        for (_, packet) in place.reading.give_up() {
            self.forget_packet(packet);
        }
        // No packet of the answer has arrived.
        if let Role::Answer(request) = self.connections[connection].role {
            self.connections[connection].role = Role::Data;
            self.drop_reference(request);
        }
        self.free_if_over(connection);
    }

    /// Drops a packet that nobody will read.
    fn forget_packet(&mut self, index: u32) {
        self.hosts.iter_mut().for_each(|hosts| hosts.release(index));
        self.finish_packet(index);
    }

    /// Lets a subflow that waited send as much as it may at once; it waits again if there is more.
    pub(super) fn take_turn<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        connection: u32,
        subflow: u32,
    ) {
        self.connections[connection].waiting.set(subflow, false);
        let mut sent = 0;
        while sent < QUANTUM && self.send_one(core, connection, Subflows::only(subflow)).is_some() {
            sent += 1;
        }
        match self.connections[connection].sender.wants(subflow) {
            true => {
                let nic = self.nic_of(core.now(), connection, subflow);
                self.wait(core, connection, subflow, nic);
            }
            false => core.waits(self.connections[connection].id, || Wait::Window),
        }
        self.set_timers(core, connection, Subflows::only(subflow));
        self.free_if_over(connection);
    }
}
