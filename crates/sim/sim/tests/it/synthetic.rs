//! Synthetic traffic is as requested, and runs repeat to the byte.

use crate::common;

use common::{Fixed, Ports, assert_conserved};
use unrack_sim::fabric::edm::{Edm, EdmConfig};
use unrack_sim::fabric::ideal::Ideal;
use unrack_sim::network::{Network, StarNetwork};
use unrack_sim::{Fabric, Run, Sim};
use unrack_units::{Rate, Time};
use unrack_workload::{
    Arrivals, Blades, Kind, Pattern, SizeCdf, SizeDistribution, Synthetic, SyntheticSpec, Traffic,
};

const NODES: u32 = 16;
const RATE: Rate = Rate::from_gbps(100);

fn star() -> StarNetwork {
    StarNetwork { nodes: NODES, rate: RATE, propagation: Time::from_ns(10), switch_latency: Time::ZERO }
}

fn spec(load: f64, size: SizeDistribution) -> SyntheticSpec {
    SyntheticSpec {
        traffic: Traffic::memory(0.5),
        size,
        pattern: Pattern::AllToAll,
        blades: None,
        arrivals: Arrivals::Poisson,
        load,
        messages: 100_000,
    }
}

fn run<F: Fabric>(fabric: F, spec: SyntheticSpec, seed: u64) -> Run {
    Sim::new(fabric, Synthetic::new(spec, NODES, RATE, seed).unwrap()).run().0
}

/// Returns the bytes offered to the busiest direction of any link, over what it can carry.
fn offered(run: &Run) -> f64 {
    let mut up = vec![0; NODES as usize];
    let mut down = up.clone();
    for message in &run.messages {
        let request = u64::from(message.request);
        up[message.src as usize] += request;
        down[message.dst as usize] += request;
        up[message.data_src() as usize] += message.bytes;
        down[message.data_dst() as usize] += message.bytes;
    }
    let busiest = *up.iter().chain(&down).max().unwrap() as f64;
    busiest * 8.0 / RATE.as_bps() as f64 / run.ended.as_secs_f64()
}

#[test]
fn the_busiest_link_is_offered_the_load() {
    let blades = Some(Blades::new(12, 4));
    let all_to_all = spec(0.6, SizeDistribution::Fixed(64));
    let cases = [
        all_to_all.clone(),
        SyntheticSpec { arrivals: Arrivals::Fixed, ..all_to_all.clone() },
        SyntheticSpec { pattern: Pattern::Permutation, ..all_to_all.clone() },
        SyntheticSpec { pattern: Pattern::Incast { fan_in: None }, ..all_to_all.clone() },
        SyntheticSpec { blades, ..all_to_all.clone() },
        SyntheticSpec { blades, pattern: Pattern::Permutation, ..all_to_all.clone() },
        SyntheticSpec { traffic: Traffic::Flows, ..all_to_all.clone() },
    ];
    for case in cases {
        let run = run(Fixed(Time::from_ns(1)), case.clone(), 3);
        let load = offered(&run);
        assert!((load / 0.6 - 1.0).abs() < 0.04, "{load} with {case:?}");
    }
}

#[test]
fn reads_and_writes_are_mixed_as_asked() {
    let case = SyntheticSpec { traffic: Traffic::memory(0.3), ..spec(0.5, SizeDistribution::Fixed(64)) };
    let run = run(Fixed(Time::from_ns(1)), case, 3);
    let reads = run.messages.iter().filter(|message| message.kind == Kind::Read).count();
    assert!((reads as f64 / 30_000.0 - 1.0).abs() < 0.02);
    assert!(run.messages.iter().all(|message| message.src != message.dst));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let hash = |seed| {
        let size = || SizeDistribution::Cdf(SizeCdf::built_in("memcached").unwrap());
        let case = SyntheticSpec { messages: 3_000, ..spec(0.7, size()) };
        let edm = run(Edm::new(&star(), &EdmConfig::default()).unwrap(), case.clone(), seed);
        let ports = run(Ports::new(NODES, RATE), case, seed);
        format!("{:?} {:?} {:?}", edm.messages, edm.outcomes, ports.outcomes)
    };
    assert!(hash(1) == hash(1));
    assert!(hash(1) != hash(2));
}

#[test]
fn nothing_is_lost() {
    for (load, size) in [(0.8, 64), (0.5, 4096), (0.9, 100)] {
        let case = || SyntheticSpec { messages: 50_000, ..spec(load, SizeDistribution::Fixed(size)) };
        assert_conserved(&run(Edm::new(&star(), &EdmConfig::default()).unwrap(), case(), 1));
        assert_conserved(&run(Ideal::new(&Network::star(&star())), case(), 1));
    }
}

/// §3.1.1 (1): zero queuing. The only queue is of data already on its way, which shifts by the control that is sent
/// meanwhile: the share of control in what a link carries within one grant's way (240 ns, 3 KB), and a chunk.
#[test]
fn data_of_edm_hardly_queues_in_the_switch_however_long_links_are_saturated() {
    let sizes = [
        SizeDistribution::Fixed(64),
        SizeDistribution::Fixed(4096),
        SizeDistribution::Cdf(SizeCdf::built_in("hadoop").unwrap()),
    ];
    for size in sizes {
        for read_fraction in [0.0, 0.5, 1.0] {
            let traffic = Traffic::memory(read_fraction);
            let case = SyntheticSpec { traffic, messages: 20_000, ..spec(0.95, size.clone()) };
            let run = run(Edm::new(&star(), &EdmConfig::default()).unwrap(), case, 1);
            let queued = run.queue_bytes.max();
            assert!(queued <= 600, "{queued} B of {size:?}, {read_fraction} reads");
        }
    }
}

#[test]
fn one_port_waits_as_an_m_d_1_queue_does() {
    // Writes of one size from many sources into one port: Poisson arrivals, equal service times.
    let pattern = SyntheticSpec {
        pattern: Pattern::Incast { fan_in: None },
        ..spec(0.7, SizeDistribution::Fixed(1000))
    };
    let case = SyntheticSpec { traffic: Traffic::Flows, ..pattern };
    let run = run(Ports::new(NODES, RATE), case, 5);
    let both = run.outcomes.iter().zip(&run.unloaded);
    let waits = both.map(|(outcome, unloaded)| outcome.completion().unwrap() - *unloaded);
    let mean = waits.sum::<Time>().as_ns_f64() / run.outcomes.len() as f64;
    let expected = 80.0 * 0.7 / (2.0 * (1.0 - 0.7)); // service 80 ns (Pollaczek-Khinchine)
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} ns against {expected} ns");
}

#[test]
fn what_makes_no_sense_is_refused_before_the_run() {
    let refused = |spec: SyntheticSpec| Synthetic::new(spec, NODES, RATE, 1).err().unwrap().to_string();
    let good = || spec(0.5, SizeDistribution::Fixed(64));
    assert_eq!(
        refused(SyntheticSpec { load: 1.5, ..good() }),
        "`workload.load` is above 0 and at most 1, but is 1.5"
    );
    assert!(refused(SyntheticSpec { load: f64::NAN, ..good() }).contains("workload.load"));
    assert!(refused(SyntheticSpec { messages: 0, ..good() }).contains("workload.messages"));
    assert!(refused(SyntheticSpec { traffic: Traffic::memory(2.0), ..good() }).contains("read_fraction"));
    let blades = Some(Blades::new(16, 1));
    assert!(refused(SyntheticSpec { blades, ..good() }).contains("workload.blades"));
}
