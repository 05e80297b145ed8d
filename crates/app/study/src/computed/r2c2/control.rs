//! R2C2 fig. 19: control traffic on the links in a simulation, with broadcasts and with a central controller.

use crate::file::StudyScale;
use crate::fluid::{LINK, torus};
use crate::random::Random;
use rayon::prelude::*;
use std::sync::Arc;
use unrack_protocol::r2c2::packet::BROADCAST;
use unrack_protocol::r2c2::{Params, RateControl};
use unrack_rack::graph::Graph;
use unrack_sim::fabric::r2c2::R2c2;
use unrack_sim::network::{Network, Pace};
use unrack_sim::observe::{Packets, Views};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Hop, PacketKind, Setup, Work};
use unrack_units::{Bytes, Time};
use unrack_workload::Message;

/// Bytes of a short flow: the paper's mean.
const BYTES: u64 = 100_000;
/// Bytes of a flow that lasts for the whole run.
const LONG: u64 = u32::MAX as u64;

#[derive(Clone, Copy)]
struct Case {
    control: RateControl,
    /// Number of long flows of each node.
    long: u32,
    /// Mean time between short flows.
    gap: Time,
    interval: Time,
    /// Start of the period in which bytes are counted; `lasts` is its length.
    from: Time,
    lasts: Time,
}

/// Returns the control bytes per start or end of a flow with a controller, relative to those with broadcasts. There are two
/// controllers: one computes rates every 50 us, and the other about as often as flows start or end. Also returns the bytes
/// of broadcasts relative to the size of their trees. `control` is what the cases with a controller use.
pub(super) fn measured(scale: StudyScale, control: RateControl) -> Vec<(&'static str, f64)> {
    let graph = torus(if scale == StudyScale::Full { &[8, 8, 8] } else { &[4, 4, 4] });
    let us = Time::from_us;
    let part = if scale == StudyScale::Full { 1 } else { 4 };
    let batch = |control, long| Case {
        control,
        long,
        gap: us(1),
        interval: us(50),
        from: us(200),
        lasts: us(200 / part),
    };
    // A flow has two events, its start and its end, so this interval is the mean time between events.
    let each = |long| Case { gap: us(10), interval: us(5), lasts: us(600 / part), ..batch(control, long) };
    let cases = [
        ("broadcast", batch(RateControl::Decentralized, 1)),
        ("measured_batch_1", batch(control, 1)),
        ("measured_batch_10", batch(control, 10)),
        ("measured_each_1", each(1)),
        ("measured_each_10", each(10)),
    ];
    let bytes = cases.par_iter().map(|(name, case)| (*name, bytes_an_event(&graph, case)));
    let bytes: Vec<(&'static str, f64)> = bytes.collect();
    let broadcast = bytes[0].1;
    let tree = f64::from(graph.nodes() - 1) * BROADCAST as f64;
    let ratios = bytes[1..].iter().map(|(name, bytes)| (*name, bytes / broadcast));
    [("measured_broadcast", broadcast / tree)].into_iter().chain(ratios).collect()
}

/// Returns the control bytes on all links in the counted period, divided by the number of starts and ends of flows in it.
fn bytes_an_event(graph: &Arc<Graph>, case: &Case) -> f64 {
    let Case { control, interval, from, lasts, .. } = *case;
    let link = Link { pace: Pace::new(LINK), propagation: Time::from_ns(100) };
    let params = Params { control, interval, ..Params::default() };
    let setup = Setup {
        network: Network {
            topology: Topology::direct(graph.clone(), link),
            switch_latency: Time::from_ns(100),
        },
        ethernet: Ethernet {
            mtu: Bytes::new(1_500),
            headers: true,
            buffer: SwitchBuffer::Private(Bytes::new(1 << 20)),
            cut_through: true,
        },
        fabric: FabricConfig::new::<R2c2>(params),
        seed: 1,
        time_limit: from + lasts,
    };
    let mut bytes = 0;
    let count = |hop: &Hop, _: Option<&Message>| {
        let is_control =
            matches!(hop.packet.kind, PacketKind::Notification | PacketKind::Grant | PacketKind::Nack);
        if is_control && hop.last >= from {
            bytes += u64::from(hop.wire);
        }
    };
    let mut watch = Views { packets: Some(Packets::new(count)), ..Views::default() };
    let work = Work::listed(messages(graph.nodes(), case));
    let run = setup.watched(&work, &mut watch, |_| {}).expect("a torus under R2C2").run;
    drop(watch);
    let times = run.outcomes.iter().flat_map(|outcome| [Some(outcome.submitted), outcome.completed()]);
    bytes as f64 / times.flatten().filter(|at| *at >= from).count() as f64
}

/// Returns the flows: the long ones begin in the first tenth of the time before the counted period, and the short ones have
/// Poisson arrivals.
fn messages(nodes: u32, case: &Case) -> Vec<(Time, Message)> {
    let Case { long, gap, from, lasts, .. } = *case;
    let random = &mut Random::new(19);
    let begins = |n| Time::from_ps(from.as_ps() / 10 * u64::from(n) / u64::from(nodes * long));
    let long = (0..nodes * long).map(|n| (begins(n), n % nodes, LONG));
    let mut flows: Vec<(Time, u32, u64)> = long.collect();
    let mut at = Time::ZERO;
    while at < from + lasts {
        flows.push((at, random.below(nodes), BYTES));
        at += Time::from_ps((-random.share().ln() * gap.as_ps() as f64) as u64);
    }
    flows.sort();
    let to_any =
        |(at, src, bytes)| (at, Message::flow(src, (src + 1 + random.below(nodes - 1)) % nodes, bytes));
    flows.into_iter().map(to_any).collect()
}
