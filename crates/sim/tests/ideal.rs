//! `ideal` against closed forms.

use unrack_sim::fabric::ideal::Ideal;
use unrack_sim::network::Star;
use unrack_sim::{Fabric, Run, Sim};
use unrack_units::{Rate, Time};
use unrack_workload::{Message, Outbox, Source};

const STAR: Star = Star {
    nodes: 4,
    rate: Rate::from_gbps(100),
    propagation: Time::from_ns(10),
    switch_latency: Time::from_ns(5),
};

/// Submits given messages at given times.
struct Script(Vec<(Time, Message)>);

impl Source for Script {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for (actor, (at, _)) in self.0.iter().enumerate() {
            out.wake_at(*at, actor as u32);
        }
    }
    fn wake<O: Outbox>(&mut self, actor: u32, _now: Time, out: &mut O) {
        out.submit(self.0[actor as usize].1);
    }
    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}
    fn total(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }
}

fn run(script: Vec<(Time, Message)>) -> Run {
    Sim::new(Ideal::new(&STAR), Script(script)).run().0
}

fn completion_ps(run: &Run, index: usize) -> u64 {
    run.outcomes[index].completion().unwrap().as_ps()
}

#[test]
fn alone_it_takes_what_arithmetic_says() {
    for bytes in [1, 8, 63, 64, 65, 4096, 1 << 20] {
        let crossing = 25_000;
        let run = run(vec![
            (Time::ZERO, Message::write(0, 1, bytes)),
            (Time::from_us(500), Message::read(2, 3, bytes)),
        ]);
        assert_eq!(completion_ps(&run, 0), bytes * 80 + crossing);
        assert_eq!(completion_ps(&run, 1), 8 * 80 + crossing + bytes * 80 + crossing);
        assert_eq!(run.outcomes[1].completion().unwrap(), run.ideal[1]);
    }
}

#[test]
fn two_into_one_port_are_served_shortest_first() {
    let run =
        run(vec![(Time::ZERO, Message::write(0, 2, 1000)), (Time::from_ns(10), Message::write(1, 2, 100))]);
    assert_eq!(completion_ps(&run, 1), 100 * 80 + 25_000, "preempts");
    assert_eq!(completion_ps(&run, 0), 1100 * 80 + 25_000, "and delays the other by its own length");
}

#[test]
fn names_itself() {
    assert_eq!(Ideal::new(&STAR).name(), "ideal");
}
