//! Runs against queueing theory and against the formulas of DCTCP's paper.

use crate::common::fabrics::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_protocol::{dctcp, tcp};
use unrack_sim::network::{Network, StarNetwork};
use unrack_sim::observe::{Packets, Views};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::{FabricConfig, Hop, LinkId, PacketKind, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Arrivals, Message, Pattern, SizeCdf, SizeDistribution, SyntheticSpec, Traffic};

fn setup(nodes: u32, gbps: u64, propagation: Time, mtu: u64, fabric: FabricConfig) -> Setup {
    let (rate, switch_latency) = (Rate::from_gbps(gbps), Time::from_ns(400));
    let star = StarNetwork { nodes, rate, propagation, switch_latency };
    let (mtu, buffer) = (Bytes::new(mtu), SwitchBuffer::Private(Bytes::new(1 << 40)));
    let ethernet = Ethernet { mtu, buffer, headers: true, cut_through: true };
    Setup { network: Network::star(&star), ethernet, fabric, seed: 11, time_limit: Time::MAX }
}

/// Returns the data packets that leave by one switch port, in order.
fn through(port: u32, setup: &Setup, work: &Work) -> Vec<Hop> {
    let hops = RefCell::new(Vec::new());
    let sink = |hop: &Hop, _: Option<&Message>| {
        if hop.link == LinkId::Port(port) && hop.packet.kind == PacketKind::Data {
            hops.borrow_mut().push(*hop);
        }
    };
    let mut watch = Views { packets: Some(Packets::new(sink)), ..Views::default() };
    setup.watched(work, &mut watch, |_| {}).unwrap();
    watch.packets.take().unwrap().finish();
    drop(watch);
    hops.into_inner()
}

/// Returns the mean and half the width of its 99.9 % confidence interval, by the method of batch means: 30 batches
/// are long enough to be independent, and Student's t at 29 degrees of freedom is 3.66.
fn interval(values: &[f64]) -> (f64, f64) {
    const BATCHES: usize = 30;
    let means: Vec<f64> = values
        .chunks_exact(values.len() / BATCHES)
        .take(BATCHES)
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let mean = means.iter().sum::<f64>() / BATCHES as f64;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
    (mean, 3.66 * (variance / BATCHES as f64).sqrt())
}

/// Asserts the mean wait of messages of one packet each, from 512 senders into one port. They arrive almost as a
/// Poisson process (with n senders, a packet meets others of n - 1 only: 0.2 %).
fn assert_waits_as_m_g_1(size: SizeDistribution, mtu: u64, load: f64) {
    const SENDERS: u32 = 512;
    const MESSAGES: u64 = 300_000;
    let fabric = FabricConfig::new::<Tcp>(tcp::Params::default());
    let setup = setup(SENDERS + 1, 100, Time::from_ns(10), mtu, fabric);
    let mean_bytes = size.mean();
    let work = Work::Synthetic(SyntheticSpec {
        traffic: Traffic::Flows,
        size,
        pattern: Pattern::Incast { fan_in: None },
        blades: None,
        arrivals: Arrivals::Poisson,
        load,
        messages: MESSAGES,
    });
    let hops = through(SENDERS, &setup, &work);
    assert_eq!(hops.len() as u64, MESSAGES, "a message is a packet");
    let warm = &hops[hops.len() / 10..];
    let waits: Vec<f64> = warm.iter().map(|hop| (hop.first - hop.ready).as_ns_f64()).collect();
    let service: Vec<f64> = warm.iter().map(|hop| (hop.last - hop.first).as_ns_f64()).collect();
    let moment = |power| service.iter().map(|s| s.powi(power)).sum::<f64>() / service.len() as f64;
    // Pollaczek-Khinchine: W = lambda E[S^2] / (2 (1 - rho)). Loads count payload.
    let rate = load * 100.0 / 8.0 / mean_bytes;
    let rho = rate * moment(1);
    let expected = rate * moment(2) / (2.0 * (1.0 - rho));
    let (mean, half) = interval(&waits);
    assert!((mean - expected).abs() < half, "{mean} +- {half} ns, expected {expected} ns at rho {rho}");
    // The interval is narrow enough to be meaningful.
    assert!(half < 0.08 * expected, "{half} ns of {expected} ns");
}

#[test]
fn a_port_waits_as_an_m_d_1_queue_does() {
    for load in [0.3, 0.6, 0.75] {
        assert_waits_as_m_g_1(SizeDistribution::Fixed(1448), 1500, load);
    }
}

#[test]
fn a_port_waits_as_an_m_g_1_queue_does() {
    // Uniform sizes; and mostly short ones with a few of 60 times the length.
    let uniform = SizeCdf::new(&[(64.0, 0.0), (8_000.0, 1.0)], 1.0).unwrap();
    let split = SizeCdf::new(&[(90.0, 0.0), (110.0, 0.8), (6_000.0, 0.8001), (6_100.0, 1.0)], 1.0).unwrap();
    for size in [uniform, split] {
        assert_waits_as_m_g_1(SizeDistribution::Cdf(size), 9000, 0.6);
    }
}

/// Returns packets of 64 B here and there, one every 2 us or so, once the long flows have begun. Without them nothing
/// is random, and a flow whose packets happen to come just before another's stays ahead for ever (phase effects:
/// Floyd and Jacobson, "On traffic phase effects in packet-switched gateways").
fn noise(nodes: u32, until: Time) -> Vec<(Time, Message)> {
    let mut state = 1u64;
    let mut draw = |most: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % most
    };
    let count = (until - Time::from_us(100)).as_ps() / 2_000_000;
    (0..count)
        .map(|n| {
            let at = Time::from_us(100) + Time::from_ns(2_000 * n + u64::from(draw(2_000)));
            let src = draw(nodes);
            (at, Message::flow(src, (src + 1 + draw(nodes - 1)) % nodes, 64))
        })
        .collect()
}

