//! Messages of 4 GiB and more: carried whole and in the time that arithmetic says, or refused by name.

use crate::common::fabrics::*;
use crate::common::{assert_conserved, assert_same, change, completion_ps, setup_on};
use proptest::prelude::*;
use std::sync::Arc;
use unrack_protocol::r2c2;
use unrack_rack::graph::{Graph, Sides};
use unrack_rack::{Collective, Operation, Protocol};
use unrack_sim::network::Pace;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Run, Setup, SetupError, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Arrivals, Message, Pattern, SizeCdf, SizeDistribution, SyntheticSpec, Traffic, size};

const LARGE: u64 = 5 << 30;

/// Creates a setup of two nodes, with the largest packets: a message of 5 GiB is 82,000 of them.
fn setup(protocol: Protocol) -> Setup {
    setup_at(protocol, Rate::from_gbps(400), 1 << 16)
}

fn setup_at(protocol: Protocol, rate: Rate, mtu: u64) -> Setup {
    let link = Link { pace: Pace::new(rate), propagation: Time::from_ns(100) };
    let topology = match protocol.profile().networks.have_switches() {
        true => Topology::star(2, link),
        false => Topology::direct(Arc::new(Graph::cube(Sides::new(&[2]).unwrap(), false).unwrap()), link),
    };
    let mut setup = setup_on(topology, protocol, 1 << 30);
    setup.ethernet.mtu = Bytes::new(mtu);
    change::<Edm>(&mut setup.fabric, |config| config.chunk = Bytes::new(65_472));
    setup
}

/// Returns all fabrics but `cxl`, whose lines of 64 B are too many to be simulated here.
fn simulated() -> impl Iterator<Item = Protocol> {
    known().protocols.into_iter().filter(|it| *it != Cxl::PROTOCOL)
}

/// Returns whether a lone message takes the time of its arithmetic. That of `r2c2` is a lower bound where there are
/// broadcasts.
fn is_exact(protocol: Protocol) -> bool {
    protocol != R2c2::PROTOCOL
}

/// Asserts that these messages were carried whole, each at most `late` after its lone time.
fn assert_carried(protocol: Protocol, run: &Run, sizes: &[u64], late: Time) {
    assert_conserved(run);
    assert_eq!(run.messages.iter().map(|message| message.bytes).collect::<Vec<_>>(), sizes, "{protocol}");
    for (index, message) in run.messages.iter().enumerate() {
        let (took, lone) = (completion_ps(run, index), run.unloaded[index].as_ps());
        let late = if is_exact(protocol) { late.as_ps() } else { lone / 50 };
        assert!((lone..=lone + late).contains(&took), "{protocol}: {took} of {lone}, {message:?}");
    }
}

#[test]
fn a_listed_message_of_5_gib_takes_its_lone_time() {
    for protocol in simulated() {
        let messages = vec![
            (Time::ZERO, Message::flow(0, 1, LARGE)),
            (Time::from_us(1_000_000), Message::read(0, 1, LARGE)),
        ];
        let run = setup(protocol).run(&Work::listed(messages), |_| {}).unwrap().run;
        assert_carried(protocol, &run, &[LARGE, LARGE], Time::ZERO);
    }
}

#[test]
fn a_drawn_message_of_5_gib_takes_its_lone_time() {
    let cdf = SizeCdf::new(&[(LARGE as f64, 0.0), (LARGE as f64, 1.0)], 1.0).unwrap();
    for protocol in simulated() {
        for size in [SizeDistribution::fixed(LARGE).unwrap(), SizeDistribution::Cdf(cdf.clone())] {
            let work = Work::Synthetic(SyntheticSpec {
                traffic: Traffic::Flows,
                size,
                pattern: Pattern::Incast { fan_in: None },
                blades: None,
                arrivals: Arrivals::Poisson,
                load: 0.5,
                messages: 1,
            });
            let run = setup(protocol).run(&work, |_| {}).unwrap().run;
            assert_carried(protocol, &run, &[LARGE], Time::ZERO);
        }
    }
}

/// A worker sends a server all of its data, and gets the sum back.
#[test]
fn a_collective_of_5_gib_takes_the_lone_times_of_its_messages() {
    for protocol in simulated() {
        let work = Work::Collective(Collective {
            operation: Operation::ParameterServer,
            size: Bytes::new(LARGE),
            servers: Some(1),
            iterations: 1,
            compute: Time::ZERO,
        });
        let run = setup(protocol).run(&work, |_| {}).unwrap().run;
        // The last acknowledgement of the data goes ahead of the sum, and timeslots are given in batches.
        let late = if protocol == Fastpass::PROTOCOL { Time::from_us(11) } else { Time::from_ns(10) };
        assert_carried(protocol, &run, &[LARGE, LARGE], late);
    }
}

#[test]
fn a_split_run_of_large_messages_is_the_same_run() {
    let link = |ns| Link { pace: Pace::new(Rate::from_gbps(400)), propagation: Time::from_ns(ns) };
    for protocol in splitting() {
        let mut setup = setup_on(Topology::leaf_spine(2, 2, 1, link(100), link(20_000)), protocol, 1 << 30);
        setup.ethernet.mtu = Bytes::new(1 << 16);
        let work = Work::listed(vec![
            (Time::ZERO, Message::flow(0, 2, 1 << 32)),
            (Time::ZERO, Message::read(1, 3, (1 << 32) + 1)),
        ]);
        let whole = setup.run(&work, |_| {}).unwrap().run;
        assert_same(&whole, &setup.split(&work, 2, |_| {}).unwrap().run);
        assert_conserved(&whole);
    }
}

