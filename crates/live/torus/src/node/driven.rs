//! Surroundings of the protocol's node: packets as bytes, timers in a heap, and the node's random numbers.

use super::{Event, LiveState, NodeServices, Packet, SourceFlow, Timer};
use unrack_protocol::r2c2::map::RackMap;
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::node::{self, ControlPacket, FlowPart, RackSetup, World};
use unrack_protocol::r2c2::packet::{Announcement, BROADCAST, Broadcast, DATA_HEADER, Data, Kind, Route};
use unrack_protocol::r2c2::weights::FlowPaths;
use unrack_units::Time;

/// A node's surroundings at one time.
pub(super) struct Driven<'a, A> {
    pub now: Time,
    pub own: &'a mut LiveState,
    pub around: &'a mut A,
}

impl<A: NodeServices> Driven<'_, A> {
    /// Counts a packet, and puts it into the queue of a port. Returns whether it left.
    pub(super) fn put(&mut self, port: u32, packet: Packet) -> bool {
        self.own.counters.packet_hops += 1;
        match self.around.put(self.now, port, packet) {
            Ok(()) => true,
            Err(packet) => {
                self.own.lose(packet, self.around);
                false
            }
        }
    }

    /// Returns a packet with space for the header, and for `bytes` bytes of payload after it.
    fn blank(&mut self, bytes: usize) -> Packet {
        let mut packet = self.around.empty();
        packet.resize(DATA_HEADER + bytes, 0);
        packet
    }
}

impl<A: NodeServices> World for Driven<'_, A> {
    type Flow = SourceFlow;
    type Carried = Packet;

    fn now(&self) -> Time {
        self.now
    }

    fn setup(&self) -> &RackSetup {
        &self.own.plan.setup
    }

    fn map(&mut self) -> &mut RackMap {
        self.around.map()
    }

    fn alone_kbps(&mut self, ways: FlowPaths) -> u32 {
        self.own.empty.alone_kbps(&self.around.map().weights.shares(ways))
    }

    fn draw(&mut self, ways: FlowPaths) -> Option<Route> {
        let random = &mut self.own.random;
        self.around.map().draw(ways, &mut || random.next_u64())
    }

    fn flow(&mut self, (_, number): SourceFlow) -> Option<&mut node::Flow> {
        self.own.sending.get_mut(&number).map(|sending| &mut sending.flow)
    }

    fn turn(&mut self) -> u32 {
        self.own.turns = self.own.turns.wrapping_add(1).max(1);
        self.own.turns
    }

    fn wake_at(&mut self, at: Time, timer: node::NodeTimer<SourceFlow>) {
        self.own.at(at, Timer::Core(timer));
    }

    fn room_at(&self, port: u32, wire: u32) -> Time {
        self.around.room_at(self.now, port, wire.into())
    }

    fn put_part(&mut self, part: &FlowPart<SourceFlow>) {
        let FlowPart { flow, told, segment, is_again, is_last, route, offset, payload, .. } = *part;
        let header = Data {
            kind: if is_last { Kind::Last } else { Kind::Data },
            flow: told.flow,
            src: told.src,
            dst: told.dst,
            seq: segment,
            plen: payload as u16,
            route,
            ridx: 1,
        };
        let mut packet = self.blank(payload as usize);
        self.around.fill(flow, offset, &mut packet[DATA_HEADER..]);
        header.seal(&mut packet);
        self.own.counters.sent_bytes += u64::from(payload);
        if let Some(sending) = self.own.sending.get_mut(&told.flow) {
            sending.retransmissions += u32::from(is_again);
        }
        // The route has at least one hop, because the destination is another node.
        self.put(route.port(0).unwrap_or(0), packet);
    }

    fn put_control(&mut self, dst: u32, route: Route, control: ControlPacket<SourceFlow>) -> bool {
        let (kind, flow, seq) = match control {
            ControlPacket::Ack { flow: (_, number), next, .. } => (Kind::Ack, number, next),
            ControlPacket::Lost(_) | ControlPacket::Told(_) => (Kind::Lost, 0, 0),
        };
        let mut packet = self.around.empty();
        packet.resize(DATA_HEADER, 0);
        match control {
            ControlPacket::Ack { mask, .. } => packet.extend_from_slice(&mask.to_be_bytes()),
            ControlPacket::Lost(news) => packet.extend_from_slice(&lost(news)),
            ControlPacket::Told(_) => unreachable!("a plan has no controller"),
        }
        let plen = (packet.len() - DATA_HEADER) as u16;
        Data { kind, flow, src: self.own.me, dst: dst as u16, seq, plen, route, ridx: 1 }.seal(&mut packet);
        self.put(route.port(0).unwrap_or(0), packet)
    }

    fn carry(&mut self, news: BroadcastContent) -> Option<Packet> {
        self.own.start_selecting(self.now);
        let mut packet = self.around.empty();
        match news {
            BroadcastContent::Flow(told) => packet.extend_from_slice(&told.encode()),
            BroadcastContent::Routings { src, tree, number } => {
                let number = number as u16;
                let (_, known) = self.own.announced.iter().find(|(known, _)| *known == number)?;
                packet.extend_from_slice(known);
                Announcement { tree, src, number }.seal(&mut packet);
            }
        }
        Some(packet)
    }

    fn cross(&mut self, link: u32, _news: BroadcastContent, carried: &Packet) -> bool {
        let first = self.own.plan.setup.graph.links_of(self.own.me.into()).start;
        let mut copy = self.around.empty();
        copy.extend_from_slice(carried);
        self.own.counters.packet_hops += 1;
        let lost = self.around.put(self.now, link - first, copy).err();
        self.own.counters.lost_broadcasts += u64::from(lost.is_some());
        match lost {
            Some(copy) => {
                self.around.spare(copy);
                false
            }
            None => true,
        }
    }

    fn put_down(&mut self, carried: Packet) {
        self.around.spare(carried);
    }

    fn told_besides(&self, number: u16) -> Option<Broadcast> {
        self.own.stream_of(number)
    }

    fn happened(&mut self, flow: SourceFlow, event: node::Event) {
        let event = match event {
            node::Event::Opened => self.own.opened(flow),
            node::Event::Closed => self.own.closed(flow),
            node::Event::Paced | node::Event::Waits | node::Event::GivenUp => None,
        };
        event.into_iter().for_each(|event: Event| self.around.happened(self.now, event));
    }
}

/// Returns the body of a report: the lost broadcast. Of a lost announcement of routings, it has only the header, without the pairs.
fn lost(news: BroadcastContent) -> [u8; BROADCAST] {
    match news {
        BroadcastContent::Flow(told) => told.encode(),
        BroadcastContent::Routings { src, tree, number } => {
            let mut header = [0; BROADCAST];
            Announcement { tree, src, number: number as u16 }.seal(&mut header);
            header
        }
    }
}
