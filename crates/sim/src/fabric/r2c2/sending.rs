//! Flows: opened, sent packet by packet, acknowledged, retransmitted.

use super::flow::{Flow, Receiver, Role, Sender};
use super::wire::{Body, Packet};
use super::{Event, R2c2};
use crate::engine::{Core, Observer, Wait};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::demand::Demand;
use unrack_protocol::r2c2::host::Host;
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Broadcast, Event as Told};
use unrack_protocol::r2c2::transfer::Patience;
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;
use unrack_workload::MessageId;

impl R2c2 {
    pub(super) fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        message: MessageId,
        (src, dst): (u32, u32),
        bytes: u64,
        role: Role,
    ) {
        let segments = self.segments(bytes);
        self.start_discovering(core);
        let terms = self.terms(src, dst, core.now());
        let node = &mut self.nodes[src as usize];
        node.numbers = node.numbers.wrapping_add(1);
        let told = Broadcast {
            event: Told::Start,
            src: src as u16,
            dst: dst as u16,
            flow: node.numbers,
            asked: terms.asked,
            routing: self.map.usable(terms.routing),
            tree: (node.numbers % u16::from(self.params.trees)) as u8,
        };
        let ways = Ways { routing: told.routing, src, dst, flow: u32::from(told.flow) };
        let first_kbps = if segments > 1 { self.first_kbps(ways) } else { self.fastest_kbps(src) };
        let bucket = TokenBucket::new(first_kbps, self.wire(self.most));
        let host = Host::new(terms.demand, core.now());
        let demand = Demand::new(self.params.demand_gain.get());
        let patience = Patience::new(self.params.timeout, u32::from(told.src) << 16 | u32::from(told.flow));
        let sender = Sender::new(bucket, segments, patience, (host, demand));
        let receiver = Receiver::new(segments);
        let routing = terms.routing;
        let (references, is_given_up) = (0, false);
        let flow =
            Flow { message, role, src, dst, bytes, told, routing, sender, receiver, references, is_given_up };
        let flow = self.flows.insert(flow);
        self.nodes[src as usize].own.push(flow);
        self.start_ticking(core, src);
        self.schedule_rules(core);
        self.start_selecting(core);
        let turn = self.turn();
        self.flows[flow].sender.turn = turn;
        self.send(core, flow, turn);
    }

    /// Schedules the next packet of a flow, as soon as its bucket allows.
    pub(super) fn go_on<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        let turn = self.turn();
        let place = &mut self.flows[flow];
        place.sender.turn = 0;
        let Some((segment, _)) = place.sender.transfer.next() else { return self.rest(core, flow) };
        let (bytes, bucket) = (place.bytes, place.sender.bucket);
        let wire = self.wire(self.payload(bytes, segment));
        let place = &mut self.flows[flow];
        if let Some(at) = bucket.ready_at(wire) {
            place.sender.turn = turn;
            core.schedule(at.max(core.now()), Event::Send { flow, turn });
        }
        core.waits(place.message, || Wait::Pacing);
    }

    pub(super) fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32, turn: u32) {
        let place = &self.flows[flow];
        if place.sender.turn != turn {
            return;
        }
        let Some((segment, is_again)) = place.sender.transfer.next() else { return self.rest(core, flow) };
        let Flow { src, dst, bytes, message, told, .. } = *place;
        let payload = self.payload(bytes, segment);
        let wire = self.wire(payload);
        let offset = u64::from(segment) * self.most;
        if let Some(at) = place.sender.host.has(offset + payload).filter(|at| *at > core.now()) {
            return core.schedule(at, Event::Send { flow, turn });
        }
        let ways = Ways { routing: told.routing, src, dst, flow: u32::from(told.flow) };
        let Some(route) = self.draw(ways) else {
            // A flow waits for a path as it does for an acknowledgement.
            let sender = &mut self.flows[flow].sender;
            sender.turn = 0;
            if sender.alarm == 0 {
                self.set_alarm(core, flow);
            }
            return;
        };
        // A node does not drop its own packets before they are sent: it waits for room in its queue.
        let first = &self.links[(self.graph.links_of(src).start + route.port(0).unwrap_or(0)) as usize];
        let over = (first.port.backlog(core.now()) + u64::from(wire)).saturating_sub(self.buffer);
        if over > 0 {
            let at = core.now() + first.pace.transmit(over);
            return core.schedule(at, Event::Send { flow, turn });
        }
        core.sent(payload);
        if is_again {
            core.retransmitted(message);
        }
        let sender = &mut self.flows[flow].sender;
        sender.bucket.take(core.now(), wire);
        sender.sent += u64::from(wire);
        sender.patience.sent(core.now(), (segment, is_again), self.params.ack_every);
        let payload = payload as u32;
        let packet = Packet { flow, body: Body::Data(segment), route, done: 0, wire, payload };
        self.put(core, src, packet);
        if segment == 0 && !is_again {
            self.announce(core, News::Flow(told));
        }
        let sender = &mut self.flows[flow].sender;
        let was_through = sender.transfer.is_through();
        if !sender.transfer.sent(segment) {
            return self.go_on(core, flow);
        }
        sender.turn = 0;
        if !was_through {
            self.announce(core, News::Flow(Broadcast { event: Told::End, ..told }));
        }
        self.set_alarm(core, flow);
    }

    /// Starts the timer of a flow all of whose segments have been sent again or have arrived meanwhile.
    fn rest<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        if self.flows[flow].sender.transfer.rest() {
            self.set_alarm(core, flow);
        }
    }

    fn set_alarm<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        self.flows[flow].sender.patience.begin(core.now());
        self.schedule_alarm(core, flow);
    }

    fn schedule_alarm<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        let turn = self.turn();
        let sender = &mut self.flows[flow].sender;
        sender.alarm = turn;
        core.schedule(sender.patience.until(), Event::Alarm { flow, turn });
        core.waits(self.flows[flow].message, || Wait::Retransmission);
    }

    pub(super) fn alarm<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32, turn: u32) {
        let sender = &mut self.flows[flow].sender;
        if sender.alarm != turn || sender.transfer.is_done() {
            return;
        }
        // An acknowledgement has come meanwhile.
        if sender.patience.until() > core.now() {
            return self.schedule_alarm(core, flow);
        }
        sender.alarm = 0;
        if !sender.patience.run_out() {
            return self.give_up(core, flow);
        }
        if sender.transfer.is_through() {
            sender.transfer.send_again();
        }
        self.go_on(core, flow);
    }

    /// Abandons the flow and announces its end; its message will not be complete, unless the receiver has it all.
    fn give_up<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        let Flow { message, src, told, ref sender, ref receiver, .. } = self.flows[flow];
        let was_through = sender.transfer.is_through();
        if !receiver.is_complete() {
            core.give_up(message);
        }
        if !was_through {
            self.announce(core, News::Flow(Broadcast { event: Told::End, ..told }));
        }
        self.close(src, flow);
        self.flows[flow].is_given_up = true;
        if self.flows[flow].references == 0 {
            self.flows.release(flow);
        }
    }

    /// Removes a flow from those of its source.
    fn close(&mut self, src: u32, flow: u32) {
        let sender = &mut self.flows[flow].sender;
        (sender.turn, sender.alarm) = (0, 0);
        let own = &mut self.nodes[src as usize].own;
        let at = own.iter().position(|own| *own == flow).expect("an open flow is its source's");
        own.swap_remove(at);
    }

    pub(super) fn take_data<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: Packet, segment: u32) {
        core.arrived(u64::from(packet.payload));
        let ack_every = self.params.ack_every;
        let place = &mut self.flows[packet.flow];
        if place.is_given_up {
            return;
        }
        let (is_new, is_due) = place.receiver.take(segment, ack_every);
        let is_complete = is_new && place.receiver.is_complete();
        let Flow { message, role, src, dst, .. } = *place;
        match (is_complete, role) {
            (true, Role::Data) => core.complete(message),
            (true, Role::Request) => {
                let bytes = core.message(message).bytes;
                self.open(core, message, (dst, src), bytes, Role::Data);
            }
            (false, _) => {}
        }
        if is_due {
            let (next, mask) = self.flows[packet.flow].receiver.acknowledgement();
            let ways = Ways { routing: Routing::Spraying, src: dst, dst: src, flow: 0 };
            let Some(route) = self.draw(ways) else { return };
            let wire = self.wire(ACK);
            let body = Body::Ack { next, mask };
            self.put(core, dst, Packet { flow: packet.flow, body, route, done: 0, wire, payload: 0 });
        }
    }

    pub(super) fn take_ack(&mut self, now: Time, flow: u32, next: u32, mask: u64) {
        let place = &mut self.flows[flow];
        if place.is_given_up {
            return;
        }
        let before = place.sender.transfer.acknowledged();
        place.sender.transfer.acknowledge(next, mask);
        if place.sender.transfer.acknowledged() > before {
            place.sender.patience.heard(now, &place.sender.transfer);
            if place.sender.transfer.is_done() {
                let src = place.src;
                self.close(src, flow);
            }
        }
    }

    pub(super) fn drop_reference(&mut self, flow: u32) {
        let place = &mut self.flows[flow];
        place.references -= 1;
        if place.references == 0 && (place.sender.transfer.is_done() || place.is_given_up) {
            self.flows.release(flow);
        }
    }
}

/// Bytes of an acknowledgement beyond the header: a mask of 64 packets.
const ACK: u64 = 8;
