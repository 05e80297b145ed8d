//! Leftovers at the end of a run, whatever failed: no transfer keeps anything.

use super::Emptied;
use crate::contract::Registered;
use crate::fabric::fastpass::Fastpass;
use crate::fabric::ndp::Ndp;
use crate::fabric::pfabric::Pfabric;
use crate::fabric::pfc_dcqcn::PfcDcqcn;
use crate::fabric::receiver_driven::{Homa, Ird, Phost};
use crate::site::{Ethernet, SwitchBuffer};
use proptest::prelude::*;
use std::sync::Arc;
use unrack_engine::events::Sim;
use unrack_engine::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_engine::network::{Network, Pace};
use unrack_engine::topology::{Link, Topology};
use unrack_protocol::fastpass;
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{ListedMessages, Message};

fn link() -> Link {
    Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ns(100) }
}

fn topology() -> Topology {
    Topology::leaf_spine(2, 3, 2, link(), link())
}

fn any_failure() -> impl Strategy<Value = Downtime> {
    let what = prop_oneof![
        (0u32..6).prop_map(BrokenPart::Node),
        (0u32..4).prop_map(BrokenPart::Switch),
        (0u32..2, 2u32..4).prop_map(|(leaf, spine)| BrokenPart::Between(leaf, spine)),
    ];
    let until = prop_oneof![Just(Time::MAX), (1u64..300).prop_map(|us| Time::from_us(100 + us))];
    (what, 0u64..100, until, prop::option::of(0u64..50)).prop_map(|(what, from, until, detected)| Downtime {
        what,
        from: Time::from_us(from),
        until,
        every: None,
        detected_after: detected.map(Time::from_us),
    })
}

fn any_message() -> impl Strategy<Value = (Time, Message)> {
    let kinds = [Message::flow, Message::read, Message::write, Message::rmw];
    let sizes = prop_oneof![Just(64), Just(1_448), 1u64..60_000];
    (0u64..100, 0u32..6, 1u32..6, 0usize..4, sizes).prop_map(move |(at, src, ahead, kind, bytes)| {
        (Time::from_us(at), kinds[kind](src, (src + ahead) % 6, bytes))
    })
}

fn ends_empty<F: Emptied + Registered>(fabric: F, messages: &Arc<Vec<(Time, Message)>>) {
    let name = F::PROTOCOL;
    let (fabric, run) = Sim::new(fabric, ListedMessages::new(messages.clone(), 6).unwrap()).run_dry();
    let counters = &run.counters;
    assert_eq!(counters.sent_bytes, counters.arrived_bytes + counters.dropped_bytes, "{name}");
    for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
        assert!(outcome.completed().is_some() || outcome.is_given_up(), "{name}: {message:?}");
    }
    assert!(fabric.is_empty(), "{name} keeps something");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_places_credits_tokens_and_demands_are_all_accounted_for(
        failures in prop::collection::vec(any_failure(), 0..3),
        errors in prop::sample::select(vec![0.0, 1e-6, 1e-4]),
        messages in prop::collection::vec(any_message(), 1..40),
        buffer in prop_oneof![Just(9_000u64), Just(40_000)],
        alpha in prop::option::of(0.2f64..8.0),
        cut_through: bool,
    ) {
        let faults = FaultSchedule::new(&topology(), &failures, ErrorRates { host: errors, core: errors }, 5).unwrap();
        let network = Network { topology: topology().with_faults(faults), switch_latency: Time::from_ns(300) };
        let of_switches = |bytes| match alpha {
            None => SwitchBuffer::Private(Bytes::new(bytes)),
            Some(alpha) => SwitchBuffer::Shared { size: Bytes::new(bytes * 12), alpha },
        };
        let ethernet =
            |bytes| Ethernet { mtu: Bytes::new(1500), headers: true, buffer: of_switches(bytes), cut_through };
        let small = ethernet(buffer);
        // A buffer with room for the headroom of pauses, and little else.
        let large = ethernet(30_000);
        let mut messages = messages;
        messages.sort_by_key(|(at, _)| *at);
        let messages = Arc::new(messages);
        ends_empty(Pfabric::new(&network, &small, &Default::default()).unwrap(), &messages);
        ends_empty(Phost::with(&network, &small, &Default::default()).unwrap(), &messages);
        ends_empty(Homa::with(&network, &small, &Default::default()).unwrap(), &messages);
        ends_empty(Ird::with(&network, &small).unwrap(), &messages);
        ends_empty(Ndp::new(&network, &small, &Default::default()).unwrap(), &messages);
        ends_empty(PfcDcqcn::new(&network, &large, &Default::default(), 1).unwrap(), &messages);
        let slow = fastpass::Params { processing: Time::from_ns(500), ..Default::default() };
        ends_empty(Fastpass::new(&network, &small, &slow).unwrap(), &messages);
    }
}
