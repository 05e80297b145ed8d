//! Fluid model of flows on a torus under R2C2's rates: there are no packets and queues, and every node knows of each change
//! at once.

use crate::random::Random;
use std::sync::Arc;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::packet::{Broadcast, Event};
use unrack_protocol::r2c2::rates::{Rates, Requirements};
use unrack_protocol::r2c2::shared_rates::SharedRates;
use unrack_protocol::r2c2::view::{FlowKey, RackView};
use unrack_protocol::r2c2::weights::{FlowPaths, Weights};
use unrack_rack::graph::{Graph, Sides};
use unrack_units::{Rate, Time};

/// Rate of each link (R2C2 §5.2).
pub const LINK: Rate = Rate::from_gbps(10);
/// Parameters of R2C2 §5.2: headroom, and shape and mean of the flow sizes.
const HEADROOM: f64 = 0.05;
const SHAPE: f64 = 1.05;
const MEAN_BYTES: f64 = 100e3;

#[derive(Debug, Clone, Copy)]
pub struct FluidFlow {
    pub src: u32,
    pub dst: u32,
    pub bytes: u32,
    pub start: Time,
}

/// Returns a torus of these sides, as in R2C2 §5.2.
pub fn torus(sides: &[u32]) -> Arc<Graph> {
    Arc::new(Graph::cube(Sides::new(sides).expect("sides"), true).expect("a torus"))
}

/// Returns the rates of links without flows, reduced by the headroom.
pub fn links(graph: &Graph) -> Rates {
    Rates::new((0..graph.links()).map(|_| LINK), HEADROOM)
}

/// Draws flows as in R2C2 §5.2: between random nodes, with Pareto-distributed sizes and Poisson arrivals.
pub fn drawn(nodes: u32, count: usize, gap: Time, random: &mut Random) -> Vec<FluidFlow> {
    let mut start = Time::ZERO;
    let smallest = MEAN_BYTES * (SHAPE - 1.0) / SHAPE;
    let one = |_| {
        start += Time::from_ps((-random.share().ln() * gap.as_ps() as f64) as u64);
        let src = random.below(nodes);
        let dst = (src + 1 + random.below(nodes - 1)) % nodes;
        // The cast saturates at the largest size.
        let bytes = (smallest * random.share().powf(-1.0 / SHAPE)) as u32;
        FluidFlow { src, dst, bytes, start }
    };
    (0..count).map(one).collect()
}

/// Outcome of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Went {
    /// Mean rate: the flow's bytes divided by its duration.
    pub mean_kbps: f64,
    /// Mean of the rates that the flow was assigned; `None` if it ended before it was assigned a rate.
    pub assigned_kbps: Option<f64>,
}

/// A flow that has started and not ended.
struct Active {
    row: usize,
    told: Broadcast,
    /// Remaining data of the flow, in kb/s × ps.
    left: u128,
    kbps: u32,
    /// Time at which the flow was first assigned a rate, and its remaining data at that time.
    assigned: Option<(Time, u128)>,
}

/// Runs flows until all have ended, and returns the outcome of each.
///
/// A flow begins at the rate that it would get alone, up to the rate of a link, as in the packet simulation. `settle`
/// recomputes the rates of the view: once per interval, or at each start and end of a flow if the interval is zero.
pub fn run(
    graph: &Arc<Graph>,
    flows: &[FluidFlow],
    interval: Time,
    mut settle: impl FnMut(&mut RackView, Time),
) -> Vec<Went> {
    let mut view = RackView::new(SharedRates::new(links(graph)));
    let mut went = vec![Went { mean_kbps: 0.0, assigned_kbps: None }; flows.len()];
    let mut numbers = vec![0u16; graph.nodes() as usize];
    let mut active: Vec<Active> = Vec::new();
    let mut weights = Weights::new(graph.clone());
    let (mut now, mut next, mut tick) = (Time::ZERO, 0, interval);
    while next < flows.len() || !active.is_empty() {
        let ends = active.iter().map(|flow| now + flow.rest()).min();
        let starts = flows.get(next).map(|flow| flow.start);
        let ticks = (interval > Time::ZERO).then_some(tick);
        let at = [ends, starts, ticks].into_iter().flatten().min().expect("something goes on");
        let passed = at - now;
        now = at;
        active.iter_mut().for_each(|flow| flow.go_on(passed));
        active.retain(|flow| {
            if flow.left > 0 {
                return true;
            }
            view.hear(now, &Broadcast { event: Event::End, ..flow.told });
            let FluidFlow { bytes, start, .. } = flows[flow.row];
            let mean = |left: u128, since: Time| left as f64 / (now - since).as_ps().max(1) as f64;
            let assigned_kbps = flow.assigned.map(|(since, left)| mean(left, since));
            went[flow.row] = Went { mean_kbps: mean(in_kbps(bytes), start), assigned_kbps };
            false
        });
        while let Some(flow) = flows.get(next).filter(|flow| flow.start <= now) {
            let number = &mut numbers[flow.src as usize];
            *number = number.wrapping_add(1);
            let active_flow = Active::new(next, flow, *number, |ways| view.alone_kbps(&weights.shares(ways)));
            view.hear(now, &active_flow.told);
            active.push(active_flow);
            next += 1;
        }
        if interval == Time::ZERO || now == tick {
            settle(&mut view, now);
            active.iter_mut().for_each(|flow| flow.take_rate(now, &view));
            tick = now + interval;
        }
    }
    went
}

