//! Frames of hosts behind gateways (§6). Frames between two gateways are a flow like others: announced, sent at the
//! computed rate, and over when none came for a while. Nothing is retransmitted; that is left to the hosts. The frames
//! of a flow take one path, for hosts expect a network to keep their order.

use super::{Around, Node, Packet, Timer};
use std::collections::{BTreeMap, VecDeque};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::bridge::Stations;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::demand::Demand;
use unrack_protocol::r2c2::packet::{Broadcast, DATA_HEADER, Data, Event as Told, Kind};
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::{Bytes, Time};

/// Most bytes of frames that a gateway queues for another; it drops more, as a switch would.
const MOST_WAITING: u64 = 256 << 10;
/// Time without frames after which a stream ends. Announcing it anew costs 16 B per link.
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
    /// Bytes sent since the node last computed rates, headers included.
    sent: u64,
    seq: u32,
    last: Time,
    /// Identifies the one timer that sends its next packet; 0 if there is none.
    turn: u32,
}

impl Node {
    /// Takes a frame from a host behind this gateway.
    pub fn take_from_host(&mut self, now: Time, frame: &[u8], around: &mut impl Around) {
        if frame.len() as u64 > self.plan.most {
            self.counters.dropped_packets += 1;
            return;
        }
        self.bridge.stations.learn(now, frame, self.me);
        let plan = self.plan.clone();
        let me = self.me;
        let others = plan.gateways.iter().copied().filter(|gateway| *gateway != me);
        match self.bridge.stations.gateway_of(now, frame) {
            // Both hosts are behind this gateway, and hear each other.
            Some(gateway) if gateway == me => {}
            Some(gateway) => self.bridge_to(now, gateway, frame, around),
            None => others.for_each(|gateway| self.bridge_to(now, gateway, frame, around)),
        }
    }

    fn bridge_to(&mut self, now: Time, dst: u16, frame: &[u8], around: &mut impl Around) {
        if !self.bridge.streams.contains_key(&dst) && !self.open_stream(now, dst, around) {
            return;
        }
        let Some(stream) = self.bridge.streams.get_mut(&dst) else { return };
        if stream.bytes + frame.len() as u64 > MOST_WAITING {
            self.counters.dropped_packets += 1;
            return;
        }
        let mut packet = around.empty();
        packet.resize(DATA_HEADER, 0);
        packet.extend_from_slice(frame);
        stream.bytes += frame.len() as u64;
        stream.waiting.push_back(packet);
        stream.last = now;
        self.wake_stream(now, dst, around);
    }

    fn open_stream(&mut self, now: Time, dst: u16, around: &mut impl Around) -> bool {
        let Some(flow) = self.next_number() else { return false };
        let plan = self.plan.clone();
        let told = Broadcast {
            event: Told::Start,
            src: self.me,
            dst,
            flow,
            asked: self.terms(now, dst.into()).asked,
            routing: around.map().usable(Routing::Ecmp),
            tree: (flow % u16::from(plan.params.trees)) as u8,
        };
        let ways = Ways { routing: told.routing, src: self.me.into(), dst: dst.into(), flow: flow.into() };
        let first_kbps = self.first_kbps(ways, around);
        let stream = Stream {
            told,
            bucket: TokenBucket::new(first_kbps, self.depth(first_kbps)),
            demand: Demand::new(plan.params.demand_gain.get()),
            waiting: VecDeque::new(),
            bytes: 0,
            sent: 0,
            seq: 0,
            last: now,
            turn: 0,
        };
        self.bridge.streams.insert(dst, stream);
        self.announce(now, told, around);
        self.start_ticking(now);
        true
    }

    fn wake_stream(&mut self, now: Time, dst: u16, around: &mut impl Around) {
        let turn = self.turn();
        if let Some(stream) = self.bridge.streams.get_mut(&dst).filter(|stream| stream.turn == 0) {
            stream.turn = turn;
            self.send_frames(now, dst, turn, around);
        }
    }

