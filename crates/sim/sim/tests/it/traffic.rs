//! Traffic of several racks is as requested: sources, destinations, kinds and load.

use crate::common;

use common::Fixed;
use unrack_sim::{Run, Sim};
use unrack_units::{Fraction, Rate, Time};
use unrack_workload::{
    Arrivals, BladeNodes, BladeRacks, Blades, DiskShare, Kind, MemoryMix, Message, Pattern, Scope,
    SizeDistribution, Synthetic, SyntheticSpec, Traffic,
};

const RACKS: BladeRacks = BladeRacks { racks: 4, hosts: 8 };
const RATE: Rate = Rate::from_gbps(100);
const MESSAGES: u64 = 200_000;

fn spec(pattern: Pattern) -> SyntheticSpec {
    SyntheticSpec {
        traffic: Traffic::memory(0.5),
        size: SizeDistribution::Fixed(64),
        pattern,
        blades: None,
        arrivals: Arrivals::Poisson,
        load: 0.6,
        messages: MESSAGES,
    }
}

fn fan_in(sources: u32) -> Pattern {
    Pattern::Incast { fan_in: Some(sources) }
}

fn rack_local(share: f64) -> Pattern {
    Pattern::RackLocal { fraction: Fraction::new(share).unwrap() }
}

fn hot_spots(exponent: f64) -> Pattern {
    Pattern::HotSpots { exponent }
}

fn run(spec: &SyntheticSpec) -> Run {
    let source = Synthetic::new(spec.clone(), RACKS, RATE, 5).unwrap();
    Sim::new(Fixed(Time::from_ns(1)), source).run().0
}

fn refused(spec: &SyntheticSpec) -> String {
    Synthetic::new(spec.clone(), RACKS, RATE, 5).err().expect("refused").to_string()
}

/// Asserts that `found` of `count` drawn items is a share of `share`, within five standard deviations.
#[track_caller]
fn assert_share(found: usize, count: usize, share: f64) {
    let expected = share * count as f64;
    let deviation = (expected * (1.0 - share)).sqrt();
    assert!((found as f64 - expected).abs() <= 5.0 * deviation, "{found} of {count} for {share}");
}

fn count(run: &Run, of: impl Fn(&Message) -> bool) -> usize {
    run.messages.iter().filter(|message| of(message)).count()
}

fn in_rack(message: &Message) -> bool {
    RACKS.rack_of(message.src) == RACKS.rack_of(message.dst)
}

/// Returns the bytes offered to the busiest direction of any host link, over what it can carry.
fn offered(run: &Run) -> f64 {
    let mut up = vec![0; RACKS.nodes() as usize];
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

fn with_disks() -> SyntheticSpec {
    let disk = DiskShare { fraction: 0.1, size: SizeDistribution::Fixed(512) };
    let Traffic::Memory(memory) = Traffic::mixed(0.4, 0.2) else { unreachable!() };
    let blades = Blades { disk: 4, ..Blades::new(16, 12) };
    let traffic = Traffic::Memory(MemoryMix { disk: Some(disk), ..memory });
    SyntheticSpec { traffic, blades: Some(blades), ..spec(Pattern::AllToAll) }
}

#[test]
fn the_busiest_link_is_offered_the_load() {
    let rack_scope = Blades { scope: Scope::Rack, ..Blades::new(20, 12) };
    let cases = [
        spec(fan_in(5)),
        spec(rack_local(0.8)),
        spec(hot_spots(1.0)),
        spec(hot_spots(0.0)),
        SyntheticSpec { traffic: Traffic::mixed(0.3, 0.5), ..spec(Pattern::AllToAll) },
        SyntheticSpec { blades: Some(Blades::new(20, 12)), ..spec(hot_spots(0.9)) },
        SyntheticSpec { blades: Some(Blades::new(20, 12)), ..spec(rack_local(0.3)) },
        SyntheticSpec { blades: Some(rack_scope), ..spec(Pattern::AllToAll) },
        SyntheticSpec { traffic: Traffic::Flows, ..spec(rack_local(0.0)) },
        with_disks(),
    ];
    for case in cases {
        // Enough messages for the busiest of 64 directions to be near the mean.
        let load = offered(&run(&SyntheticSpec { messages: 4 * MESSAGES, ..case.clone() }));
        assert!((load / 0.6 - 1.0).abs() < 0.04, "{load} with {case:?}");
    }
}

#[test]
fn bursts_keep_the_load() {
    let case = SyntheticSpec { arrivals: Arrivals::LogNormal { sigma: 1.0 }, ..spec(Pattern::AllToAll) };
    let load = offered(&run(&case));
    assert!((load / 0.6 - 1.0).abs() < 0.05, "{load}");
}

#[test]
fn kinds_are_mixed_as_asked() {
    let run = run(&SyntheticSpec { traffic: Traffic::mixed(0.3, 0.2), ..spec(Pattern::AllToAll) });
    for (kind, share) in [(Kind::Read, 0.3), (Kind::Rmw, 0.2), (Kind::Write, 0.5)] {
        assert_share(count(&run, |message| message.kind == kind), run.messages.len(), share);
    }
    for message in &run.messages {
        // EDM §2.3: 8 B ask for 64 B; 24 B compare and swap, and 1 B says whether they did.
        let expected = match message.kind {
            Kind::Read => (8, 64),
            Kind::Rmw => (24, 1),
            _ => (0, 64),
        };
        assert_eq!((message.request, message.bytes), expected);
    }
}

#[test]
fn the_share_asked_for_stays_in_the_rack() {
    for share in [0.0, 0.3, 0.8, 1.0] {
        let run = run(&spec(rack_local(share)));
        assert_share(count(&run, in_rack), run.messages.len(), share);
        assert!(run.messages.iter().all(|message| message.src != message.dst));
        // All nodes of the rack are equally likely, and so are all others.
        let of_9 = count(&run, |message| message.src == 9);
        for (dst, among) in [(12, share / 7.0), (30, (1.0 - share) / 24.0)] {
            assert_share(count(&run, |message| (message.src, message.dst) == (9, dst)), of_9, among);
        }
    }
}

#[test]
fn hot_spots_are_as_hot_as_zipf_says() {
    let blades = Blades::new(8, 24);
    let memory = BladeNodes::new(blades, RACKS).unwrap().memory;
    for exponent in [0.5, 1.0, 1.5] {
        let run = run(&SyntheticSpec { blades: Some(blades), ..spec(hot_spots(exponent)) });
        let mut found: Vec<usize> =
            memory.iter().map(|node| count(&run, |message| message.dst == *node)).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        let weights: Vec<f64> = (1..=24).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let all: f64 = weights.iter().sum();
        for (found, weight) in found.iter().zip(&weights) {
            assert_share(*found, run.messages.len(), weight / all);
        }
    }
    // No node is its own hot spot, and the two hottest are not in one rack.
    let run = run(&spec(hot_spots(1.0)));
    assert!(run.messages.iter().all(|message| message.src != message.dst));
    let to = |node| count(&run, |message| message.dst == node);
    assert!(to(0) > to(8) && to(8) > to(16) && to(16) > to(1), "{} {} {}", to(0), to(8), to(1));
}

#[test]
fn so_many_fan_in() {
    let run = run(&spec(fan_in(5)));
    let mut sources: Vec<u32> = run.messages.iter().map(|message| message.src).collect();
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources, [0, 6, 12, 18, 24]);
    assert!(run.messages.iter().all(|message| message.dst == 31));
}

