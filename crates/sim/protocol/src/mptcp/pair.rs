//! Test harness: a sender and a receiver in virtual time, connected by one configurable link per subflow, which delays
//! and drops packets and may fail. The tests check properties that must hold whatever the links do, for example that
//! all data arrives once and in order.

use super::*;
use crate::tcp::{Ack, ReceivingEnd, Segment, SendingEnd};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_basis::GOLDEN_GAMMA;
use unrack_units::Time;

#[derive(Debug, Clone)]
struct Link {
    delay: Time,
    /// Time that the link takes to send one segment.
    slot: Time,
    /// Maximum number of segments that may wait for the link.
    queue: u64,
    /// Probability, in thousandths, that the link loses a packet, in each direction.
    drop: u64,
    /// Time from which on the link loses every packet.
    dies: Time,
}

const LINK: Link =
    Link { delay: Time::from_us(10), slot: Time::from_ns(1_000), queue: 50, drop: 0, dies: Time::MAX };

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Data(u32, u32, u64, u32),
    Ack(usize),
    Timer(u32),
}

struct Pair {
    sender: Sender,
    receiver: Receiver,
    links: Vec<Link>,
    free: Vec<Time>,
    armed: Vec<Option<Time>>,
    acks: Vec<(Ack, Dss)>,
    queue: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sent: Vec<u64>,
    handed_on: u32,
    now: Time,
    serial: u64,
    seed: u64,
}

impl Pair {
    fn new(params: Params, links: Vec<Link>, segments: u32, seed: u64) -> Pair {
        let count = links.len();
        let params = Params { max_rto: Time::from_us(3_000), ..params };
        let round_trip = links.iter().map(|link| link.delay * 2 + link.slot).max().unwrap_or_default();
        let timeouts = params.timeouts(round_trip);
        Pair {
            sender: Sender::new(&params, count as u32, timeouts, segments),
            receiver: Receiver::new(count as u32),
            links,
            free: vec![Time::ZERO; count],
            armed: vec![None; count],
            acks: Vec::new(),
            queue: BinaryHeap::new(),
            sent: vec![0; count],
            handed_on: 0,
            now: Time::ZERO,
            serial: 0,
            seed,
        }
    }

    /// Runs until the sender is done. Returns the time at that point.
    fn run(&mut self) -> Time {
        self.poll();
        while !self.sender.is_done() {
            let Reverse((at, _, event)) = self.queue.pop().expect("the sender waits for nothing");
            self.now = at;
            match event {
                Event::Data(subflow, number, sent, data) => {
                    let segment = Segment { number, sent: Time::from_ps(sent) };
                    let signal = Dss { subflow, data };
                    self.handed_on += self.receiver.handle_segment(at, segment, signal, false);
                }
                Event::Ack(index) => {
                    let (ack, signal) = self.acks[index];
                    self.sender.handle_ack(at, &ack, signal);
                }
                Event::Timer(subflow) => self.sender.handle_timeout(at, subflow),
            }
            self.poll();
        }
        self.now
    }

