//! Sending of flows: a node opens a flow, sends it packet by packet, handles its acknowledgements, and retransmits lost segments.

use super::{Event, Flow, FlowPart, Node, NodeTimer, World};
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Event as Told};

impl<F: Copy + PartialEq> Node<F> {
    /// Creates and returns a flow of `bytes` bytes to node `dst`. No open flow of this node may have the number `number`. The caller stores
    /// the flow in the node's world, and must then call [`Node::start`].
    pub fn open<W: World<Flow = F>>(&self, world: &mut W, number: u16, dst: u32, bytes: u64) -> Flow {
        let (now, src, setup) = (world.now(), self.me, world.setup());
        let terms = setup.terms(src, dst, now.saturating_sub(self.began));
        let (segments, tree) = (setup.segments(bytes), setup.tree(number.into()));
        let told = Broadcast {
            event: Told::Start,
            src: src as u16,
            dst: dst as u16,
            flow: number,
            asked: terms.asked,
            routing: world.map().usable(terms.routing),
            tree,
        };
        // A flow of a single packet sends the packet at once, whatever its rate.
        let alone_kbps = (segments > 1).then(|| world.alone_kbps(told.ways()));
        let setup = world.setup();
        let first_kbps =
            alone_kbps.map_or(setup.fastest_kbps(src), |alone_kbps| setup.first_kbps(alone_kbps, src));
        Flow::new(setup, now, (told, terms), bytes, first_kbps)
    }

