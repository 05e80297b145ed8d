//! Insides of hosts against closed forms, and against networks without them.

use crate::common::fabrics::*;
use crate::common::{assert_conserved, completion_ps};
use std::sync::Arc;
use unrack_protocol::tcp;
use unrack_rack::{HostSpec, Wiring};
use unrack_sim::HostModel;
use unrack_sim::network::{Network, Pace};
use unrack_sim::run::Run;
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

/// Returns hosts with memories of 20 ps a byte, DMA engines of 32 ps a byte and an interrupt for each packet. CXL
/// ports take 16 ps a byte.
fn spec() -> HostSpec {
    let mut spec = HostSpec { dram_cache: false, ..HostSpec::default() };
    spec.memory.rate = Rate::from_gbps(400);
    spec.nic.dma.rate = Rate::from_gbps(250);
    spec.nic.interrupt_delay = Time::ZERO;
    spec
}

fn setup(pooled: bool, (racks, hosts): (u32, u32), spec: HostSpec, cxl: Link) -> Setup {
    let topology = match pooled {
        true => {
            let wiring = Wiring { racks, hosts_per_rack: hosts, cores: Wiring::default_cores(racks, hosts) };
            Topology::drack(wiring, link(100, 200), link(100, 350), cxl)
        }
        false => Topology::leaf_spine(racks, hosts, hosts, link(100, 200), link(100, 350)),
    };
    let topology = topology.with_hosts(HostModel { spec: Arc::new(spec), cxl });
    let buffer = SwitchBuffer::Private(Bytes::new(1 << 24));
    Setup {
        network: Network { topology, switch_latency: Time::from_ns(300) },
        ethernet: Ethernet { mtu: Bytes::new(4096), headers: true, buffer, cut_through: true },
        fabric: FabricConfig::default_of(Tcp::PROTOCOL),
        seed: 1,
        time_limit: Time::MAX,
    }
}

const CXL: fn() -> Link = || link(500, 55);

fn run(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    let run = setup.run(&Work::listed(messages), |_| {}).unwrap().run;
    assert!(run.is_complete());
    run
}

fn alone(setup: &Setup, message: Message) -> u64 {
    let run = run(setup, vec![(Time::ZERO, message)]);
    assert_eq!(run.unloaded[0].as_ps(), completion_ps(&run, 0));
    completion_ps(&run, 0)
}

/// Time of a line from the host's own memory: 1,280 ps for the line and 80 ns of memory.
const HERE: u64 = 80_000 + 1_280;
/// Time of a line from another host's memory: four times 55 ns more.
const THERE: u64 = HERE + 4 * 55_000;
/// Time of a core for a packet.
const PACKET: u64 = 1_000_000;
/// Time of a core for an interrupt.
const INTERRUPT: u64 = 1_000_000;

#[test]
fn a_reference_in_a_rack_is_arithmetic() {
    let setup = setup(true, (1, 2), spec(), CXL());
    // The reference is stored in the receiver's memory; its core loads it, then four times the header, sends an
    // acknowledgement, and loads the payload.
    let stored = 2 * 55_000 + HERE;
    let from_0 = PACKET + stored + INTERRUPT + HERE + 4 * THERE + PACKET + PACKET + THERE;
    // That load finds the memory busy with the line of the acknowledgement's reference.
    assert_eq!(alone(&setup, Message::write(0, 1, 64)), from_0 + 1_280);
    // The first granule of a buffer is in the memory of host 0 (256 B in turn): here the receiver's.
    assert_eq!(alone(&setup, Message::write(1, 0, 64)), from_0 - 5 * (THERE - HERE));
}

/// Time of a core for a packet that passes by reference outside the stack.
const REFERENCE: u64 = 150_000;

#[test]
fn a_reference_outside_the_stack_takes_no_interrupt_and_no_header() {
    let mut spec = spec();
    spec.cpu.reference_time = Some(Time::from_ps(REFERENCE));
    let stored = 2 * 55_000 + HERE;
    // Its core loads the reference, sends an acknowledgement, and loads the payload.
    let from_0 = REFERENCE + stored + HERE + REFERENCE + REFERENCE + THERE;
    let setup = setup(true, (1, 2), spec.clone(), CXL());
    assert_eq!(alone(&setup, Message::write(0, 1, 64)), from_0 + 1_280);
    let run = run(&setup, vec![(Time::ZERO, Message::write(0, 1, 64))]);
    assert_eq!(run.hosts.unwrap().interrupts, 0);
}

#[test]
fn packets_by_nics_are_the_stacks_whatever_references_take() {
    let spec = HostSpec { memory_pool: false, ..spec() };
    let mut other = spec.clone();
    other.cpu.reference_time = Some(Time::from_ps(REFERENCE));
    let time = |spec: HostSpec| alone(&setup(false, (2, 2), spec, CXL()), Message::write(0, 1, 64));
    assert_eq!(time(spec), time(other));
}

#[test]
fn a_copy_takes_as_long_as_a_core_copies() {
    let spec = HostSpec { memory_pool: false, ..spec() };
    let mut slow = spec.clone();
    // 64 B take 512 ns, longer than loading them.
    slow.cpu.copy_rate = Some(Rate::from_gbps(1));
    let time = |spec: HostSpec| alone(&setup(false, (2, 2), spec, CXL()), Message::write(0, 2, 64));
    assert_eq!(time(slow) - time(spec), 512_000 - HERE);
    // Who reads in place copies nothing.
    let mut referring = self::spec();
    let time = |spec: HostSpec| alone(&setup(true, (1, 2), spec, CXL()), Message::write(0, 1, 64));
    let read = time(referring.clone());
    referring.cpu.copy_rate = Some(Rate::from_gbps(1));
    assert_eq!(time(referring), read);
}