/// Returns the share of each message in the port towards its end, in Gb/s on the wire, between two times.
fn shares(setup: &Setup, messages: &[(u32, u32)], (from, until): (Time, Time)) -> BTreeMap<u32, f64> {
    // Messages are too long to end, and start one after the other.
    let long = |(n, (src, dst)): (usize, &(u32, u32))| {
        (Time::from_us(7 * n as u64), Message::flow(*src, *dst, 1 << 31))
    };
    let mut all: Vec<_> = messages.iter().enumerate().map(long).collect();
    all.extend(noise(setup.network.nodes(), until));
    all[messages.len()..].sort_by_key(|(at, _)| *at);
    let work = Work::listed(all);
    let setup = Setup { time_limit: until, ..setup.clone() };
    let mut bits = BTreeMap::new();
    let ports: std::collections::BTreeSet<u32> = messages.iter().map(|(_, dst)| *dst).collect();
    for port in ports {
        for hop in through(port, &setup, &work).iter().filter(|hop| hop.first >= from && hop.last <= until) {
            let flow = hop.message.unwrap().0;
            if (flow as usize) < messages.len() {
                *bits.entry(flow).or_insert(0.0) += f64::from(hop.wire) * 8.0;
            }
        }
    }
    let time = (until - from).as_ns_f64();
    bits.into_iter().map(|(message, bits)| (message, bits / time)).collect()
}

/// Shares of long flows with equal round trips are max-min fair.
///
/// Windows of the same law have the same mean over many of their cycles (some 0.3 ms each, 300 of them here); what
/// remains is their scatter: 10 %. Where a node has several flows, their packets take turns on its link and reach the
/// port one by one, while those of a node with one flow come in pairs, the second of which finds the first before it
/// and is marked more often: 20 %.
#[test]
fn long_flows_share_as_max_min_fairness_says() {
    let setup = setup(9, 10, Time::from_us(10), 1500, FabricConfig::new::<Dctcp>(dctcp::Params::default()));
    let window = (Time::from_us(10_000), Time::from_us(100_000));
    type Case<'a> = (&'a [(u32, u32)], &'a [f64], f64);
    let cases: [Case; 2] = [
        // Three at one port, two at another, and one alone.
        (
            &[(1, 0), (2, 0), (3, 0), (4, 5), (6, 5), (7, 8)],
            &[10.0 / 3.0, 10.0 / 3.0, 10.0 / 3.0, 5.0, 5.0, 10.0],
            0.1,
        ),
        // Progressive filling: three flows at port 0, then two at port 4; node 3's link is not full.
        (&[(1, 0), (2, 0), (3, 0), (3, 4), (5, 4)], &[10.0 / 3.0, 10.0 / 3.0, 10.0 / 3.0, 5.0, 5.0], 0.2),
    ];
    for (flows, expected, tolerance) in cases {
        let got = shares(&setup, flows, window);
        for (flow, expected) in expected.iter().enumerate() {
            let share = got[&(flow as u32)];
            let off = (share / expected - 1.0).abs();
            assert!(off < tolerance, "flow {flow}: {share} of {expected} Gb/s, {got:?}");
        }
        let port_0: f64 = (0..3).map(|flow| got[&flow]).sum();
        assert!(port_0 > 9.7, "the port is kept busy: {port_0} Gb/s");
    }
}

/// DCTCP §3.3: with N long flows, the queue oscillates between K + N (8) and that less its height
/// 1/2 sqrt(2 N (C RTT + K)) (9), (10), if all flows are synchronized. They are not quite, so the height is a bound;
/// the mean of a saw-tooth is its middle.
#[test]
fn the_queue_of_dctcp_is_a_saw_tooth() {
    const K: f64 = 65.0;
    const PACKET: f64 = 1538.0;
    for flows in [2u32, 4] {
        let params = dctcp::Params {
            mark_threshold: Some(Bytes::new(65 * 1538)),
            min_rto: Time::from_us(10_000),
            ..dctcp::Params::default()
        };
        let setup = setup(flows + 1, 10, Time::from_us(25), 1500, FabricConfig::new::<Dctcp>(params));
        let setup = Setup { time_limit: Time::from_us(100_000), ..setup };
        let long = |src: u32| (Time::from_us(40 * u64::from(src)), Message::flow(src, 0, 1 << 31));
        let hops = through(0, &setup, &Work::listed((1..=flows).map(long).collect()));
        let settled = hops.iter().filter(|hop| hop.ready > Time::from_us(20_000));
        // First in, first out at one pace: the wait is the queue, including the packet in transmission.
        let queue: Vec<f64> = settled.map(|hop| (hop.first - hop.ready).as_ns_f64() / 0.8 / PACKET).collect();
        let mean = queue.iter().sum::<f64>() / queue.len() as f64;
        let (top, bottom) = (queue.iter().fold(0.0, |a, b| b.max(a)), queue.iter().fold(K, |a, b| b.min(a)));
        let n = f64::from(flows);
        let height = 0.5 * (2.0 * n * (10e9 * 101.6e-6 / 8.0 / PACKET + K)).sqrt();
        assert!(top > K && top < K + 2.5 * n, "{flows} flows: top {top}");
        assert!(
            bottom > K + n - 1.5 * height && bottom < K,
            "{flows} flows: bottom {bottom}, height {height}"
        );
        let middle = K + n - height / 2.0;
        assert!((mean - middle).abs() < height / 2.0, "{flows} flows: mean {mean}, middle {middle}");
    }
}
