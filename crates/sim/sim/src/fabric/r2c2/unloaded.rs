//! Completion time of a flow that is alone, in closed form.

use super::rack::Rack;
use crate::fabric::single_message::MOST_SIMULATED;
use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::weights::{FlowPaths, LinkShare, Weights};
use unrack_units::{Bytes, Rate, Time};

/// Computes the times of flows that are alone.
pub(super) struct LoneFlow {
    /// Weights in the whole topology.
    weights: RefCell<Weights>,
    /// Rates of the whole topology, without flows.
    whole: Rates,
}

impl LoneFlow {
    pub(super) fn new(weights: Weights, whole: Rates) -> LoneFlow {
        LoneFlow { weights: RefCell::new(weights), whole }
    }

    /// Returns whether the time of a message is simulated, given the number of segments of its longer transfer. It is simulated unless it
    /// is one packet by a shortest path of links that are alike, or too long.
    pub(super) fn is_simulated(rack: &Rack, segments: u32) -> bool {
        let params = &rack.setup.params;
        let is_plain = params.rules.is_empty() && params.routing != Routing::Vlb;
        let is_exact = segments == 1 && is_plain && !rack.network.topology.is_uneven();
        !is_exact && segments <= MOST_SIMULATED
    }

    /// Returns a lower bound of the time until a flow has arrived. The flow takes the shortest path, and is not delayed by other packets or
    /// broadcasts. During the first interval it is sent at the rate at which flows begin, and then at the rate of a flow alone. The bound
    /// is exact for one packet.
    pub(super) fn time(&self, rack: &Rack, src: u32, dst: u32, bytes: u64) -> Time {
        let last = rack.setup.segments(bytes) - 1;
        let full = rack.setup.wire(rack.setup.most);
        let pace = (last > 0).then(|| self.pace_alone(rack, src, dst));
        let arrival = |segment: u32| {
            let wire = rack.setup.wire(rack.setup.payload(bytes, segment));
            // A short packet finds more bytes in the bucket than it needs.
            let start = pace.as_ref().map_or(Time::ZERO, |pace| pace.start(segment, full, full - wire));
            start + LoneFlow::way_alone(rack, src, dst, wire)
        };
        // A short last packet may overtake the full packet before it.
        let arrival = arrival(last).max(arrival(last.saturating_sub(1)));
        match LoneFlow::slowest_host(rack, src, dst) {
            Some(rate) => {
                let wire = rack.setup.wire(rack.setup.payload(bytes, last));
                arrival.max(rate.transmit(Bytes::new(bytes)) + LoneFlow::way_alone(rack, src, dst, wire))
            }
            None => arrival,
        }
    }

    /// Returns the rate at which the host supplies the bytes of a flow, or `None` if that rate is not known for all times.
    fn slowest_host(rack: &Rack, src: u32, dst: u32) -> Option<Rate> {
        let mut matching = rack.setup.params.rules.iter().filter(|rule| rule.matches(src, dst));
        let first = rack.setup.terms(src, dst, Time::ZERO).demand?;
        matching.all(|rule| rule.at == Time::ZERO || rule.demand.is_none()).then_some(first)
    }

    /// Returns all routings by which packets between these nodes may ever be sent.
    fn routings(rack: &Rack, src: u32, dst: u32) -> Vec<Routing> {
        let rules = rack.setup.params.rules.iter().filter(|rule| rule.matches(src, dst));
        let of_rules = rules.filter_map(|rule| rule.routing);
        let chosen =
            rack.setup.params.selection.iter().flat_map(|selection| selection.routings.iter().copied());
        [rack.setup.params.routing].into_iter().chain(of_rules).chain(chosen).collect()
    }

    fn pace_alone(&self, rack: &Rack, src: u32, dst: u32) -> LoneRates {
        let alone = |routing| match routing {
            // The hash of a flow selects a single path.
            Routing::Ecmp => self.whole.alone_kbps(&[LoneFlow::widest(rack, src, dst)]),
            _ => {
                let shares = self.weights.borrow_mut().shares(FlowPaths { routing, src, dst, flow: 0 });
                self.whole.alone_kbps(&shares)
            }
        };
        let alone = LoneFlow::routings(rack, src, dst).into_iter().map(alone).max().unwrap_or(0);
        let first = rack.setup.first_kbps(alone, src);
        LoneRates { first, alone, interval: rack.setup.params.interval }
    }

    /// Returns the narrowest link of the widest shortest path between these nodes.
    fn widest(rack: &Rack, src: u32, dst: u32) -> LinkShare {
        let rate = |link: u32| rack.wires.link(link).pace.rate();
        let mut best = BTreeMap::from([(src, None)]);
        for _ in 0..rack.setup.graph.distance(src, dst) {
            let mut next: BTreeMap<u32, Option<u32>> = BTreeMap::new();
            for (&node, &narrowest) in &best {
                let ports = rack.setup.graph.closer(node, dst);
                let links = rack.setup.graph.links_of(node).enumerate();
                for (_, link) in links.filter(|(port, _)| ports >> port & 1 == 1) {
                    let narrowest = narrowest.filter(|other| rate(*other) <= rate(link)).unwrap_or(link);
                    let known = next.entry(rack.setup.graph.to(link)).or_default();
                    *known = Some(known.filter(|known| rate(*known) >= rate(narrowest)).unwrap_or(narrowest));
                }
            }
            best = next;
        }
        let link = best.get(&dst).copied().flatten().expect("nodes of a message are apart, and have a way");
        LinkShare { link, share: LinkShare::ONE }
    }

    /// Returns the time from the start of a packet to its arrival by a shortest path.
    fn way_alone(rack: &Rack, src: u32, dst: u32, wire: u32) -> Time {
        let (topology, hops) = (&rack.network.topology, u64::from(rack.setup.graph.distance(src, dst)));
        let link = match rack.setup.params.routing {
            // Valiant routing may pass any node.
            Routing::Vlb => topology.core_link(),
            _ => topology.best_link(src, dst),
        };
        let transmit = link.pace.transmit(u64::from(wire));
        let stored = if rack.wires.cuts_through() { 1 } else { hops };
        link.propagation * hops + rack.network.switch_latency * (hops - 1) + transmit * stored
    }
}

/// Rates of a flow that is alone, in Kb/s: `first` during the first interval, and `alone` after it.
struct LoneRates {
    first: u32,
    alone: u32,
    interval: Time,
}

impl LoneRates {
    /// Returns when a packet is sent after `before` packets of `wire` bytes, if the packet is `shorter` bytes shorter than these.
    fn start(&self, before: u32, wire: u32, shorter: u32) -> Time {
        let time = |bytes: u64, kbps: u32| {
            let ps = u128::from(bytes) * 8_000_000_000 / u128::from(kbps);
            Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
        };
        let (first, alone) = (self.first.max(1), self.alone.max(1));
        // Rounded as in the bucket, which counts each packet in whole picoseconds.
        let at_first = time(wire.into(), first) * u64::from(before);
        let at_first = at_first.saturating_sub(time(shorter.into(), first));
        if at_first <= self.interval {
            return at_first;
        }
        let bytes = (u64::from(wire) * u64::from(before)).saturating_sub(shorter.into());
        let in_first = u128::from(first) * u128::from(self.interval.as_ps()) / 8_000_000_000;
        let later = time(bytes.saturating_sub(in_first as u64), alone);
        self.interval + later.saturating_sub(Time::from_ps(u64::from(before) + 1))
    }
}
