//! Completion time of a message that is alone in the network, in closed form.

use unrack_engine::topology::Link;
use unrack_protocol::tcp::Framing;
use unrack_units::Time;

/// Parameters that determine the time of a stream that is alone.
#[derive(Debug, Clone)]
pub(in super::super) struct LoneStreamParams {
    /// First link of the path, if it is faster than `links`. No packet waits on it.
    pub lead: Option<Link>,
    /// Links of the path in order, after `lead`. No link is slower than the first.
    pub links: Vec<Link>,
    pub switch_latency: Time,
    pub framing: Framing,
    pub cut_through: bool,
    pub initial_window: u64,
    /// Switch ports of each path that packets take in turn, if switches store and forward. Empty if all packets take the same path, or if
    /// no packet can overtake another.
    pub paths: Vec<Box<[u32]>>,
    /// Time between the starts of consecutive packets. `None`: packets are sent back to back.
    pub spacing: Option<Time>,
}

/// A packet that is sent at `start`, or as soon after `start` as the link allows.
#[derive(Debug, Clone, Copy)]
struct SentPacket {
    start: Time,
    wire: u64,
}

impl LoneStreamParams {
    /// Returns when the last bit of the last of these packets is at the other end. The packets are sent in this order.
    fn arrive<const N: usize>(&self, mut packets: [SentPacket; N]) -> Time {
        if let Some(lead) = self.lead {
            for packet in &mut packets {
                let stored = if self.cut_through { Time::ZERO } else { lead.pace.transmit(packet.wire) };
                packet.start += stored + lead.propagation + self.switch_latency;
            }
        }
        let mut arrived = Time::ZERO;
        for (n, link) in self.links.iter().enumerate() {
            let mut free = Time::ZERO;
            for packet in &mut packets {
                let first = packet.start.max(free);
                free = first + link.pace.transmit(packet.wire);
                packet.start = match self.links.get(n + 1) {
                    Some(next) if self.cut_through => {
                        first.max(free.saturating_sub(next.pace.transmit(packet.wire)))
                    }
                    _ => free,
                } + link.propagation
                    + self.switch_latency;
            }
            arrived = free + link.propagation;
        }
        arrived
    }

    /// Returns the time from the start of a full packet until the arrival of its acknowledgement.
    pub(in super::super) fn round_trip(&self) -> Time {
        let alone = |wire| self.arrive([SentPacket { start: Time::ZERO, wire }]);
        alone(self.full()) + alone(self.framing.ack_wire(0).get())
    }

    fn full(&self) -> u64 {
        self.framing.wire(self.framing.mss().get()).get()
    }

    /// Returns when segment `number` of a stream starts, relative to the first segment.
    ///
    /// In slow start, each acknowledgement releases two segments, and acknowledgements come one packet time apart. Therefore each round
    /// starts one round trip after the previous round, and sends twice its window back to back. This lasts until a window takes a full
    /// round trip to send; from then on the link is never idle.
    fn start(&self, number: u64) -> Time {
        let packet = self.spacing.unwrap_or_else(|| self.links[0].pace.transmit(self.full()));
        let round_trip = self.round_trip();
        let (mut window, mut first, mut start) = (self.initial_window, 0, Time::ZERO);
        while number >= first + window && packet * window < round_trip {
            first += window;
            window *= 2;
            start += round_trip;
        }
        start + packet * (number - first)
    }

    /// Returns the time until `full` full packets, and this packet after them, have arrived by paths that they take in turn. If switches
    /// store and forward, a short last packet may overtake full packets between two switches, and delay them where paths meet.
    fn sprayed(&self, full: u64, packet: SentPacket) -> Time {
        // Full packets keep their distance, so the packets that the short one cannot meet do not matter.
        let met = full.min(self.links.len() as u64 + 1);
        let mut packets: Vec<(SentPacket, &[u32])> = (full - met..full)
            .map(|number| SentPacket { start: self.start(number), wire: self.full() })
            .chain([packet])
            .zip(self.paths.iter().map(|path| &**path))
            .collect();
        for (n, link) in self.links.iter().enumerate() {
            packets.sort_by_key(|(packet, _)| packet.start);
            // The first link is the link of the node, which all packets share.
            let port_of = |path: &[u32]| n.checked_sub(1).map(|n| path[n]);
            let mut free: Vec<(Option<u32>, Time)> = Vec::new();
            for (packet, path) in &mut packets {
                let before = free.iter().rev().find(|(port, _)| *port == port_of(path));
                let first = before.map_or(packet.start, |(_, free)| packet.start.max(*free));
                let last = first + link.pace.transmit(packet.wire);
                free.push((port_of(path), last));
                packet.start = last + link.propagation + self.switch_latency;
            }
        }
        let last = packets.iter().map(|(packet, _)| packet.start).max();
        // There is no switch behind the last link.
        last.expect("there are packets") - self.switch_latency
    }

    /// Returns the time until a packet of `wire` bytes has arrived at the other end.
    pub(in super::super) fn packet(&self, wire: u64) -> Time {
        self.arrive([SentPacket { start: Time::ZERO, wire }])
    }

    /// Returns the time until the last byte of a stream of `bytes` has arrived at the other end.
    pub(in super::super) fn stream(&self, bytes: u64) -> Time {
        let last = u64::from(self.framing.segments(bytes) - 1);
        let wire = self.framing.wire(self.framing.payload(bytes, last as u32)).get();
        let packet = SentPacket { start: self.start(last), wire };
        match last {
            0 => self.arrive([packet]),
            _ if !self.paths.is_empty() => self.sprayed(last, packet),
            // A short last packet may have to wait for the full packet before it.
            _ => self.arrive([SentPacket { start: self.start(last - 1), wire: self.full() }, packet]),
        }
    }
}
