//! `cxl` against closed forms.

use crate::common;

use common::{
    assert_conserved, assert_unloaded_is_exact, assert_unloaded_is_exact_between, completion_ps, run,
};
use unrack_basis::SplitMix64;
use unrack_protocol::cxl::{AnswerOrder, Flit, Params};
use unrack_sim::Run;
use unrack_sim::fabric::cxl::Cxl;
use unrack_sim::network::{Network, Pace, StarNetwork};
use unrack_sim::topology::{Link, Topology};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn star(nodes: u32, gbps: u64) -> StarNetwork {
    StarNetwork {
        nodes,
        rate: Rate::from_gbps(gbps),
        propagation: Time::from_ns(10),
        switch_latency: Time::ZERO,
    }
}

fn cxl(nodes: u32) -> Cxl {
    Cxl::new(&Network::star(&star(nodes, 100)), &Params::default()).unwrap()
}

const FLIT: u64 = 68 * 80;
/// Time over two links of 10 ns, two ports of 12.5 ns and a hop of 100 ns.
const CROSSING: u64 = 145_000;

#[test]
fn alone_is_arithmetic() {
    let at = Time::from_us(1);
    let run = run(cxl(2), vec![(Time::ZERO, Message::write(0, 1, 64)), (at, Message::read(0, 1, 64))]);
    // A request takes a flit on each link, a line of data two.
    assert_eq!(completion_ps(&run, 0), 4 * FLIT + CROSSING);
    assert_eq!(completion_ps(&run, 1), 2 * FLIT + CROSSING + 4 * FLIT + CROSSING);
}

#[test]
fn unloaded_is_exact_for_all_kinds_sizes_rates_and_flits() {
    for gbps in [10, 25, 30, 40, 100, 200] {
        for flit in [Flit::B68, Flit::B256] {
            let params = Params { flit, ..Params::default() };
            assert_unloaded_is_exact(Cxl::new(&Network::star(&star(3, gbps)), &params).unwrap());
        }
    }
}

#[test]
fn one_flow_has_the_line_rate_less_headers() {
    let lines = 100_000;
    let run = run(cxl(2), vec![(Time::ZERO, Message::write(0, 1, lines * 64))]);
    // A line takes five slots, of which a 68 B flit has four: 85 B for 64 B.
    assert_eq!(completion_ps(&run, 0), 2 * FLIT + CROSSING + lines / 4 * 5 * FLIT);
}

#[test]
fn too_few_credits_bound_the_rate_by_their_round_trip() {
    let params = Params { credits: 4, ..Params::default() };
    let bytes = 64 * 10_000;
    let run = run(
        Cxl::new(&Network::star(&star(2, 100)), &params).unwrap(),
        vec![(Time::ZERO, Message::write(0, 1, bytes))],
    );
    // A credit comes back a line, a link, a port, a hop, and a flit and a link after it was spent.
    let loop_ps = 2 * FLIT + 10_000 + 12_500 + 100_000 + FLIT + 10_000;
    let share = completion_ps(&run, 0) as f64 / (10_000.0 / 4.0 * loop_ps as f64);
    assert!((0.85..1.1).contains(&share), "{share}");
}

/// Runs an incast: node 1 writes 256 KiB to node 2, which nobody else uses; nodes 3 to 18 write as much to node 0. If
/// node 1 `shares`, it has written 16 KiB to node 0 before.
fn incast(shares: bool) -> Run {
    let mut script = vec![(Time::from_us(2), Message::write(1, 2, 1 << 18))];
    script.extend((3..19).map(|src| (Time::ZERO, Message::write(src, 0, 1 << 18))));
    if shares {
        script.push((Time::ZERO, Message::write(1, 0, 1 << 14)));
    }
    run(cxl(19), script)
}

#[test]
fn an_incast_blocks_what_is_behind_it_and_nothing_else() {
    let (apart, behind) = (incast(false), incast(true));
    assert_conserved(&apart);
    assert_conserved(&behind);
    let alone = apart.unloaded[victim(&apart)].as_ps();
    assert_eq!(completion_ps(&apart, victim(&apart)), alone, "crosses a full switch unhindered");
    // After 2 us it waits behind 16 KiB of its own node for the full port, which serves that node one time in 17.
    let turns = 17 * (1 << 14) / 64 / 4 * 5 * FLIT;
    let waited = completion_ps(&behind, victim(&behind)) - alone;
    assert!(waited + 2_000_000 > turns * 9 / 10 && waited < turns, "{waited} ps, turns {turns} ps");
}

fn victim(run: &Run) -> usize {
    run.messages.iter().position(|message| message.dst == 2).unwrap()
}

#[test]
fn inputs_share_a_port_evenly() {
    let script = (1..9).map(|src| (Time::ZERO, Message::write(src, 0, 1 << 18))).collect();
    let run = run(cxl(9), script);
    assert_conserved(&run);
    let ends: Vec<u64> = (0..8).map(|n| completion_ps(&run, n)).collect();
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(last - first < 20 * FLIT, "{ends:?}");
    // The port is kept busy.
    assert_eq!(*last, 2 * FLIT + CROSSING + 8 * (1 << 18) / 64 / 4 * 5 * FLIT);
}

#[test]
fn the_same_run_twice_is_the_same() {
    let (a, b) = (incast(true), incast(true));
    assert_eq!((a.outcomes, a.counters), (b.outcomes, b.counters));
}

