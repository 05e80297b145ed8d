//! Replay of lines: on a network of fixed latency it is arithmetic, and real fabrics are slower.

use crate::common;

use common::{Fixed, assert_conserved};
use std::sync::Arc;
use unrack_sim::network::{Network, StarNetwork};
use unrack_sim::{Run, Sim, Work};
use unrack_units::{Rate, Time};
use unrack_workload::lines::{Dependence, LineMessage, LineTrace, LineWindow};
use unrack_workload::{Blades, LineReplay};

/// Returns windows of two threads: chains with independent requests and write-backs between.
fn trace() -> Arc<LineTrace> {
    let request = |n: u32| {
        let is_write_back = n % 7 == 3;
        let after = if n.is_multiple_of(3) { n.checked_sub(3).filter(|after| after % 7 != 3) } else { None };
        let when = Dependence { after, gap: Time::from_ns(u64::from(n * 13 % 40)) };
        LineMessage { when, address: u64::from(n) << 12, is_write_back }
    };
    let window = |length: u32| LineWindow {
        requests: (0..length).map(request).collect(),
        end: Dependence { after: Some(0), gap: Time::from_ns(600) },
    };
    let thread = |first: u32| (first..first + 20).map(window).collect::<Vec<_>>();
    Arc::new(LineTrace::new(&[thread(10), thread(15)]).unwrap())
}

fn end(run: &Run) -> Time {
    let ends = run.outcomes.iter().map(|outcome| outcome.submitted + outcome.completion().unwrap());
    ends.max().unwrap()
}

#[test]
fn each_request_completes_once_on_a_fixed_latency() {
    let source = LineReplay::new(trace(), Blades::half(8), 7, 8).unwrap();
    let (run, _, _) = Sim::new(Fixed(Time::from_ns(300)), source).run();
    assert_conserved(&run);
    assert_eq!(run.messages.len() as u64, 4 * trace().len());
    let mut tags: Vec<u32> = run.messages.iter().map(|message| message.tag).collect();
    tags.sort_unstable();
    assert!(tags.iter().zip(0..).all(|(tag, n)| *tag == n));
}

#[test]
fn real_fabrics_repeat_themselves_and_are_no_faster_than_ideal() {
    let (rate, propagation) = (Rate::from_gbps(100), Time::from_ns(10));
    let star = StarNetwork { nodes: 8, rate, propagation, switch_latency: Time::from_ns(300) };
    let run = |name: &str| {
        let protocol = unrack_sim::known().protocol(name).unwrap();
        let setup = common::setup_on(Network::star(&star).topology, protocol, 1 << 20);
        setup.run(&Work::Lines(trace(), Blades::half(8)), |_| {}).unwrap().run
    };
    let ideal = end(&run("ideal"));
    for name in ["edm", "cxl", "dctcp"] {
        let (one, other) = (run(name), run(name));
        assert!(one.messages == other.messages && one.outcomes == other.outcomes, "{name}");
        assert!(end(&one) >= ideal, "{name}: {} against {ideal}", end(&one));
        assert_eq!(one.messages.len() as u64, 4 * trace().len());
    }
}
