//! `ideal` against closed forms.

mod common;

use common::{assert_unloaded_is_exact, completion_ps};
use unrack_sim::fabric::ideal::Ideal;
use unrack_sim::network::Star;
use unrack_units::{Rate, Time};
use unrack_workload::Message;

const STAR: Star = Star {
    nodes: 4,
    rate: Rate::from_gbps(100),
    propagation: Time::from_ns(10),
    switch_latency: Time::from_ns(5),
};

#[test]
fn alone_it_takes_what_arithmetic_says() {
    assert_unloaded_is_exact(Ideal::new(&STAR));
    let run = common::run(Ideal::new(&STAR), vec![(Time::ZERO, Message::read(2, 3, 4096))]);
    assert_eq!(completion_ps(&run, 0), 8 * 80 + 25_000 + 4096 * 80 + 25_000);
}

#[test]
fn two_into_one_port_are_served_shortest_first() {
    let run = common::run(
        Ideal::new(&STAR),
        vec![(Time::ZERO, Message::write(0, 2, 1000)), (Time::from_ns(10), Message::write(1, 2, 100))],
    );
    assert_eq!(completion_ps(&run, 1), 100 * 80 + 25_000, "preempts");
    assert_eq!(completion_ps(&run, 0), 1100 * 80 + 25_000, "and delays the other by its own length");
}
