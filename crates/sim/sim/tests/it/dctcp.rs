//! `dctcp` against closed forms.

use crate::common;

use common::{Script, assert_conserved, assert_unloaded_is_exact, completion_ps, run};
use unrack_protocol::dctcp::Params;
use unrack_sim::fabric::dctcp::Dctcp;
use unrack_sim::network::{Network, StarNetwork};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::{Observer, Run, Sim};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Message, NodeId};

fn star(nodes: u32, gbps: u64, propagation: Time) -> StarNetwork {
    StarNetwork { nodes, rate: Rate::from_gbps(gbps), propagation, switch_latency: Time::from_ns(400) }
}

const DEEP: Ethernet = Ethernet {
    mtu: Bytes::new(1500),
    headers: true,
    buffer: SwitchBuffer::Private(Bytes::new(1 << 24)),
    cut_through: true,
};

fn dctcp(star: &StarNetwork) -> Dctcp {
    Dctcp::new(&Network::star(star), &DEEP, &Params::default()).unwrap()
}

#[test]
fn alone_is_arithmetic() {
    // 64 B and 90 B around it; 100 Gb/s: 80 ps a byte; 2 links of 10 ns, switch 400 ns.
    let star = star(3, 100, Time::from_ns(10));
    let fabric = dctcp(&star);
    let run = run(
        fabric,
        vec![(Time::ZERO, Message::write(0, 1, 64)), (Time::from_us(5), Message::read(0, 1, 64))],
    );
    assert_eq!(completion_ps(&run, 0), 154 * 80 + 420_000);
    assert_eq!(completion_ps(&run, 1), (90 + 8) * 80 + 420_000 + 154 * 80 + 420_000);
}

#[test]
fn unloaded_is_exact_for_all_kinds_sizes_rates_and_distances() {
    for gbps in [10, 25, 30, 40, 100, 400] {
        for propagation in [Time::from_ns(10), Time::from_us(1), Time::from_us(50)] {
            for cut_through in [true, false] {
                for mtu in [256, 1500, 9000] {
                    let ethernet = Ethernet { cut_through, mtu: Bytes::new(mtu), ..DEEP };
                    let params = Params { min_rto: Time::from_us(1_000), ..Params::default() };
                    let star = star(3, gbps, propagation);
                    assert_unloaded_is_exact(Dctcp::new(&Network::star(&star), &ethernet, &params).unwrap());
                }
            }
        }
    }
}

/// Runs 32 senders of 100 kB each into one port.
fn incast(buffer: u64) -> Run {
    let ethernet = Ethernet { buffer: SwitchBuffer::Private(Bytes::new(buffer)), ..DEEP };
    let star = star(33, 100, Time::from_ns(10));
    let script =
        (1..33).map(|src| (Time::from_ns(u64::from(src)), Message::write(src, 0, 100_000))).collect();
    run(Dctcp::new(&Network::star(&star), &ethernet, &Params::default()).unwrap(), script)
}

#[test]
fn an_incast_loses_and_recovers() {
    let run = incast(36 << 10);
    assert_eq!(run.counters.arrived_bytes, 32 * 100_000 + duplicates(&run));
    assert!(run.outcomes.iter().all(|outcome| outcome.completed().is_some()));
    let (drops, again) = run.outcomes.iter().fold((0, 0), |(d, r), o| (d + o.drops, r + o.retransmissions));
    assert!(drops > 0 && again > 0, "{drops} {again}");
    assert!(run.queue_bytes.max() <= 36 << 10);
}

fn duplicates(run: &Run) -> u64 {
    run.counters.arrived_bytes - run.messages.iter().map(Message::payload).sum::<u64>()
}

#[test]
fn with_room_nothing_is_lost_or_sent_twice() {
    let run = incast(1 << 24);
    assert_conserved(&run);
    assert_eq!((run.counters.dropped_packets, duplicates(&run)), (0, 0));
}

#[test]
fn the_same_run_twice_is_the_same() {
    let (a, b) = (incast(36 << 10), incast(36 << 10));
    assert_eq!((a.outcomes, a.counters), (b.outcomes, b.counters));
}

/// Observer of the queue lengths that data finds at the port towards node 0, after slow start.
struct Saw {
    from: Time,
    found: Vec<u64>,
}

impl Observer for Saw {
    fn queued(&mut self, node: NodeId, bytes: u64, now: Time) {
        if node == 0 && now > self.from {
            self.found.push(bytes);
        }
    }
}

#[test]
fn the_queue_of_two_long_flows_is_a_saw_tooth_below_the_threshold() {
    // 10 Gb/s, 100 us round trip, K = 40 packets: DCTCP §3.3.
    let star = star(3, 10, Time::from_us(25));
    let k = 40.0;
    let params = Params {
        mark_threshold: Some(Bytes::new(40 * 1538)),
        min_rto: Time::from_us(5_000),
        ..Params::default()
    };
    let fabric = Dctcp::new(&Network::star(&star), &DEEP, &params).unwrap();
    let script = Script::new(vec![
        (Time::ZERO, Message::flow(1, 0, 60_000_000)),
        (Time::from_us(40), Message::flow(2, 0, 60_000_000)),
    ]);
    let saw = Saw { from: Time::from_us(20_000), found: Vec::new() };
    let (run, _, saw) = Sim::observed(fabric, script, saw).until(Time::from_us(90_000)).run();
    let packets = |bytes: &u64| *bytes as f64 / 1538.0;
    let top = packets(saw.found.iter().max().unwrap());
    let bottom = packets(saw.found.iter().min().unwrap());
    // Eq. 8 to 10: the top is K + N, the height at most N times a flow's D = 1/2 sqrt(2 (C RTT + K) / N).
    let flows = 2.0;
    let height = 0.5 * (2.0f64 * flows * (10e9 * 101e-6 / 8.0 / 1538.0 + k)).sqrt();
    assert!(top > k && top < k + 3.0 * flows, "top {top}");
    assert!(bottom > k - 2.0 * height && bottom < k - 0.3 * height, "bottom {bottom}, height {height}");
    assert_eq!(run.counters.dropped_packets, 0);
    // The link never idles: both flows together have its rate, headers excluded.
    let goodput = run.counters.arrived_bytes as f64 * 8.0 / run.ended.as_secs_f64();
    assert!(goodput > 0.97 * 10e9 * 1448.0 / 1538.0, "{goodput}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let star = star(2, 100, Time::from_ns(10));
    let refused = |ethernet: Ethernet, params: Params| {
        Dctcp::new(&Network::star(&star), &ethernet, &params).err().unwrap().key
    };
    assert_eq!(refused(Ethernet { mtu: Bytes::new(52), ..DEEP }, Params::default()), "network.mtu");
    assert_eq!(
        refused(Ethernet { buffer: SwitchBuffer::Private(Bytes::new(1000)), ..DEEP }, Params::default()),
        "network.switch.buffer"
    );
    assert_eq!(refused(DEEP, Params { initial_window: 0, ..Params::default() }), "fabric.initial_window");
}