#[test]
fn the_cache_saves_all_loads_but_the_first() {
    let setup = setup(true, (1, 2), HostSpec { dram_cache: true, ..spec() }, CXL());
    // A line of 128 B comes, and each load waits for the cache.
    let fetched = 80_000 + 4 * 55_000 + 128 * 20;
    let stored = 2 * 55_000 + HERE;
    let expected = PACKET + stored + INTERRUPT + HERE + fetched + 4 * 80_000 + PACKET + PACKET + HERE;
    let run = run(&setup, vec![(Time::ZERO, Message::write(0, 1, 64))]);
    assert_eq!(completion_ps(&run, 0), expected);
    let counts = run.hosts.unwrap();
    // The acknowledgement's header is loaded too, after the end.
    assert_eq!((counts.loads, counts.hits), (5, 4));
}

#[test]
fn a_packet_between_racks_is_arithmetic() {
    let spec = HostSpec { memory_pool: false, ..spec() };
    // The host has a NIC of its own: descriptor and data by DMA, 116 B in memory and 154 B on the wire.
    let dma = 55_000;
    let bell = dma;
    let descriptor = dma + 80_000 + 16 * 32 + dma;
    let data = dma + 80_000 + 116 * 32 + dma;
    let wire = 154 * 80 + 2 * 200_000 + 2 * 350_000 + 3 * 300_000;
    let written = dma + 116 * 32 + 80_000;
    let completion = dma + 16 * 32 + 80_000;
    let stack = HERE + 4 * HERE + PACKET;
    // An acknowledgement; then a load of the payload, and a store of the copy behind it in the same memory.
    let read = PACKET + HERE;
    let expected = PACKET + bell + descriptor + data + wire + written + completion + INTERRUPT + stack + read;
    assert_eq!(alone(&setup(false, (2, 2), spec, CXL()), Message::write(0, 2, 64)), expected);
}

/// One busy host to each rack: its CXL port takes 10 Gb/s, and four NICs 100 Gb/s each.
#[test]
fn a_pool_of_memory_has_the_bandwidth_that_one_host_has_not() {
    let rate = |memory_pool| {
        let mut spec = HostSpec { memory_pool, program_loads: false, ..spec() };
        (spec.cpu.packet_time, spec.cpu.header_loads) = (Time::from_ns(10), 0);
        let mut setup = setup(true, (2, 4), spec, link(10, 55));
        setup.fabric = FabricConfig::new::<Tcp>(tcp::Params { spraying: true, ..Default::default() });
        let run = run(&setup, vec![(Time::ZERO, Message::write(0, 4, 20_000_000))]);
        assert_conserved(&run);
        20_000_000.0 * 8.0 / run.ended.as_ns_f64()
    };
    let (own, pooled) = (rate(false), rate(true));
    assert!((8.5..10.0).contains(&own), "{own}");
    assert!((32.0..40.0).contains(&pooled), "{pooled}");
}

#[test]
fn cores_are_the_limit_where_nothing_else_is() {
    // A packet takes a core 5 us: one stream on one core has 6.5 Gb/s of payload.
    let mut spec = HostSpec { memory_pool: false, ..spec() };
    (spec.cpu.packet_time, spec.cpu.header_loads) = (Time::from_us(5), 0);
    spec.memory.latency = Time::ZERO;
    let rate = |streams: u32| {
        let setup = setup(true, (2, 4), spec.clone(), CXL());
        let messages = (0..streams).map(|_| (Time::ZERO, Message::write(0, 4, 4_000_000))).collect();
        let run = run(&setup, messages);
        assert!(run.hosts.unwrap().busiest <= run.ended);
        f64::from(streams) * 4_000_000.0 * 8.0 / run.ended.as_ns_f64()
    };
    // The sender handles an acknowledgement for each packet too, except those of the last window.
    let half = 4044.0 * 8.0 / 10_000.0;
    let one = rate(1);
    assert!((0.9 * half..1.05 * half).contains(&one), "{one}");
    // Hashes spread 32 streams over four cores.
    let many = rate(32);
    assert!((2.0 * half..4.2 * half).contains(&many), "{many}");
}

#[test]
fn what_finds_no_descriptor_is_lost_and_sent_again() {
    let mut spec = HostSpec { memory_pool: false, ..spec() };
    (spec.nic.receive_queue, spec.cpu.packet_time) = (4, Time::from_us(20));
    let setup = setup(false, (2, 2), spec, CXL());
    let messages = (0..8).map(|_| (Time::ZERO, Message::write(0, 2, 200_000))).collect();
    let run = run(&setup, messages);
    let counts = run.hosts.unwrap();
    assert!(counts.no_descriptor > 0 && counts.no_descriptor == run.counters.dropped_packets);
}

#[test]
fn other_fabrics_say_that_they_know_nothing_of_hosts() {
    let mut setup = setup(false, (2, 2), spec(), CXL());
    setup.fabric = FabricConfig::default_of(Homa::PROTOCOL);
    assert_eq!(setup.run(&Work::listed(Vec::new()), |_| {}).err().unwrap().key, "host");
}