const RUNS: Params = Params {
    flit: Flit::B68,
    credits: 64,
    outstanding: 256,
    hop: Time::from_ns(100),
    port: Time::from_ps(12_500),
    run: 16,
    credit_unit: None,
    transfers: 16,
    answers: AnswerOrder::ByLine,
    blocking: true,
};

#[test]
fn runs_of_lines_are_exact_alone() {
    for gbps in [10, 25, 30, 40, 100, 200] {
        for flit in [Flit::B68, Flit::B256] {
            let params = Params { flit, ..RUNS };
            assert_unloaded_is_exact(Cxl::new(&Network::star(&star(3, gbps)), &params).unwrap());
        }
    }
    let link = |gbps| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(350) };
    for core in [40, 160] {
        let topology = Topology::leaf_spine(3, 4, 2, link(40), link(core));
        let network = Network { topology, switch_latency: Time::ZERO };
        for (flit, dst) in [(Flit::B68, 1), (Flit::B68, 11), (Flit::B256, 11)] {
            let params = Params { flit, credits: 1_000, outstanding: 4_000, ..RUNS };
            assert_unloaded_is_exact_between(Cxl::new(&network, &params).unwrap(), 0, dst);
        }
    }
}

#[test]
fn runs_of_lines_alone_take_as_long_as_lines() {
    let link = |gbps| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(350) };
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    let sizes = [64, 65, 1_000, 1_100, 4_096, 100_000];
    let all = kinds.iter().flat_map(|kind| sizes.map(|bytes| kind(0, 11, bytes)));
    let script: Vec<(Time, Message)> =
        all.enumerate().map(|(n, message)| (Time::from_us(1_000) * n as u64, message)).collect();
    for core in [10, 20, 25, 60, 80, 100, 400] {
        let topology = Topology::leaf_spine(3, 4, 2, link(40), link(core));
        let network = Network { topology, switch_latency: Time::ZERO };
        for flit in [Flit::B68, Flit::B256] {
            let ends = |lines| {
                let params = Params { flit, credits: 1_000, outstanding: 4_000, run: lines, ..RUNS };
                let run = run(Cxl::new(&network, &params).unwrap(), script.clone());
                (0..script.len()).map(|index| completion_ps(&run, index)).collect::<Vec<_>>()
            };
            assert_eq!(ends(1), ends(16), "core of {core} Gb/s, {flit:?}");
        }
    }
}

#[test]
fn a_page_of_runs_takes_few_events() {
    let alone = |params| {
        let cxl = Cxl::new(&Network::star(&star(2, 100)), params).unwrap();
        run(cxl, vec![(Time::ZERO, Message::read(0, 1, 4096))]).counters.events
    };
    let (lines, runs) = (alone(&Params { run: 1, ..RUNS }), alone(&RUNS));
    assert!(lines > 300 && runs <= 35, "{lines} events, {runs} with runs");
}

#[test]
fn runs_of_lines_agree_with_lines() {
    // Reads and writes of a line, some lines, a page and 64 KiB between random nodes, at about a fifth of the links.
    let sizes = [64, 640, 4096, 64, 1_000, 65_536];
    let mut random = SplitMix64::new(7);
    let script: Vec<(Time, Message)> = (0..3_000u64)
        .map(|n| {
            let (src, other) = (random.next_u64() % 16, random.next_u64() % 15);
            let (src, dst) = (src as u32, ((src + 1 + other) % 16) as u32);
            let make = if random.next_u64() & 1 == 0 { Message::read } else { Message::write };
            (Time::from_ns(300 * n), make(src, dst, sizes[random.next_u64() as usize % sizes.len()]))
        })
        .collect();
    let mean_and_tail = |params: &Params| {
        let run = run(Cxl::new(&Network::star(&star(16, 100)), params).unwrap(), script.clone());
        assert_conserved(&run);
        let mut all: Vec<f64> = (0..script.len()).map(|index| run.slowdown(index).unwrap()).collect();
        all.sort_by(f64::total_cmp);
        (all.iter().sum::<f64>() / all.len() as f64, all[all.len() * 99 / 100])
    };
    let (lines, runs) = (mean_and_tail(&Params { run: 1, ..RUNS }), mean_and_tail(&RUNS));
    let differ = [runs.0 / lines.0 - 1.0, runs.1 / lines.1 - 1.0];
    assert!(lines.0 > 1.3, "there is something to wait for: {lines:?}");
    assert!(differ[0].abs() < 0.08 && differ[1].abs() < 0.15, "lines {lines:?}, runs {runs:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |nodes, params| Cxl::new(&Network::star(&star(nodes, 100)), &params).err().unwrap().key;
    assert_eq!(refused(2, Params { credits: 0, ..Params::default() }), "fabric.credits");
    assert_eq!(refused(2, Params { transfers: 0, ..Params::default() }), "fabric.transfers");
    assert_eq!(refused(1_500, Params { blocking: false, ..Params::default() }), "fabric.blocking");
    let small = Params { credits: 7, credit_unit: Some(Bytes::new(8)), ..Params::default() };
    assert_eq!(refused(2, small), "fabric.credit_unit");
    assert_eq!(refused(2, Params { outstanding: 0, ..Params::default() }), "fabric.outstanding");
    assert_eq!(refused(5000, Params::default()), "network.topology");
}
