//! Surroundings of a node: simulated time, the queues of its links, and packets as values.

use super::event::Event;
use super::flow::Flow;
use super::rack::Rack;
use super::wire::{Body, NONE, Packet};
use unrack_engine::events::{Core, Observer, WaitReason};
use unrack_protocol::r2c2::map::RackMap;
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::node::{self, ControlPacket, FlowPart, NodeTimer, RackSetup, World};
use unrack_protocol::r2c2::packet::{BROADCAST, MASK, Route};
use unrack_protocol::r2c2::weights::FlowPaths;
use unrack_units::Time;

/// Surroundings of one node, at the time of an event.
pub(super) struct NodeSurroundings<'a, O> {
    pub node: u32,
    pub core: &'a mut Core<Event, O>,
    pub rack: &'a mut Rack,
}

impl<O: Observer> World for NodeSurroundings<'_, O> {
    type Flow = u32;
    /// Index of the broadcast, which counts its copies.
    type Carried = u32;

    fn now(&self) -> Time {
        self.core.now()
    }

    fn setup(&self) -> &RackSetup {
        &self.rack.setup
    }

    fn map(&mut self) -> &mut RackMap {
        &mut self.rack.map
    }

    fn alone_kbps(&mut self, ways: FlowPaths) -> u32 {
        self.rack.empty.alone_kbps(&self.rack.map.weights.shares(ways))
    }

    fn draw(&mut self, ways: FlowPaths) -> Option<Route> {
        self.rack.draw(ways)
    }

    fn flow(&mut self, flow: u32) -> Option<&mut node::Flow> {
        Some(&mut self.rack.flows[flow].sending)
    }

    fn turn(&mut self) -> u32 {
        self.rack.turn()
    }

    fn wake_at(&mut self, at: Time, timer: NodeTimer<u32>) {
        self.core.schedule(at, Event::new(self.node, timer));
    }

    fn room_at(&self, port: u32, wire: u32) -> Time {
        let link = self.rack.setup.graph.links_of(self.node).start + port;
        self.rack.wires.room_at(link, self.core.now(), wire)
    }

    fn put_part(&mut self, part: &FlowPart<u32>) {
        let FlowPart { flow, segment, is_again, route, payload, wire, .. } = *part;
        self.core.sent(u64::from(payload));
        if is_again {
            self.core.retransmitted(self.rack.flows[flow].message);
        }
        let packet = Packet { flow, body: Body::Data(segment), route, done: 0, wire, payload };
        self.rack.put(self.core, self.node, packet);
    }

    fn put_control(&mut self, _dst: u32, route: Route, control: ControlPacket<u32>) -> bool {
        let (flow, body, bytes) = match control {
            ControlPacket::Ack { flow, next, mask } => (flow, Body::Ack { next, mask }, MASK),
            ControlPacket::Lost(news) => (NONE, Body::Lost(news), BROADCAST),
            ControlPacket::Told(news) => (NONE, Body::Told(news), BROADCAST),
        };
        let wire = self.rack.setup.wire(bytes as u64);
        self.rack.put(self.core, self.node, Packet { flow, body, route, done: 0, wire, payload: 0 })
    }

    fn carry(&mut self, news: BroadcastContent) -> Option<u32> {
        Some(self.rack.spread(news))
    }

    fn cross(&mut self, link: u32, news: BroadcastContent, spread: &u32) -> bool {
        self.rack.cross(self.core, link, news, *spread)
    }

    fn put_down(&mut self, spread: u32) {
        self.rack.drop_copy(spread);
    }

    fn happened(&mut self, flow: u32, event: node::Event) {
        let Flow { message, ref receiver, .. } = self.rack.flows[flow];
        match event {
            node::Event::Opened => {
                self.rack.schedule_rules(self.core);
                self.rack.start_selecting(self.core);
            }
            node::Event::Paced => self.core.waits(message, || WaitReason::Pacing),
            node::Event::Waits => self.core.waits(message, || WaitReason::Retransmission),
            // The message is given up, unless its receiver has all segments.
            node::Event::GivenUp if !receiver.is_complete() => self.core.give_up(message),
            node::Event::GivenUp => {}
            node::Event::Closed => self.rack.flows.close(flow),
        }
    }
}
