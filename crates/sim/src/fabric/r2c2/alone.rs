//! How long a flow takes alone: arithmetic.

use super::R2c2;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::weights::{Share, Ways};
use unrack_units::{Bytes, Rate, Time};

impl R2c2 {
    pub(super) fn alone(&self, src: u32, dst: u32, bytes: u64) -> Time {
        let last = self.segments(bytes) - 1;
        let full = self.wire(self.most);
        let arrival = |segment: u32| {
            let wire = self.wire(self.payload(bytes, segment));
            // A short packet finds more in the bucket than it needs.
            let before = (u64::from(full) * u64::from(segment)).saturating_sub(u64::from(full - wire));
            self.pace_alone(src, dst, before) + self.way_alone(src, dst, wire)
        };
        // A short last packet may overtake the full one before it.
        let arrival = arrival(last).max(arrival(last.saturating_sub(1)));
        match self.slowest_host(src, dst) {
            Some(rate) => {
                let wire = self.wire(self.payload(bytes, last));
                arrival.max(rate.transmit(Bytes::new(bytes)) + self.way_alone(src, dst, wire))
            }
            None => arrival,
        }
    }

    /// At which its host gives it bytes, if that is known for all times.
    fn slowest_host(&self, src: u32, dst: u32) -> Option<Rate> {
        let mut matching = self.params.rules.iter().filter(|rule| rule.matches(src, dst));
        let first = self.terms(src, dst, Time::ZERO).demand?;
        matching.all(|rule| rule.at == Time::ZERO || rule.demand.is_none()).then_some(first)
    }

    /// All by which packets between these nodes may ever be sent.
    fn routings(&self, src: u32, dst: u32) -> Vec<Routing> {
        let rules = self.params.rules.iter().filter(|rule| rule.matches(src, dst));
        let of_rules = rules.filter_map(|rule| rule.routing);
        let chosen = self.params.selection.iter().flat_map(|selection| selection.routings.iter().copied());
        [self.params.routing].into_iter().chain(of_rules).chain(chosen).collect()
    }

    /// When so many bytes were sent and paid for.
    fn pace_alone(&self, src: u32, dst: u32, bytes: u64) -> Time {
        let first = u64::from(self.first_kbps(src));
        let time = |bytes: u64, kbps: u64| {
            Time::from_ps((u128::from(bytes) * 8_000_000_000 / u128::from(kbps)) as u64)
        };
        let at_first = time(bytes, first);
        if at_first <= self.params.interval {
            return at_first;
        }
        let of = |Share { link, share }: &Share| {
            let rate = self.links[*link as usize].pace.rate().as_bps() as f64 / 1_000.0;
            rate * (1.0 - self.params.headroom.get()) * f64::from(Share::ONE) / f64::from(*share)
        };
        let alone = |routing| {
            let mut shares = Vec::new();
            let ways = Ways { routing, src, dst, flow: 0 };
            self.weights.borrow_mut().append(ways, &mut shares);
            // By the hash of a flow, another path; none has more than the fastest link.
            match routing {
                Routing::Ecmp => 0.0,
                _ => shares.iter().map(of).fold(f64::INFINITY, f64::min),
            }
        };
        let alone = self.routings(src, dst).into_iter().map(alone).fold(0.0, f64::max);
        let kbps = (alone as u64).max(first);
        let in_first = (u128::from(first) * u128::from(self.params.interval.as_ps()) / 8_000_000_000) as u64;
        self.params.interval + time(bytes.saturating_sub(in_first), kbps)
    }

    /// From the start of a packet to its arrival by a shortest way.
    fn way_alone(&self, src: u32, dst: u32, wire: u32) -> Time {
        let (topology, hops) = (&self.network.topology, u64::from(self.graph.distance(src, dst)));
        let link = match self.params.routing {
            // By any node.
            Routing::Vlb => topology.core_link(),
            _ => topology.best_link(src, dst),
        };
        let transmit = link.pace.transmit(u64::from(wire));
        let stored = if self.cut_through { 1 } else { hops };
        link.propagation * hops + self.network.switch_latency * (hops - 1) + transmit * stored
    }
}
