//! `cxl` against closed forms.

use crate::common;

use common::{assert_conserved, assert_unloaded_is_exact, completion_ps, run};
use unrack_protocol::cxl::{Flit, Params};
use unrack_sim::Run;
use unrack_sim::fabric::cxl::Cxl;
use unrack_sim::network::{Network, Star};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

fn star(nodes: u32, gbps: u64) -> Star {
    Star { nodes, rate: Rate::from_gbps(gbps), propagation: Time::from_ns(10), switch_latency: Time::ZERO }
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

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |nodes, params| Cxl::new(&Network::star(&star(nodes, 100)), &params).err().unwrap().key;
    assert_eq!(refused(2, Params { credits: 0, ..Params::default() }), "fabric.credits");
    assert_eq!(refused(2, Params { outstanding: 0, ..Params::default() }), "fabric.outstanding");
    assert_eq!(refused(5000, Params::default()), "network.topology");
}
