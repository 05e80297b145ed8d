//! Frames of hosts behind gateways (§6). The frames between two gateways are a flow like others: it is announced, sent at the computed
//! rate, and ended when no frame arrived for a time. Lost frames are not retransmitted, which is left to the hosts. The frames of a flow
//! take one path, because hosts expect that a network keeps their order.

use super::{Driven, LiveState, Node, NodeServices, Packet, Timer};
use std::collections::{BTreeMap, VecDeque};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::bridge::Stations;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::demand::Demand;
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::node::World;
use unrack_protocol::r2c2::packet::{Broadcast, DATA_HEADER, Data, Event as Told, Kind};
use unrack_units::{Bytes, Time};

/// Maximum bytes of frames that a gateway queues for another gateway. It drops further frames, as a switch would.
const MOST_WAITING: u64 = 256 << 10;
/// Time without frames after which a stream ends. Announcing it again costs 16 B per link.
const REST: Time = Time::from_us(50_000);

/// A gateway's side of the switched network.
#[derive(Default)]
pub(super) struct Bridge {
    stations: Stations,
    /// Streams to other gateways, by gateway.
    pub streams: BTreeMap<u16, Stream>,
}

/// Frames to one other gateway.
pub(super) struct Stream {
    told: Broadcast,
    bucket: TokenBucket,
    demand: Demand,
    /// Packets whose header is not written yet.
    waiting: VecDeque<Packet>,
    bytes: u64,
    /// Bytes sent since the node last computed rates, including headers.
    sent: u64,
    seq: u32,
    last: Time,
    /// Number of the timer that sends the stream's next packet; 0 if no timer is set. Other timers of the stream are ignored.
    turn: u32,
}

impl Node {
    /// Handles a frame from a host behind this gateway.
    pub(crate) fn take_from_host(&mut self, now: Time, frame: &[u8], around: &mut impl NodeServices) {
        let (plan, me) = (self.own.plan.clone(), self.own.me);
        if frame.len() as u64 > plan.setup.most {
            self.own.counters.dropped_packets += 1;
            return;
        }
        self.own.bridge.stations.learn(now, frame, me);
        let others = plan.gateways.iter().copied().filter(|gateway| *gateway != me);
        match self.own.bridge.stations.gateway_of(now, frame) {
            // The two hosts are behind this gateway, and receive each other's frames directly.
            Some(gateway) if gateway == me => {}
            Some(gateway) => self.bridge_to(now, gateway, frame, around),
            None => others.for_each(|gateway| self.bridge_to(now, gateway, frame, around)),
        }
    }

    fn bridge_to(&mut self, now: Time, dst: u16, frame: &[u8], around: &mut impl NodeServices) {
        if !self.own.bridge.streams.contains_key(&dst) && !self.open_stream(now, dst, around) {
            return;
        }
        let Some(stream) = self.own.bridge.streams.get_mut(&dst) else { return };
        if stream.bytes + frame.len() as u64 > MOST_WAITING {
            self.own.counters.dropped_packets += 1;
            return;
        }
        let mut packet = around.empty();
        packet.resize(DATA_HEADER, 0);
        packet.extend_from_slice(frame);
        stream.bytes += frame.len() as u64;
        stream.waiting.push_back(packet);
        stream.last = now;
        self.at(now, around).1.wake_stream(dst);
    }

    fn open_stream(&mut self, now: Time, dst: u16, around: &mut impl NodeServices) -> bool {
        let Some(flow) = self.own.next_number() else { return false };
        let (core, mut driven) = self.at(now, around);
        let stream = driven.stream(dst, flow);
        let told = stream.told;
        driven.own.bridge.streams.insert(dst, stream);
        core.announce(&mut driven, BroadcastContent::Flow(told));
        core.start_ticking(&mut driven);
        true
    }

    /// Updates the rates of streams, once per interval, and ends streams without frames.
    pub(super) fn tick_streams(&mut self, now: Time, around: &mut impl NodeServices) {
        let interval = self.own.plan.setup.params.interval;
        for dst in self.own.bridge.streams.keys().copied().collect::<Vec<u16>>() {
            let (core, mut driven) = self.at(now, around);
            let Some(stream) = driven.own.bridge.streams.get_mut(&dst) else { continue };
            if stream.waiting.is_empty() && stream.last + REST <= now {
                let told = Broadcast { event: Told::End, ..stream.told };
                driven.own.bridge.streams.remove(&dst);
                core.announce(&mut driven, BroadcastContent::Flow(told));
                continue;
            }
            let sent = std::mem::take(&mut stream.sent);
            let Some(kbps) = core.view.kbps((stream.told.src, stream.told.flow)) else { continue };
            let waiting = stream.bytes + (stream.waiting.len() * DATA_HEADER) as u64;
            let told = stream.demand.observe(Bytes::new(sent), Bytes::new(waiting), interval, kbps);
            if let Some(demand_kbps) = told {
                stream.told.asked.demand_kbps = demand_kbps;
                let told = Broadcast { event: Told::Demand, ..stream.told };
                core.announce(&mut driven, BroadcastContent::Flow(told));
            }
            driven.set_stream_rate(dst, kbps);
        }
    }

