//! Throughput of a 4x4 torus on this machine, in packet-hops per second at rising link rates, and the latency of a hop. For comparison, it
//! also measures a hop between two sockets of this machine's kernel, which is the minimum for an emulator without shared memory.
//!
//! For Maze, the paper (R2C2 §4.1) reports 38 of 40 Gb/s on a link with packets of 8 KB, and 3 us per hop with small packets, on 16
//! servers.

use std::net::UdpSocket;
use std::time::Instant;
use unrack_keys::datagram::{DatagramOpener, OpenedDatagram, PeerState, SharedKey};
use unrack_protocol::r2c2::Params;
use unrack_rack::{LinkSpec, Overrides, Scenario};
use unrack_torus::{Emulation, LiveOutcome, LiveReport, TorusPlan};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

const SCENARIO: &str = "\
[network]
topology = { kind = \"torus\", shape = [4, 4] }
switch = { buffer = \"1MiB\", cut_through = false }
[fabric]
protocol = \"r2c2\"
[workload]
kind = \"flows\"
size = \"1KiB\"
load = \"1%\"
messages = 1
";

fn plan(rate: Rate, mtu: u64) -> TorusPlan {
    let scenario = Scenario::parse("bench", SCENARIO, &Overrides::none()).expect("it is ours");
    let mut network = unrack_sim::check(scenario).expect("it is ours").network;
    (network.link, network.mtu) = (LinkSpec { rate, propagation: Time::ZERO }, Bytes::new(mtu));
    let params =
        Params { interval: Time::from_us(2_500), timeout: Time::from_us(50_000), ..Params::default() };
    TorusPlan::new(&network, &unrack_rack::Faults::default(), &params, 1).expect("it is ours")
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    println!("all to all on a 4x4 torus, for about half a second each; {cores} threads");
    println!("packet     link rate  packet-hops/s     offered  over links   p99 late  drops");
    let (small, frames) = (&[2, 5, 10, 20, 50, 100, 200][..], &[50, 100, 200, 500, 1_000, 2_000][..]);
    for (mtu, rates) in [(100, small), (1_500, frames), (8_192, &[200, 500, 1_000, 2_000, 5_000])] {
        // Above the rate that the machine can carry, packets wait for threads until they are lost.
        let _ = rates.iter().all(|mbps| carried(Rate::from_bps(mbps * 1_000_000), mtu, cores));
    }
    println!(
        "\none packet of 100 B at a time, p50 us from its source to its destination, and a hop by their difference"
    );
    println!("threads  1 hop  2 hops  4 hops   a hop");
    [1, cores].into_iter().for_each(latency);
    println!("\na hop between two sockets on the loopback interface, us; and a seal made and opened");
    [100, 1_500, 8_192].into_iter().for_each(sockets);
}

/// Returns whether the machine carries this link rate: no packet was lost, and the 99th percentile of the delays caused by threads was
/// below 100 ms.
fn carried(rate: Rate, mtu: u64, threads: usize) -> bool {
    // There are 64 links, 32/15 hops between two nodes on average, and 240 flows.
    let bytes = (rate.as_bps() as f64 / 8.0 * 0.5 * 64.0 / (32.0 / 15.0) / 240.0) as u64;
    let pairs = (0..16).flat_map(|src| (0..16).map(move |dst| (src, dst))).filter(|(src, dst)| src != dst);
    let flows: Vec<_> = pairs.map(|(src, dst)| (Time::ZERO, Message::flow(src, dst, bytes))).collect();
    let mut rack = Emulation::start(plan(rate, mtu), threads).expect("threads");
    let LiveReport { counters, ended_ps, late_ns, wrong_bytes, .. } =
        rack.run(&flows).expect("flows between nodes");
    assert_eq!(wrong_bytes, 0, "bytes that nobody sent");
    let seconds = ended_ps as f64 / 1e12;
    let offered = rate.as_bps() as f64 * 0.95 * 64.0 / 8.0 / mtu as f64;
    println!(
        "{mtu:>5} B {:>9.0} Mb/s {:>12.0} {offered:>13.0} {:>6.2} Gb/s {:>7.0} us {:>6}",
        rate.as_bps() as f64 / 1e6,
        counters.packet_hops as f64 / seconds,
        counters.packet_hops as f64 * mtu as f64 * 8.0 / seconds / 1e9,
        late_ns.value_at_quantile(0.99) as f64 / 1e3,
        counters.dropped_packets,
    );
    counters.dropped_packets == 0 && late_ns.value_at_quantile(0.99) < 100_000_000
}

fn latency(threads: usize) {
    let p50 = |dst: u32| {
        let flows: Vec<_> = (0..1_000).map(|n| (Time::from_us(300) * n, Message::flow(0, dst, 64))).collect();
        let mut rack = Emulation::start(plan(Rate::from_gbps(100), 100), threads).expect("threads");
        let report = rack.run(&flows).expect("flows between nodes");
        let took = |outcome: &LiveOutcome| outcome.completed_ps.map(|at| at - outcome.submitted_ps);
        let mut took: Vec<u64> = report.outcomes.iter().filter_map(took).collect();
        took.sort_unstable();
        took[took.len() / 2] as f64 / 1e6
    };
    // Nodes 1, 5 and 10 are one, two and four hops from node 0.
    let [one, two, four] = [1, 5, 10].map(p50);
    println!("{threads:>7} {one:>6.2} {two:>7.2} {four:>7.2} {:>7.2}", (four - one) / 3.0);
}

/// Returns the time in us to seal and open a datagram, as on links between machines that have a key.
fn sealed(bytes: usize, times: u32) -> f64 {
    let pair = |here| PeerState::new(SharedKey::from_bytes([1; 32]), here, 1 - here, 1);
    let (near, far) = (pair(0), pair(1));
    let (mut opener, mut back) = (DatagramOpener::new(far.clone()), DatagramOpener::new(near.clone()));
    let mut datagram = Vec::new();
    // Each end must first have received a datagram from the other.
    far.seal(&mut datagram);
    let _ = back.open(&datagram);
    let packet = vec![1; bytes];
    let clock = Instant::now();
    for _ in 0..times {
        datagram.clear();
        datagram.extend_from_slice(&packet);
        near.seal(&mut datagram);
        assert_eq!(opener.open(&datagram), OpenedDatagram::Taken(&packet));
    }
    clock.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}

fn sockets(bytes: usize) {
    const HOPS: u32 = 20_000;
    let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let to = b.local_addr().expect("an address");
    let mut packet = vec![1; bytes];
    let clock = Instant::now();
    for _ in 0..HOPS {
        a.send_to(&packet, to).expect("loopback");
        b.recv(&mut packet).expect("loopback");
    }
    let plain = clock.elapsed().as_secs_f64() * 1e6 / f64::from(HOPS);
    println!("{bytes:>5} B {plain:>6.2} {:>6.2}", sealed(bytes, HOPS));
}
