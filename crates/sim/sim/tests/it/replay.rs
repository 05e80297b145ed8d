//! Replay of a captured program: on a network of fixed latency it is arithmetic.

use crate::common;

use common::{Fixed, assert_conserved};
use std::sync::Arc;
use unrack_sim::fabric::edm::{Edm, EdmConfig};
use unrack_sim::network::StarNetwork;
use unrack_sim::{Run, Sim};
use unrack_units::{Rate, Time};
use unrack_workload::trace::TraceRow;
use unrack_workload::{Blades, CapturedReplay, CapturedTrace, Kind, Replay, ReplaySpec, TimeOffsets};

/// Returns the rows of three threads that fetch and write back at irregular times.
fn rows() -> Vec<TraceRow> {
    let mut rows: Vec<TraceRow> = (0..3_000u64)
        .map(|n| {
            let (thread, write_back) = ((n * 7 % 3) as u32, n % 5 == 0);
            let wait_ns = if write_back { 0 } else { 200 + n * 37 % 101 };
            TraceRow { t_ns: 0, thread, page: n, write_back, bytes: 4096, wait_ns, overhead_ns: n * 13 % 50 }
        })
        .collect();
    let mut now = [0; 3];
    for (n, row) in rows.iter_mut().enumerate() {
        let now = &mut now[row.thread as usize];
        row.t_ns = *now + n as u64 * 31 % 900 + row.overhead_ns;
        *now = row.t_ns + row.wait_ns;
    }
    rows.sort_by_key(|row| row.t_ns);
    rows
}

fn trace() -> Arc<CapturedTrace> {
    let rows = rows();
    let end = Time::from_ns(rows.iter().map(|row| row.t_ns + row.wait_ns).max().unwrap() + 12_345);
    Arc::new(CapturedTrace::new(&rows, end).unwrap())
}

fn spec(mode: Replay, offsets: TimeOffsets) -> ReplaySpec {
    ReplaySpec { blades: Blades::new(3, 5), mode, offsets, seed: 7 }
}

fn replay(latency: Time, spec: &ReplaySpec) -> (Run, CapturedReplay) {
    let source = CapturedReplay::new(trace(), spec, 8).unwrap();
    let (run, source, _) = Sim::new(Fixed(latency), source).run();
    (run, source)
}

#[test]
fn on_a_fixed_latency_it_equals_arithmetic_to_the_picosecond() {
    for latency in [0, 1, 999, 299_520, 5_000_001].map(Time::from_ps) {
        for offsets in [TimeOffsets::None, TimeOffsets::Run, TimeOffsets::Within(Time::from_us(3))] {
            let (run, source) = replay(latency, &spec(Replay::ClosedLoop, offsets));
            let expected = trace().run_time_at(latency);
            assert_eq!(source.run_times().collect::<Vec<_>>(), [expected; 3], "{latency}");
            assert_conserved(&run);
            assert_eq!(run.messages.len(), 9_000);
        }
    }
}

#[test]
fn replicas_compute_on_their_own_blades_and_share_all_memory_blades_evenly() {
    let (run, _) = replay(Time::from_ns(300), &spec(Replay::ClosedLoop, TimeOffsets::Run));
    let mut per_pair = [[0; 8]; 8];
    for message in &run.messages {
        per_pair[message.src as usize][message.dst as usize] += 1;
    }
    for (src, row) in per_pair.iter().enumerate() {
        let (compute, memory) = row.split_at(3);
        assert!(compute.iter().all(|count| *count == 0));
        let expected = if src < 3 { 530..670 } else { 0..1 };
        assert!(memory.iter().all(|count| expected.contains(count)), "{per_pair:?}");
    }
    let writes = run.messages.iter().filter(|message| message.kind == Kind::Write).count();
    assert_eq!(writes, 3 * 600);
}

#[test]
fn open_loop_submits_at_captured_times_whatever_the_network_does() {
    let times = |latency| {
        let (run, _) = replay(latency, &spec(Replay::OpenLoop, TimeOffsets::None));
        run.outcomes.iter().map(|outcome| outcome.submitted).collect::<Vec<_>>()
    };
    let mut expected: Vec<Time> = rows().iter().flat_map(|row| [Time::from_ns(row.t_ns); 3]).collect();
    expected.sort();
    assert_eq!(times(Time::from_us(100)), expected);
    assert_eq!(times(Time::ZERO), expected);
}

#[test]
fn a_real_fabric_delays_the_program_by_at_least_its_unloaded_latency() {
    let star = StarNetwork {
        nodes: 8,
        rate: Rate::from_gbps(100),
        propagation: Time::from_ns(10),
        switch_latency: Time::ZERO,
    };
    let edm = Edm::new(&star, &EdmConfig::default()).unwrap();
    let source = CapturedReplay::new(trace(), &spec(Replay::ClosedLoop, TimeOffsets::Run), 8).unwrap();
    let (run, source, _) = Sim::new(edm, source).run();
    assert_conserved(&run);
    let least = trace().run_time_at(Time::from_ps(299_520 + (4096 - 64) * 80));
    assert!(source.run_times().all(|time| time >= least));
}

#[test]
fn a_rack_too_small_for_its_blades_is_refused() {
    let error = CapturedReplay::new(trace(), &spec(Replay::ClosedLoop, TimeOffsets::None), 7).err().unwrap();
    assert_eq!(
        error.to_string(),
        "`workload.blades` fits on the nodes of the network, but is 3 compute and 5 memory"
    );
}