    /// Announces all streams again after links have failed or recovered.
    pub(super) fn discover_streams(&mut self, now: Time, around: &mut impl NodeServices) {
        let routing = around.map().usable(Routing::Ecmp);
        let (core, mut driven) = self.at(now, around);
        for dst in driven.own.bridge.streams.keys().copied().collect::<Vec<u16>>() {
            let Some(stream) = driven.own.bridge.streams.get_mut(&dst) else { continue };
            stream.told.routing = routing;
            let told = Broadcast { event: Told::Start, ..stream.told };
            core.announce(&mut driven, BroadcastContent::Flow(told));
        }
    }
}

impl<A: NodeServices> Driven<'_, A> {
    /// Returns a new stream to another gateway, with this flow number.
    fn stream(&mut self, dst: u16, flow: u16) -> Stream {
        let (plan, src) = (self.own.plan.clone(), self.own.me);
        let since = self.now.saturating_sub(self.own.began);
        let told = Broadcast {
            event: Told::Start,
            src,
            dst,
            flow,
            asked: plan.setup.terms(src.into(), dst.into(), since).asked,
            routing: self.around.map().usable(Routing::Ecmp),
            tree: plan.setup.tree(flow.into()),
        };
        let first_kbps = plan.setup.first_kbps(self.alone_kbps(told.ways()), src.into());
        Stream {
            told,
            bucket: TokenBucket::new(first_kbps, plan.setup.depth(first_kbps)),
            demand: Demand::new(plan.setup.params.demand_gain.get()),
            waiting: VecDeque::new(),
            bytes: 0,
            sent: 0,
            seq: 0,
            last: self.now,
            turn: 0,
        }
    }

    fn set_stream_rate(&mut self, dst: u16, kbps: u32) {
        let depth = self.own.plan.setup.depth(kbps);
        let Some(stream) = self.own.bridge.streams.get_mut(&dst) else { return };
        if kbps != stream.bucket.kbps() {
            stream.bucket.set_rate(self.now, kbps);
            stream.bucket.set_depth(depth);
            // The stream sends at the new rate at once, whichever timer it was waiting for.
            stream.turn = 0;
            self.wake_stream(dst);
        }
    }

    fn wake_stream(&mut self, dst: u16) {
        let turn = self.turn();
        if let Some(stream) = self.own.bridge.streams.get_mut(&dst).filter(|stream| stream.turn == 0) {
            stream.turn = turn;
            self.send_frames(dst, turn);
        }
    }

    /// Sends frames of a stream as its token bucket and its queue allow.
    pub(super) fn send_frames(&mut self, dst: u16, turn: u32) {
        let now = self.now;
        loop {
            let streams = &mut self.own.bridge.streams;
            let Some(stream) = streams.get_mut(&dst).filter(|stream| stream.turn == turn) else { return };
            let Some(first) = stream.waiting.front() else {
                stream.turn = 0;
                return;
            };
            let (told, wire) = (stream.told, first.len() as u32);
            match stream.bucket.ready_at(wire) {
                Some(at) if at <= now => {}
                // Without a rate, the stream waits for the next computation of rates.
                at => {
                    let at = at.unwrap_or(now + self.own.plan.setup.params.interval);
                    return self.own.at(at, Timer::Frames { dst, turn });
                }
            }
            let route = self.draw(told.ways());
            let port = route.and_then(|route| route.port(0)).unwrap_or(0);
            let room = self.around.room_at(now, port, wire.into());
            if room > now {
                return self.own.at(room, Timer::Frames { dst, turn });
            }
            let Some(stream) = self.own.bridge.streams.get_mut(&dst) else { return };
            let Some((seq, mut packet)) = stream.pop(now, wire) else { return };
            let Some(route) = route else {
                self.own.counters.dropped_packets += 1;
                self.around.spare(packet);
                continue;
            };
            let (flow, src, plen) = (told.flow, told.src, (wire as usize - DATA_HEADER) as u16);
            Data { kind: Kind::Frame, flow, src, dst, seq, plen, route, ridx: 1 }.seal(&mut packet);
            self.own.counters.sent_bytes += u64::from(plen);
            self.put(port, packet);
        }
    }
}

impl Stream {
    /// Removes the next packet, of `wire` bytes, from the stream, and returns it with its sequence number.
    fn pop(&mut self, now: Time, wire: u32) -> Option<(u32, Packet)> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(wire) - DATA_HEADER as u64;
        self.bucket.take(now, wire);
        self.sent += u64::from(wire);
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        Some((seq, packet))
    }
}

impl LiveState {
    /// Handles a frame for a host behind this gateway.
    pub(super) fn take_frame(
        &mut self,
        now: Time,
        data: Data,
        packet: Packet,
        around: &mut impl NodeServices,
    ) {
        if !(self.plan.gateways.contains(&self.me) && self.plan.gateways.contains(&data.src)) {
            return self.refuse(packet, around);
        }
        let frame = &packet[DATA_HEADER..];
        self.counters.arrived_bytes += u64::from(data.plen);
        self.bridge.stations.learn(now, frame, data.src);
        around.to_host(frame);
        around.spare(packet);
    }

    /// Returns the current announcement of the stream that has this flow number.
    pub(super) fn stream_of(&self, flow: u16) -> Option<Broadcast> {
        self.bridge.streams.values().map(|stream| stream.told).find(|told| told.flow == flow)
    }
}
