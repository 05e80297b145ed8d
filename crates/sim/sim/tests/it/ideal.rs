//! `ideal` against closed forms, and against every other fabric.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_conserved, assert_unloaded_is_exact, completion_ps};
use proptest::prelude::*;
use unrack_rack::Protocol;
use unrack_sim::fabric::ideal::Ideal;
use unrack_sim::network::{Network, StarNetwork};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::{FabricConfig, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

const STAR: StarNetwork = StarNetwork {
    nodes: 4,
    rate: Rate::from_gbps(100),
    propagation: Time::from_ns(10),
    switch_latency: Time::from_ns(5),
};

#[test]
fn alone_it_takes_what_arithmetic_says() {
    assert_unloaded_is_exact(Ideal::new(&Network::star(&STAR)));
    let run = common::run(Ideal::new(&Network::star(&STAR)), vec![(Time::ZERO, Message::read(2, 3, 4096))]);
    assert_eq!(completion_ps(&run, 0), 8 * 80 + 20_000 + 4096 * 80 + 20_000, "the switch takes no time");
}

#[test]
fn nothing_waits() {
    let both = [Message::write(0, 2, 1000), Message::write(1, 2, 100)];
    let run =
        common::run(Ideal::new(&Network::star(&STAR)), both.map(|message| (Time::ZERO, message)).to_vec());
    assert_conserved(&run);
    assert_eq!([0, 1].map(|n| completion_ps(&run, n)), [1000 * 80 + 20_000, 100 * 80 + 20_000]);
}

fn arbitrary_message() -> impl Strategy<Value = (Time, Message)> {
    let kinds = prop::sample::select(vec![Message::read, Message::write, Message::rmw, Message::flow]);
    let sizes = prop_oneof![1..300u64, 1..20_000u64];
    (0..2_000u64, kinds, 0..STAR.nodes, 1..STAR.nodes, sizes).prop_map(|(at_ns, kind, src, offset, bytes)| {
        (Time::from_ns(at_ns), kind(src, (src + offset) % STAR.nodes, bytes))
    })
}

fn around_a_switch() -> Vec<Protocol> {
    known().protocols.into_iter().filter(|protocol| protocol.profile().networks.have_switches()).collect()
}

fn arbitrary_setup() -> impl Strategy<Value = Setup> {
    let rates = prop::sample::select(vec![10u64, 25, 30, 40, 100, 400]);
    let delays =
        (0..500u64, 0..500u64).prop_map(|(link, switch)| (Time::from_ns(link), Time::from_ns(switch)));
    (rates, delays, any::<bool>(), prop::sample::select(around_a_switch())).prop_map(
        |(gbps, (propagation, switch_latency), cut_through, fabric)| Setup {
            network: Network::star(&StarNetwork {
                rate: Rate::from_gbps(gbps),
                propagation,
                switch_latency,
                ..STAR
            }),
            ethernet: Ethernet {
                mtu: Bytes::new(1500),
                headers: true,
                // Pauses need headroom for packets on the way.
                buffer: SwitchBuffer::Private(Bytes::new(if fabric == PfcDcqcn::PROTOCOL {
                    1 << 20
                } else {
                    36 << 10
                })),
                cut_through,
            },
            fabric: FabricConfig::default_of(fabric),
            seed: 1,
            time_limit: Time::MAX,
        },
    )
}

proptest! {
    #[test]
    fn no_message_is_faster_on_any_fabric(
        setup in arbitrary_setup(),
        mut messages in prop::collection::vec(arbitrary_message(), 1..40),
    ) {
        messages.sort_by_key(|(at, _)| *at);
        let run = setup.run(&Work::listed(messages), |_| {}).unwrap().run;
        for (message, (outcome, unloaded)) in run.messages.iter().zip(run.outcomes.iter().zip(&run.unloaded)) {
            let least = setup.network.ideal(message);
            prop_assert!(outcome.completion().unwrap() >= least, "{message:?} on {:?}", setup.fabric);
            prop_assert!(*unloaded >= least, "{message:?} alone on {:?}", setup.fabric);
        }
    }
}