    fn poll(&mut self) {
        while let Some((segment, Dss { subflow, data })) =
            self.sender.poll_transmit(self.now, self.sender.subflows())
        {
            let link = self.links[subflow as usize].clone();
            let free = &mut self.free[subflow as usize];
            let full = free.saturating_sub(self.now) > link.slot * link.queue;
            if !full {
                *free = self.now.max(*free) + link.slot;
            }
            let at = *free + link.delay;
            self.sent[subflow as usize] += 1;
            if !full && self.gets_over(&link) {
                self.schedule(at, Event::Data(subflow, segment.number, segment.sent.as_ps(), data));
            }
        }
        for subflow in 0..self.links.len() as u32 {
            while let Some(ack) = self.receiver.poll_ack(subflow) {
                let link = self.links[subflow as usize].clone();
                if self.gets_over(&link) {
                    self.acks.push(ack);
                    self.schedule(self.now + link.delay, Event::Ack(self.acks.len() - 1));
                }
            }
            let wanted = self.sender.poll_timeout(subflow);
            if wanted != self.armed[subflow as usize] {
                self.armed[subflow as usize] = wanted;
                wanted.into_iter().for_each(|at| self.schedule(at, Event::Timer(subflow)));
            }
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.queue.push(Reverse((at, self.serial, event)));
    }

    fn gets_over(&mut self, link: &Link) -> bool {
        // The random number needs only the step and the first mixing round of SplitMix64.
        self.seed = self.seed.wrapping_add(GOLDEN_GAMMA);
        let drawn = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        self.now < link.dies && (link.drop == 0 || drawn % 1000 >= link.drop)
    }
}

const ALL: [(Coupling, Scheduler); 6] = [
    (Coupling::Lia, Scheduler::MinRtt),
    (Coupling::Lia, Scheduler::RoundRobin),
    (Coupling::Olia, Scheduler::MinRtt),
    (Coupling::Olia, Scheduler::RoundRobin),
    (Coupling::Uncoupled, Scheduler::MinRtt),
    (Coupling::Uncoupled, Scheduler::RoundRobin),
];

fn params((coupling, scheduler): (Coupling, Scheduler)) -> Params {
    Params { coupling, scheduler, ..Params::default() }
}

#[test]
fn four_links_carry_as_much_as_four() {
    for how in ALL {
        let time = |links: usize| Pair::new(params(how), vec![LINK; links], 40_000, 1).run().as_ps() as f64;
        let gain = time(1) / time(4);
        // The links are independent, and each queue holds more than a bandwidth-delay product, so that four links can
        // carry almost four times the data of one.
        assert!((3.0..4.01).contains(&gain), "{how:?}: {gain}");
    }
}

#[test]
fn the_shortest_round_trip_is_preferred() {
    let links = vec![Link { delay: Time::from_us(100), ..LINK }, LINK];
    let mut pair = Pair::new(params(ALL[0]), links, 20, 1);
    pair.run();
    // Ten segments fit into the initial window of a subflow. Before the first acknowledgement, no round-trip time is
    // known. After it, only the round-trip time of the second link is known.
    assert_eq!(pair.sent, [10, 10]);
    let links = vec![Link { delay: Time::from_us(100), ..LINK }, LINK];
    let mut pair = Pair::new(params(ALL[0]), links, 2_000, 1);
    pair.run();
    assert!(pair.sent[1] > 2 * pair.sent[0], "{:?}", pair.sent);
}

#[test]
fn what_a_dead_link_had_goes_by_another() {
    for how in ALL {
        let links = vec![LINK, Link { dies: Time::from_us(60), ..LINK }];
        let mut pair = Pair::new(params(how), links, 5_000, 1);
        let time = pair.run();
        assert!(!pair.sender.has_given_up() && pair.handed_on == 5_000, "{how:?}");
        // One link takes 5 ms for all segments; the rest is the time until the sender detects the failure of the other
        // link.
        assert!(time < Time::from_us(8_000), "{how:?}: {time}");
    }
}

#[test]
fn nobody_there() {
    let dead = Link { dies: Time::ZERO, ..LINK };
    let mut pair = Pair::new(params(ALL[0]), vec![dead.clone(), dead], 100, 1);
    pair.run();
    assert!(pair.sender.has_given_up() && pair.handed_on == 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn everything_arrives_once_in_order(
        how in prop::sample::select(ALL.to_vec()),
        tail_loss_probe: bool,
        links in prop::collection::vec((1u64..200, 100u64..3_000, 0u64..300, 2u64..60, prop::option::of(0u64..500)), 1..5),
        segments in 1u32..600,
        seed: u64,
    ) {
        let mut links: Vec<Link> = links.into_iter().map(|(delay, slot, drop, queue, dies)| {
            let dies = dies.map_or(Time::MAX, Time::from_us);
            Link { delay: Time::from_us(delay), slot: Time::from_ns(slot), queue, drop, dies }
        }).collect();
        // One link never fails.
        links[0].dies = Time::MAX;
        let params = Params { tail_loss_probe, ..params(how) };
        let mut pair = Pair::new(params, links, segments, seed);
        pair.run();
        prop_assert!(pair.handed_on == segments && pair.receiver.next() == segments || pair.sender.has_given_up());
    }

    /// The sender must handle acknowledgements with arbitrary contents.
    #[test]
    fn nonsense_is_survived(acks in prop::collection::vec((0u32..3, 0u32..40, 0u32..60, 0u64..100), 0..60)) {
        let params = Params::default();
        let mut sender = Sender::new(&params, 3, params.timeouts(Time::from_us(20)), 50);
        let mut now = Time::ZERO;
        for (subflow, next, data, echo) in acks {
            while sender.poll_transmit(now, sender.subflows()).is_some() {}
            let ack = Ack { next, echo: Time::from_us(echo), marked: false, sack: crate::tcp::Sack::NONE };
            sender.handle_ack(now, &ack, Dss { subflow, data });
            now += Time::from_us(1);
        }
    }
}