#[test]
fn blades_ask_within_their_scope_and_for_what_they_hold() {
    let blades = Blades { scope: Scope::Rack, disk: 4, ..Blades::new(16, 12) };
    let run = run(&SyntheticSpec { blades: Some(blades), ..with_disks() });
    assert!(run.messages.iter().all(in_rack));
    let BladeNodes { memory, disk, .. } = BladeNodes::new(blades, RACKS).unwrap();
    let to_disk = |message: &Message| disk.contains(&message.dst);
    assert!(run.messages.iter().all(|message| to_disk(message) == (message.bytes == 512)));
    assert!(run.messages.iter().all(|message| to_disk(message) || memory.contains(&message.dst)));
    assert_share(count(&run, to_disk), run.messages.len(), 0.1);
    let reads = count(&run, |message| to_disk(message) && message.kind == Kind::Read);
    assert_share(reads, count(&run, to_disk), 0.4 / 0.8);
}

#[test]
fn what_makes_no_sense_is_refused_before_the_run() {
    let said = |case: SyntheticSpec, key: &str| {
        let said = refused(&case);
        assert!(said.starts_with(&format!("`{key}`")), "{said}");
    };
    said(spec(fan_in(32)), "workload.pattern.fan_in");
    said(spec(fan_in(0)), "workload.pattern.fan_in");
    said(spec(hot_spots(-1.0)), "workload.pattern.exponent");
    said(spec(hot_spots(f64::NAN)), "workload.pattern.exponent");
    let mixed = SyntheticSpec { traffic: Traffic::mixed(0.7, 0.4), ..spec(Pattern::AllToAll) };
    said(mixed, "workload.rmw_fraction");
    let bursts = SyntheticSpec { arrivals: Arrivals::LogNormal { sigma: 9.0 }, ..spec(Pattern::AllToAll) };
    said(bursts, "workload.arrivals.sigma");
    said(SyntheticSpec { blades: Some(Blades::new(16, 12)), ..with_disks() }, "workload.disk");
    said(SyntheticSpec { blades: None, ..with_disks() }, "workload.disk");
    let rack_scope = Blades { scope: Scope::Rack, ..Blades::new(16, 12) };
    let scoped = SyntheticSpec { blades: Some(rack_scope), ..spec(hot_spots(1.0)) };
    said(scoped, "workload.blades.scope");
    // One rack, or racks of one host.
    let alone = |racks, hosts, share| {
        Synthetic::new(spec(rack_local(share)), BladeRacks { racks, hosts }, RATE, 1)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(alone(1, 8, 0.5).contains("no other rack"));
    assert!(alone(8, 1, 0.5).contains("no peer rack"));
}