    /// Begins to send a flow.
    pub fn start<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        self.own.push(flow);
        self.start_ticking(world);
        world.happened(flow, Event::Opened);
        let turn = world.turn();
        if let Some(place) = world.flow(flow) {
            place.turn = turn;
            self.send(world, flow, turn);
        }
    }

    /// Schedules the next packet of a flow for the earliest time that the flow's token bucket allows.
    pub(super) fn go_on<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        let turn = world.turn();
        let Some(place) = world.flow(flow) else { return };
        place.turn = 0;
        let Some((segment, _)) = place.transfer.next() else { return self.rest(world, flow) };
        let (bytes, bucket) = (place.bytes, place.bucket);
        let setup = world.setup();
        // A flow without a rate waits until it gets one.
        if let Some(at) = bucket.ready_at(setup.wire(setup.payload(bytes, segment))) {
            if let Some(place) = world.flow(flow) {
                place.turn = turn;
            }
            world.wake_at(at.max(world.now()), NodeTimer::Send { flow, turn });
        }
        world.happened(flow, Event::Paced);
    }

    /// Sends the next packet of a flow. If the program has not supplied the bytes yet, or the queue of the link has no room, schedules the
    /// packet for the time when this will have changed.
    pub(super) fn send<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, turn: u32) {
        let Some(place) = world.flow(flow).filter(|place| place.turn == turn) else { return };
        let Some((segment, is_again)) = place.transfer.next() else {
            place.turn = 0;
            return self.rest(world, flow);
        };
        let (told, bytes, host) = (place.told, place.bytes, place.host);
        let (now, setup) = (world.now(), world.setup());
        let (offset, payload) = (setup.offset(segment), setup.payload(bytes, segment));
        let (wire, is_last) = (setup.wire(payload), offset + payload == bytes);
        let wait = NodeTimer::Send { flow, turn };
        if let Some(at) = host.has(offset + payload).filter(|at| *at > now) {
            return world.wake_at(at, wait);
        }
        let Some(route) = world.draw(told.ways()) else { return self.wait_for_way(world, flow) };
        // A node does not drop its own packets before they are sent, but waits for room in its queue.
        let room = world.room_at(route.port(0).unwrap_or(0), wire);
        if room > now {
            return world.wake_at(room, wait);
        }
        let payload = payload as u32;
        self.put_part(
            world,
            &FlowPart { flow, told, segment, is_again, is_last, route, offset, payload, wire },
        );
    }

    fn put_part<W: World<Flow = F>>(&mut self, world: &mut W, part: &FlowPart<F>) {
        let &FlowPart { flow, told, segment, is_again, wire, .. } = part;
        let (now, ack_every) = (world.now(), world.setup().params.ack_every);
        let Some(place) = world.flow(flow) else { return };
        place.bucket.take(now, wire);
        place.sent += u64::from(wire);
        place.patience.sent(now, (segment, is_again), ack_every);
        world.put_part(part);
        if segment == 0 && !is_again {
            self.announce(world, BroadcastContent::Flow(told));
        }
        let Some(place) = world.flow(flow) else { return };
        let was_through = place.transfer.is_through();
        if !place.transfer.sent(segment) {
            return self.go_on(world, flow);
        }
        place.turn = 0;
        // The flow may also have stopped because the destination has no room for more.
        if !was_through && place.transfer.is_through() {
            self.announce(world, BroadcastContent::Flow(Broadcast { event: Told::End, ..told }));
        }
        self.set_alarm(world, flow);
    }

    /// Makes a flow without a path to its destination wait, with the same timer as for an acknowledgement.
    fn wait_for_way<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        let Some(place) = world.flow(flow) else { return };
        place.turn = 0;
        if place.alarm == 0 {
            self.set_alarm(world, flow);
        }
    }

    /// Restarts the retransmission timer of a flow once each unacknowledged segment has been sent again or has been acknowledged in the
    /// meantime.
    fn rest<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        let Some(place) = world.flow(flow) else { return };
        if place.transfer.rest() {
            match place.transfer.next() {
                // The destination has room for more segments again.
                Some(_) => self.go_on(world, flow),
                None => self.set_alarm(world, flow),
            }
        }
    }

    fn set_alarm<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        let now = world.now();
        if let Some(place) = world.flow(flow) {
            place.patience.begin(now);
            self.schedule_alarm(world, flow);
        }
    }

    fn schedule_alarm<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        let turn = world.turn();
        let Some(place) = world.flow(flow) else { return };
        place.alarm = turn;
        let at = place.patience.until();
        world.wake_at(at, NodeTimer::Alarm { flow, turn });
        world.happened(flow, Event::Waits);
    }

    pub(super) fn alarm<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, turn: u32) {
        let (now, timeouts) = (world.now(), world.setup().limits.timeouts);
        let Some(place) = world.flow(flow).filter(|place| place.alarm == turn) else { return };
        // An acknowledgement has arrived in the meantime.
        if place.patience.until() > now {
            return self.schedule_alarm(world, flow);
        }
        place.alarm = 0;
        place.silence += 1;
        if !place.patience.run_out() || place.silence > timeouts {
            return self.give_up(world, flow);
        }
        // Otherwise the flow was waiting for a path and has packets to send.
        if place.transfer.is_through() || place.transfer.next().is_none() {
            place.transfer.send_again();
        }
        self.go_on(world, flow);
    }

    /// Abandons a flow, because its destination does not answer, and announces the end of the flow to other nodes.
    fn give_up<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        world.happened(flow, Event::GivenUp);
        let Some(place) = world.flow(flow) else { return };
        if !place.transfer.is_through() {
            let told = Broadcast { event: Told::End, ..place.told };
            self.announce(world, BroadcastContent::Flow(told));
        }
        self.close(world, flow);
    }

    /// Removes a flow from the flows that this node sends.
    fn close<W: World<Flow = F>>(&mut self, world: &mut W, flow: F) {
        if let Some(place) = world.flow(flow) {
            (place.turn, place.alarm) = (0, 0);
        }
        let at = self.own.iter().position(|own| *own == flow).expect("an open flow is its source's");
        self.own.swap_remove(at);
        world.happened(flow, Event::Closed);
    }

    /// Handles an acknowledgement for a flow that this node sends.
    pub fn take_ack<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, (next, mask): (u32, u64)) {
        let now = world.now();
        let Some(place) = world.flow(flow) else { return };
        let before = place.transfer.acknowledged();
        let was_held = place.turn == 0 && place.transfer.next().is_none();
        place.transfer.acknowledge(next, mask);
        if place.transfer.acknowledged() == before {
            return;
        }
        place.silence = 0;
        place.patience.heard(now, &place.transfer);
        if place.transfer.is_done() {
            self.close(world, flow);
        } else if was_held && place.transfer.next().is_some() {
            // The destination has room for more segments again.
            self.go_on(world, flow);
        }
    }
}