/// Converts bytes to kb/s × ps; a bit is 10^9 of these units.
fn in_kbps(bytes: u32) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

impl Active {
    fn new(row: usize, flow: &FluidFlow, number: u16, alone_kbps: impl FnOnce(FlowPaths) -> u32) -> Active {
        let told = Broadcast {
            event: Event::Start,
            src: flow.src as u16,
            dst: flow.dst as u16,
            flow: number,
            asked: Requirements::default(),
            routing: Routing::Spraying,
            tree: 0,
        };
        let ways = FlowPaths { routing: told.routing, src: flow.src, dst: flow.dst, flow: number.into() };
        let kbps = alone_kbps(ways).min((LINK.as_bps() / 1_000) as u32).max(1);
        Active { row, told, left: in_kbps(flow.bytes), kbps, assigned: None }
    }

    fn rest(&self) -> Time {
        Time::from_ps(self.left.div_ceil(u128::from(self.kbps)) as u64)
    }

    fn go_on(&mut self, passed: Time) {
        self.left = self.left.saturating_sub(u128::from(self.kbps) * u128::from(passed.as_ps()));
    }

    fn take_rate(&mut self, now: Time, view: &RackView) {
        let key: FlowKey = (self.told.src, self.told.flow);
        if let Some(kbps) = view.kbps(key) {
            self.kbps = kbps.max(1);
            self.assigned.get_or_insert((now, self.left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs flows on a ring of three, where every pair has a link.
    fn went(flows: &[(u32, u32, Time)], interval: Time) -> Vec<Went> {
        let ring = torus(&[3]);
        let mut weights = Weights::new(ring.clone());
        let flow = |(dst, bytes, start): &(u32, u32, Time)| FluidFlow {
            src: 0,
            dst: *dst,
            bytes: *bytes,
            start: *start,
        };
        let flows: Vec<FluidFlow> = flows.iter().map(flow).collect();
        run(&ring, &flows, interval, |view, now| view.settle(now, interval, &mut weights))
    }

    #[test]
    fn ideal_rates_follow_every_change() {
        // The flows share 9.5 Gb/s. The first has half of it from the start to the end of the second.
        let went = went(&[(1, 9_500_000, Time::ZERO), (1, 2_375_000, Time::from_us(1_000))], Time::ZERO);
        assert!((went[0].mean_kbps - 9.5e6 * 8.0 / 10.0).abs() < 9.5, "{went:?}");
        assert!((went[1].mean_kbps - 4.75e6).abs() < 9.5, "{went:?}");
        assert!(went.iter().all(|went| went.assigned_kbps == Some(went.mean_kbps)));
    }

    #[test]
    fn flows_begin_at_what_they_would_get_alone_up_to_a_link() {
        let interval = Time::from_us(500);
        // Both flows begin just after a tick. They count from the second tick after it, and keep their first rate until then.
        let start = Time::from_us(1);
        let went = went(&[(1, 1_186_312, start), (2, 1_186_313 + 1_187_500, start)], interval);
        assert!((went[0].mean_kbps - 9.5e6).abs() < 10.0 && went[0].assigned_kbps.is_none(), "{went:?}");
        assert!((went[1].mean_kbps - 9.5e6).abs() < 10.0, "{went:?}");
        assert!((went[1].assigned_kbps.unwrap() - 9.5e6).abs() < 10.0, "{went:?}");
    }
}
