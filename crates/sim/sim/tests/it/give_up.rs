//! Permanent failures: every protocol reports the messages that are lost by one, and finishes all others.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_same, setup_on};
use unrack_rack::Protocol;
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::Pace;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Run, Setup, Work};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

fn link() -> Link {
    Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ns(200) }
}

/// Creates two racks of four hosts under one spine: switches 0 and 1, and 2.
fn racks() -> Topology {
    Topology::leaf_spine(2, 4, 1, link(), link())
}

fn setup(protocol: Protocol, what: BrokenPart, from: Time) -> Setup {
    let failure = Downtime { what, from, until: Time::MAX, every: None, detected_after: None };
    let faults = FaultSchedule::new(&racks(), &[failure], ErrorRates::default(), 3).unwrap();
    setup_on(racks().with_faults(faults), protocol, 100_000)
}

/// Returns messages of every kind, between all nodes, over 60 us.
fn messages() -> Vec<(Time, Message)> {
    let kinds = [Message::flow, Message::read, Message::write, Message::rmw];
    let pairs = (0..8u32).flat_map(|src| (1..8).map(move |ahead| (src, (src + ahead) % 8)));
    let message = |(n, (src, dst)): (usize, (u32, u32))| {
        (Time::from_us(n as u64), kinds[n % 4](src, dst, 100 + 7_000 * (n as u64 % 5)))
    };
    pairs.enumerate().map(message).collect()
}

fn run(setup: &Setup) -> Run {
    setup.run(&Work::listed(messages()), |_| {}).unwrap().run
}

fn in_other_racks(message: &Message) -> bool {
    (message.src < 4) != (message.dst < 4)
}

#[test]
fn exactly_those_that_need_it_are_reported_and_all_others_finish() {
    type Needs = fn(&Message) -> bool;
    let cases: [(BrokenPart, Needs); 4] = [
        (BrokenPart::Node(5), |message| message.src == 5 || message.dst == 5),
        (BrokenPart::Switch(1), |message| message.src >= 4 || message.dst >= 4),
        (BrokenPart::Switch(2), in_other_racks),
        (BrokenPart::Between(0, 2), in_other_racks),
    ];
    for protocol in buffered() {
        for (what, needs) in cases {
            let run = run(&setup(protocol, what, Time::ZERO));
            for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
                let as_expected =
                    if needs(message) { outcome.is_given_up() } else { outcome.completed().is_some() };
                assert!(as_expected, "{protocol}, {what:?}: {message:?} {outcome:?}");
            }
            // About as long as TCP would try, and no more.
            let wait = Time::from_us(13_000_000)..Time::from_us(60_000_000);
            assert!(wait.contains(&run.ended), "{protocol}, {what:?}: {}", run.ended);
        }
    }
}

#[test]
fn what_others_wait_for_is_not_held_up() {
    for protocol in buffered() {
        let run = run(&setup(protocol, BrokenPart::Node(5), Time::from_us(20)));
        for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
            let needs = message.src == 5 || message.dst == 5;
            assert!(
                outcome.completed().is_some() || needs && outcome.is_given_up(),
                "{protocol} {message:?}"
            );
            assert!(needs || outcome.completed() < Some(Time::from_us(200_000)), "{protocol} {message:?}");
        }
        let given_up = run.outcomes.iter().filter(|outcome| outcome.is_given_up()).count();
        assert!((5..14).contains(&given_up), "{protocol}: {given_up}");
    }
}

#[test]
fn a_run_that_is_split_reports_the_same() {
    for protocol in splitting() {
        for (what, from) in
            [(BrokenPart::Node(5), 20), (BrokenPart::Switch(1), 0), (BrokenPart::Between(0, 2), 30)]
        {
            let setup = setup(protocol, what, Time::from_us(from));
            let work = Work::listed(messages());
            assert_same(&run(&setup), &setup.split(&work, 2, |_| {}).unwrap().run);
        }
    }
}

/// Links that let only short packets through: control packets of a transfer arrive, and its data does not.
#[test]
fn who_hears_of_a_peer_but_gets_nowhere_gives_up_too() {
    for protocol in buffered() {
        // 84 B arrive one time in eight over two links, full packets not in any number of tries.
        let faults = FaultSchedule::new(&racks(), &[], ErrorRates { host: 1.5e-3, core: 0.0 }, 3).unwrap();
        let setup = setup_on(racks().with_faults(faults), protocol, 100_000);
        let work = Work::listed(vec![(Time::ZERO, Message::write(0, 1, 30_000))]);
        let run = setup.run(&work, |_| {}).unwrap().run;
        assert!(run.outcomes[0].is_given_up(), "{protocol}");
    }
}