/// Returns the lone time of a message; the run ends as soon as it has begun.
fn lone(setup: &Setup, message: Message) -> Result<Time, SetupError> {
    let begun = Setup { time_limit: Time::from_ps(1), ..setup.clone() };
    let run = begun.run(&Work::listed(vec![(Time::ZERO, message)]), |_| {})?.run;
    Ok(run.unloaded[0])
}

/// Sizes around 2^32, and the largest.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(vec![u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, LARGE, size::MAX_BYTES]),
        (1u64 << 32) - 200_000..(1 << 32) + 200_000,
        1u64 << 31..=size::MAX_BYTES,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// A lone message of n periods more takes n times as long more, as reckoned in 128 bits. A period is that of the
    /// packets, chunks and flits of a fabric.
    #[test]
    fn lone_times_do_not_overflow(bytes in sizes(), gbps in prop::sample::select(vec![25u64, 100, 400]), reads: bool) {
        for protocol in known().protocols {
            // A message is carried to know its time (`mptcp`), or rates are rounded (`r2c2`).
            if [Mptcp::PROTOCOL, R2c2::PROTOCOL].contains(&protocol) {
                continue;
            }
            let setup = setup_at(protocol, Rate::from_gbps(gbps), 1 << 16);
            let bytes = if protocol == Cxl::PROTOCOL { bytes.min(64 << 31) } else { bytes };
            let kind = if reads { Message::read } else { Message::flow };
            let lone = |bytes: u64| u128::from(lone(&setup, kind(0, 1, bytes)).unwrap().as_ps());
            // Packets: without headers, of Ethernet, of R2C2. Chunks of EDM, and lines in whole flits.
            let period = match protocol {
                Edm::PROTOCOL => 65_472,
                // Credits and the window of a node are multiples of 64.
                Cxl::PROTOCOL => 64 * 12 * 5 * 16,
                Ideal::PROTOCOL => 1_000,
                Pfq::PROTOCOL => 65_500,
                _ => 65_536 - 52,
            };
            let (periods, rest) = (bytes / period, bytes % period);
            let from = 1_000.min(periods);
            let (at, next) = (lone(from * period + rest), lone((from + 1) * period + rest));
            let expected = at + (next - at) * u128::from(periods - from);
            prop_assert_eq!(lone(bytes), expected, "{}: {} B", protocol, bytes);
        }
    }

    #[test]
    fn a_lone_flow_of_r2c2_has_the_rate_that_is_left(bytes in sizes()) {
        let setup = setup_at(R2c2::PROTOCOL, Rate::from_gbps(100), 1 << 16);
        let lone = |bytes| lone(&setup, Message::flow(0, 1, bytes)).unwrap().as_ps() as f64;
        let left = 1.0 - r2c2::Params::default().headroom.get();
        // Headers are 36 B of 64 KiB.
        let more = (bytes - (1 << 30)) as f64 * (65_536.0 / 65_500.0) * 80.0 / left;
        let share = (lone(bytes) - lone(1 << 30)) / more;
        prop_assert!((share - 1.0).abs() < 1e-3, "{share}");
    }
}

/// At a kilobit per second, the time of a message is beyond the end of time.
#[test]
fn lone_times_at_the_slowest_rates_end_with_time() {
    for protocol in [Ideal::PROTOCOL, Tcp::PROTOCOL, Pfabric::PROTOCOL, Pfq::PROTOCOL, R2c2::PROTOCOL] {
        let setup = setup_at(protocol, Rate::from_bps(1_000), 1 << 16);
        let time = lone(&setup, Message::flow(0, 1, size::MAX_BYTES)).unwrap();
        assert!(time >= Time::END, "{protocol}: {time}");
    }
}

#[test]
fn a_fabric_that_cannot_carry_a_message_names_it() {
    let refused = |protocol: Protocol, work: &Work| match setup_at(protocol, Rate::from_gbps(100), 64)
        .run(work, |_| {})
    {
        Ok(_) => panic!("{protocol} carries it"),
        Err(why) => why.to_string(),
    };
    let listed = Work::listed(vec![
        (Time::ZERO, Message::flow(0, 1, 1)),
        (Time::ZERO, Message::read(0, 1, 1 << 40)),
        (Time::ZERO, Message::flow(0, 1, 1 << 40)),
    ]);
    let collective = Work::Collective(Collective {
        operation: Operation::ParameterServer,
        size: Bytes::new(1 << 40),
        servers: Some(1),
        iterations: 1,
        compute: Time::ZERO,
    });
    for protocol in known().protocols {
        let why = match protocol {
            Ideal::PROTOCOL | Edm::PROTOCOL => continue,
            Cxl::PROTOCOL => "128GiB for cxl (2^31 lines: cut it into several messages)".to_string(),
            Pfq::PROTOCOL | R2c2::PROTOCOL => {
                format!("56GiB for {protocol} (2^31 packets of 28B: raise `network.mtu`)")
            }
            _ => format!("24GiB for {protocol} (2^31 packets of 12B: raise `network.mtu`)"),
        };
        let expected =
            |key: &str, of: &str| format!("`{key}` has messages of at most {why}, but is 1024GiB{of}");
        assert_eq!(refused(protocol, &listed), expected("workload.file", " in message 2"));
        assert_eq!(refused(protocol, &collective), expected("workload.size", ""));
    }
}