    /// Sends frames of a stream as its bucket and its queue allow.
    pub(super) fn send_frames(&mut self, now: Time, dst: u16, turn: u32, around: &mut impl Around) {
        loop {
            let Some(stream) = self.bridge.streams.get_mut(&dst).filter(|stream| stream.turn == turn) else {
                return;
            };
            let Some(first) = stream.waiting.front() else {
                stream.turn = 0;
                return;
            };
            let (told, wire) = (stream.told, first.len() as u32);
            match stream.bucket.ready_at(wire) {
                Some(at) if at <= now => {}
                // Without a rate, the stream waits for the next computation.
                at => {
                    return self
                        .at(at.unwrap_or(now + self.plan.params.interval), Timer::Frames { dst, turn });
                }
            }
            let ways =
                Ways { routing: told.routing, src: told.src.into(), dst: dst.into(), flow: told.flow.into() };
            let route = self.draw(ways, around);
            let port = route.and_then(|route| route.port(0)).unwrap_or(0);
            let room = around.room_at(now, port, wire.into());
            if room > now {
                return self.at(room, Timer::Frames { dst, turn });
            }
            let Some(stream) = self.bridge.streams.get_mut(&dst) else { return };
            let Some(mut packet) = stream.waiting.pop_front() else { return };
            let plen = wire as usize - DATA_HEADER;
            stream.bytes -= plen as u64;
            stream.bucket.take(now, wire);
            stream.sent += u64::from(wire);
            let seq = stream.seq;
            stream.seq = seq.wrapping_add(1);
            let Some(route) = route else {
                self.counters.dropped_packets += 1;
                around.spare(packet);
                continue;
            };
            let (flow, src, plen) = (told.flow, told.src, plen as u16);
            Data { kind: Kind::Frame, flow, src, dst, seq, plen, route, ridx: 1 }.seal(&mut packet);
            self.counters.sent_bytes += u64::from(plen);
            self.put(now, port, packet, around);
        }
    }

    /// Takes a frame for a host behind this gateway.
    pub(super) fn take_frame(&mut self, now: Time, data: Data, packet: Packet, around: &mut impl Around) {
        if !(self.plan.gateways.contains(&self.me) && self.plan.gateways.contains(&data.src)) {
            return self.refuse(packet, around);
        }
        let frame = &packet[DATA_HEADER..];
        self.counters.arrived_bytes += u64::from(data.plen);
        self.bridge.stations.learn(now, frame, data.src);
        around.to_host(frame);
        around.spare(packet);
    }

    /// Updates the rates of streams, once an interval, and ends those without frames.
    pub(super) fn tick_streams(&mut self, now: Time, around: &mut impl Around) {
        for dst in self.bridge.streams.keys().copied().collect::<Vec<u16>>() {
            let Some(stream) = self.bridge.streams.get_mut(&dst) else { continue };
            if stream.waiting.is_empty() && stream.last + REST <= now {
                let told = Broadcast { event: Told::End, ..stream.told };
                self.bridge.streams.remove(&dst);
                self.announce(now, told, around);
                continue;
            }
            let sent = std::mem::take(&mut stream.sent);
            let Some(kbps) = self.view.kbps((self.me, stream.told.flow)) else { continue };
            let waiting = stream.bytes + (stream.waiting.len() * DATA_HEADER) as u64;
            let interval = self.plan.params.interval;
            let told = stream.demand.observe(Bytes::new(sent), Bytes::new(waiting), interval, kbps);
            if let Some(demand_kbps) = told {
                stream.told.asked.demand_kbps = demand_kbps;
                let told = Broadcast { event: Told::Demand, ..stream.told };
                self.announce(now, told, around);
            }
            let depth = self.depth(kbps);
            let Some(stream) = self.bridge.streams.get_mut(&dst) else { continue };
            if kbps != stream.bucket.kbps() {
                stream.bucket.set_rate(now, kbps);
                stream.bucket.set_depth(depth);
                // The stream sends at the new rate at once, whatever timer it waited for.
                stream.turn = 0;
                self.wake_stream(now, dst, around);
            }
        }
    }

    /// Announces all streams again after links failed or came back.
    pub(super) fn discover_streams(&mut self, now: Time, around: &mut impl Around) {
        for dst in self.bridge.streams.keys().copied().collect::<Vec<u16>>() {
            let Some(stream) = self.bridge.streams.get_mut(&dst) else { continue };
            stream.told.routing = around.map().usable(Routing::Ecmp);
            let told = Broadcast { event: Told::Start, ..stream.told };
            self.announce(now, told, around);
        }
    }

    /// Returns the current announcement of a stream.
    pub(super) fn stream_of(&self, flow: u16) -> Option<Broadcast> {
        self.bridge.streams.values().map(|stream| stream.told).find(|told| told.flow == flow)
    }
}
