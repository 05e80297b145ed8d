//! Completion time of a message that is alone in the network, as arithmetic.

use unrack_engine::topology::Link;
use unrack_protocol::tcp::Framing;
use unrack_units::Time;

/// Parameters that determine the time of a lone stream.
#[derive(Debug, Clone)]
pub(in super::super) struct Alone {
    /// Faster link before `links`, on which nothing waits.
    pub lead: Option<Link>,
    /// Links from the sender's on. None is slower than the first.
    pub links: Vec<Link>,
    pub switch_latency: Time,
    pub framing: Framing,
    pub cut_through: bool,
    pub initial_window: u64,
    /// Number of paths that packets take in turn. 1: all take the same.
    pub ways: u32,
    /// Time from the start of a packet to that of the next. `None`: no break.
    pub spacing: Option<Time>,
}

/// A packet that is sent at `start` or as soon after it as the link allows.
#[derive(Debug, Clone, Copy)]
struct Sent {
    start: Time,
    wire: u64,
}

impl Alone {
    /// Returns when the last bit of the last of these packets, sent in this order, is at the other end.
    fn arrive<const N: usize>(&self, mut packets: [Sent; N]) -> Time {
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

    /// Returns the time from the start of a full packet until its acknowledgement is back.
    pub(in super::super) fn round_trip(&self) -> Time {
        let alone = |wire| self.arrive([Sent { start: Time::ZERO, wire }]);
        alone(self.full()) + alone(self.framing.ack_wire(0).get())
    }

    fn full(&self) -> u64 {
        self.framing.wire(self.framing.mss().get()).get()
    }

    /// Returns when segment `number` of a stream starts, counted from the first.
    ///
    /// Slow start: an acknowledgement releases two segments, one packet time after the one before, so each round
    /// sends twice the window of the last back to back, one round trip after it. This goes on until a window lasts a
    /// round trip, and the link never falls idle again.
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

    /// Returns when these packets, sent on the same path in this order and stored at each switch, arrive at the last
    /// port.
    fn last_port<const N: usize>(&self, packets: [Sent; N]) -> [Time; N] {
        let mut at = packets.map(|packet| packet.start);
        for link in &self.links[..self.links.len() - 1] {
            let mut free = Time::ZERO;
            for (at, packet) in at.iter_mut().zip(&packets) {
                free = free.max(*at) + link.pace.transmit(packet.wire);
                *at = free + link.propagation + self.switch_latency;
            }
        }
        at
    }

    /// Returns the time until `full` full packets and this one after them have arrived by paths of their own. Where
    /// switches store and forward, a short last packet may overtake full ones, and be in their way at the last port.
    fn sprayed(&self, full: u64, packet: Sent) -> Time {
        let of = |number| Sent { start: self.start(number), wire: self.full() };
        let short = match full.checked_sub(u64::from(self.ways)) {
            Some(same_way) => self.last_port([of(same_way), packet])[1],
            None => self.last_port([packet])[0],
        };
        let last_link = self.links[self.links.len() - 1];
        let (full_time, short_time) =
            (last_link.pace.transmit(self.full()), last_link.pace.transmit(packet.wire));
        // Full packets find the port as the one before them left it, or free: those long before do not matter.
        let mut arrivals: Vec<_> = (full.saturating_sub(64)..full)
            .map(|number| (self.last_port([of(number)])[0], full_time))
            .chain([(short, short_time)])
            .collect();
        arrivals.sort_by_key(|(at, _)| *at);
        let done = arrivals.into_iter().fold(Time::ZERO, |free, (at, time)| free.max(at) + time);
        done + last_link.propagation
    }

    /// Returns the time until a packet of `wire` bytes is at the other end.
    pub(in super::super) fn packet(&self, wire: u64) -> Time {
        self.arrive([Sent { start: Time::ZERO, wire }])
    }

    /// Returns the time until the last byte of a stream of `bytes` is at the other end.
    pub(in super::super) fn stream(&self, bytes: u64) -> Time {
        let last = u64::from(self.framing.segments(bytes) - 1);
        let wire = self.framing.wire(self.framing.payload(bytes, last as u32)).get();
        let packet = Sent { start: self.start(last), wire };
        match last {
            0 => self.arrive([packet]),
            _ if self.ways > 1 && !self.cut_through => self.sprayed(last, packet),
            // A short last packet may have to wait for the full one before it.
            _ => self.arrive([Sent { start: self.start(last - 1), wire: self.full() }, packet]),
        }
    }
}
