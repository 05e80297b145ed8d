//! Switches whose ports share a buffer.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_same, setup_on};
use proptest::prelude::*;
use unrack_rack::{Overrides, Protocol, Scenario};
use unrack_sim::network::Pace;
use unrack_sim::site::SwitchBuffer;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Run, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn link() -> Link {
    Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ns(100) }
}

fn racks() -> Topology {
    Topology::leaf_spine(2, 4, 2, link(), link())
}

fn setup(topology: Topology, protocol: Protocol, buffer: SwitchBuffer) -> Setup {
    let mut setup = setup_on(topology, protocol, 0);
    setup.ethernet.buffer = buffer;
    setup
}

fn shared(size: u64, alpha: f64) -> SwitchBuffer {
    SwitchBuffer::Shared { size: Bytes::new(size), alpha }
}

fn run(setup: &Setup, messages: &[(Time, Message)]) -> Run {
    setup.run(&Work::listed(messages.to_vec()), |_| {}).unwrap().run
}

fn any_messages() -> impl Strategy<Value = Vec<(Time, Message)>> {
    let kinds = [Message::flow, Message::read, Message::write, Message::rmw];
    let sizes = prop_oneof![Just(64), Just(1_448), 1u64..100_000];
    let one = (0u64..40, 0u32..8, 1u32..8, 0usize..4, sizes);
    prop::collection::vec(one, 1..60).prop_map(move |all| {
        let message = |(at, src, ahead, kind, bytes): (u64, u32, u32, usize, u64)| {
            (Time::from_ns(at * 500), kinds[kind](src, (src + ahead) % 8, bytes))
        };
        let mut all: Vec<_> = all.into_iter().map(message).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    })
}

/// Returns messages from 32 senders of 100 kB each into one port.
fn incast() -> Vec<(Time, Message)> {
    (1..33).map(|src| (Time::from_ns(u64::from(src)), Message::write(src, 0, 100_000))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn where_nothing_is_scarce_it_makes_no_difference(messages in any_messages()) {
        for protocol in buffered() {
            let private = setup(racks(), protocol, SwitchBuffer::Private(Bytes::new(1 << 40)));
            let shared = setup(racks(), protocol, shared(1 << 42, 1.0));
            assert_same(&run(&private, &messages), &run(&shared, &messages));
        }
    }

    /// Split runs are the same. The switches assert that no more waits than there is room for.
    #[test]
    fn a_run_that_is_split_is_the_same_and_all_arrive(
        messages in any_messages(), size in 70_000u64..400_000, alpha in 0.2f64..8.0,
    ) {
        for protocol in splitting() {
            let setup = setup(racks(), protocol, shared(size, alpha));
            // Buffers that are too small for pauses are refused.
            let Ok(whole) = setup.run(&Work::listed(messages.clone()), |_| {}) else { continue };
            prop_assert!(whole.run.is_complete());
            prop_assert!(protocol != PfcDcqcn::PROTOCOL || whole.run.counters.dropped_packets == 0);
            assert_same(&whole.run, &setup.split(&Work::listed(messages.clone()), 2, |_| {}).unwrap().run);
        }
    }
}

/// Shared buffers help DCTCP. (TCP without marks fills whatever there is, and loses the packets that come then.)
#[test]
fn an_incast_of_dctcp_loses_less_where_the_same_bytes_are_shared() {
    let star = || Topology::star(33, link());
    let private =
        run(&setup(star(), Dctcp::PROTOCOL, SwitchBuffer::Private(Bytes::new(36 << 10))), &incast());
    let lost = |alpha| {
        let shared = run(&setup(star(), Dctcp::PROTOCOL, shared(33 * (36 << 10), alpha)), &incast());
        assert!(shared.is_complete());
        shared.counters.dropped_packets
    };
    let (one, eight, private) = (lost(1.0), lost(8.0), private.counters.dropped_packets);
    assert!(one < private / 2 && eight <= one, "{eight}, {one}, {private}");
}

#[test]
fn pauses_come_later_where_headroom_alone_is_set_aside() {
    let star = || Topology::star(33, link());
    let pauses = |buffer| {
        let run = run(&setup(star(), PfcDcqcn::PROTOCOL, buffer), &incast());
        assert!(run.is_complete() && run.counters.dropped_packets == 0);
        run.counters.packet_hops
    };
    // Pause frames are hops. Each sender's 100 kB and the headroom fit in the whole buffer, but not in one port's.
    let (private, shared) =
        (pauses(SwitchBuffer::Private(Bytes::new(36 << 10))), pauses(shared(33 << 17, 8.0)));
    assert!(shared < private, "{shared} and {private}");
}

#[test]
fn what_has_no_room_for_headroom_is_refused() {
    let refused = |buffer| {
        let setup = setup(racks(), PfcDcqcn::PROTOCOL, buffer);
        setup
            .run(&Work::listed(vec![(Time::ZERO, Message::flow(0, 1, 64))]), |_| {})
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused(shared(50_000, 1.0)).contains("headroom of pauses"));
}

#[test]
fn a_scenario_says_it() {
    let read = |switch: &str| {
        let text = format!(
            "network.topology = {{ kind = \"star\", nodes = 4 }}\nnetwork.switch = {switch}\n\
             fabric.protocol = \"dctcp\"\nworkload = {{ kind = \"flows\", size = \"1KiB\", load = \"50%\", messages = 10 }}"
        );
        let mut scenario =
            Scenario::parse("test.toml", &text, &Overrides::none()).unwrap().check(&known()).unwrap();
        Setup::from_scenario(&mut scenario).unwrap().ethernet.buffer
    };
    assert_eq!(read(r#"{ buffer = "shared 1MiB" }"#), shared(1 << 20, 1.0));
    assert_eq!(read(r#"{ buffer = "shared 1MiB", alpha = 0.5 }"#), shared(1 << 20, 0.5));
    assert_eq!(read(r#"{ buffer = "64KiB" }"#), SwitchBuffer::Private(Bytes::new(1 << 16)));
}
