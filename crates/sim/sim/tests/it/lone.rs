//! A message that is alone takes exactly its unloaded time: its slowdown is 1, whatever the network, the protocol and
//! the message.
//!
//! A case is drawn by its number. `UNRACK_EXTREMES=all`, which `make soak` sets, draws more.

use crate::common;
use crate::common::fabrics::*;

use common::{completion_ps, setup_on};
use std::sync::Arc;
use unrack_basis::SplitMix64;
use unrack_rack::graph::{Graph, Sides};
use unrack_rack::{Protocol, Wiring};
use unrack_sim::network::{Network, Pace};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

const CASES: u64 = 700;
const MANY: u64 = 20_000;
/// Packets of a message at most, so that a case takes milliseconds.
const MOST_PACKETS: u64 = 6_000;

struct Draw(SplitMix64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
    /// Returns a number from 1 to `most`, each order of magnitude as likely as another.
    fn spread(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(u64::BITS - most.leading_zeros()));
        ((1 << bits) + self.below(1 << bits)).min(most)
    }
    fn link(&mut self, mbps: u64) -> Link {
        let propagation =
            Time::from_ps(self.pick(&[0, 1_000, 10_000, 37_500, 200_000, 1_000_000, 5_000_000]));
        Link { pace: Pace::new(Rate::from_bps(mbps * 1_000_000)), propagation }
    }
}

/// Returns a network on which the protocol runs.
fn topology(draw: &mut Draw, protocol: Protocol) -> Topology {
    let profile = protocol.profile();
    let mbps = draw.pick(&[1_000, 3_000, 10_000, 25_000, 40_000, 56_000, 100_000, 200_000, 400_000, 800_000]);
    let host = draw.link(mbps);
    let times = draw.pick(&[2, 2, 3, 4, 8]);
    let core = match draw.below(2) {
        0 => host,
        _ => draw.link(mbps * times / 2),
    };
    let cube = |sides: &[u32], wraps| {
        let graph = Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap();
        Topology::direct(Arc::new(graph), host)
    };
    let switched = |draw: &mut Draw| match draw.below(6) {
        0 => Topology::star(5, host),
        1 => Topology::fat_tree(4, host, core),
        2 => Topology::fat_tree(6, host, core),
        3 => Topology::leaf_spine(3, 2, 1, host, core),
        n => Topology::leaf_spine(3, 3, n as u32, host, core),
    };
    let direct = |draw: &mut Draw| match draw.below(4) {
        0 => cube(&[4, 4], true),
        1 => cube(&[3, 3, 3], true),
        2 => cube(&[3, 4], false),
        _ => cube(&[2], false),
    };
    let drack = |draw: &mut Draw| {
        let (racks, hosts_per_rack) = draw.pick(&[(2, 4), (4, 2), (3, 3)]);
        let cores = Wiring::default_cores(racks, hosts_per_rack);
        let cxl = draw.link(500_000);
        Topology::drack(Wiring { racks, hosts_per_rack, cores }, host, core, cxl)
    };
    if protocol == Edm::PROTOCOL {
        return Topology::star(5, host);
    }
    match draw.below(3) {
        0 if profile.networks.have_direct() => direct(draw),
        1 if profile.several_links => drack(draw),
        _ if profile.networks.have_switches() => switched(draw),
        _ => direct(draw),
    }
}

fn case(number: u64) -> (Setup, Message) {
    let mut draw = Draw(SplitMix64::new(number));
    let protocols = known().protocols;
    let protocol = protocols[(number % protocols.len() as u64) as usize];
    let topology = topology(&mut draw, protocol);
    let nodes = u64::from(topology.nodes());
    let mut setup = setup_on(topology, protocol, 1 << 30);
    setup.network.switch_latency = Time::from_ns(draw.pick(&[0, 100, 450]));
    setup.ethernet.mtu = Bytes::new(draw.pick(&[64, 128, 256, 576, 1_500, 4_096, 9_000, 65_536]));
    setup.ethernet.headers = draw.below(4) > 0;
    setup.ethernet.cut_through = draw.below(2) == 0;
    setup.seed = number;
    let packet = match protocol {
        Cxl::PROTOCOL => 64,
        _ => setup.ethernet.mtu.get() - if setup.ethernet.headers { 52 } else { 0 },
    };
    let src = draw.below(nodes);
    let dst = (src + 1 + draw.below(nodes - 1)) % nodes;
    let make = draw.pick(&[Message::read, Message::write, Message::rmw, Message::flow]);
    let bytes = match draw.below(8) {
        // Around whole packets.
        0 => (packet * draw.spread(64) + draw.below(3)).saturating_sub(1).max(1),
        _ => draw.spread((packet * MOST_PACKETS).min(20_000_000)),
    };
    (setup, make(src as u32, dst as u32, bytes))
}

/// Returns what is wrong with a case; `None` if it is right, or if the protocol does not run on such a network.
fn flaw(number: u64, ran: &mut u64) -> Option<String> {
    let (setup, message) = case(number);
    let protocol = setup.fabric.protocol();
    let Ok(done) = setup.run(&Work::listed(vec![(Time::ZERO, message)]), |_| {}) else { return None };
    *ran += 1;
    let Network { topology, switch_latency } = &setup.network;
    let what = format!(
        "case {number}, {protocol}: {message:?} on {} nodes, {:?} and {:?}, {switch_latency} a switch, {:?}",
        topology.nodes(),
        topology.host_link(),
        topology.core_link(),
        setup.ethernet
    );
    if done.run.finished() == 0 {
        return Some(format!("unfinished: {what}"));
    }
    let (took, unloaded) = (completion_ps(&done.run, 0), done.run.unloaded[0].as_ps());
    let is_wrong = took != unloaded || setup.network.ideal(&message).as_ps() > unloaded;
    is_wrong.then(|| format!("{:.6} ({took} ps of {unloaded} ps): {what}", took as f64 / unloaded as f64))
}

#[test]
fn a_lone_message_has_a_slowdown_of_exactly_1() {
    let cases = if std::env::var("UNRACK_EXTREMES").is_ok_and(|all| all == "all") { MANY } else { CASES };
    let (mut ran, mut number, mut flaws) = (0, 0, Vec::new());
    while ran < cases {
        flaws.extend(flaw(number, &mut ran));
        number += 1;
    }
    assert!(flaws.is_empty(), "{} of {ran}:\n{}", flaws.len(), flaws.join("\n"));
}
