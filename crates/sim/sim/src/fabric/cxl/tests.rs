//! Conservation of credits, which only this module can see.

use super::*;
use proptest::prelude::*;
use unrack_engine::events::{Sim, Unobserved};
use unrack_engine::network::Pace;
use unrack_engine::topology;
use unrack_protocol::cxl::AnswerOrder;
use unrack_units::Rate;
use unrack_workload::{Outbox, Source};

/// A `Cxl` whose credits are counted after every event.
struct Counted {
    cxl: Cxl,
    credits: [u32; 4],
    /// Maximum number of credits of one class of one link that were away at once.
    most_away: u32,
}

impl Counted {
    fn count(&mut self) {
        for link in 0..self.cxl.links.len() {
            for class in MessageClass::ALL {
                let home = self.cxl.links[link].transmitter.credits(class);
                let away = self.away(link, class);
                assert_eq!(home + away, self.credits[class.index()], "{class:?} on link {link}");
                self.most_away = self.most_away.max(away);
            }
        }
    }

    /// Returns the credits of a class that are in use: by a line being sent, on the wire, or in a buffer.
    fn away(&self, link: usize, class: MessageClass) -> u32 {
        let Link { transmitter, wire, .. } = &self.cxl.links[link];
        // A run is on the wire as soon as it begins.
        let sending = transmitter.midway().filter(|line| line.count == 1 && line.class == class);
        let sending = sending.into_iter().count() as u32;
        let flying = wire.iter().filter(|(_, line)| line.class == class);
        let flying: u32 = flying.map(|(_, line)| u32::from(line.count)).sum();
        let buffered = match self.cxl.links[link].receiver {
            Receiver::Input { switch, port } => self.cxl.switches[switch as usize].queued(port, class),
            Receiver::Node(node) => self.cxl.nodes[usize::from(node)].held(class),
        };
        sending + flying + buffered
    }
}

impl Fabric for Counted {
    type Event = Event;
    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        self.cxl.submit(core, id);
        self.count();
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        self.cxl.handle(core, event);
        self.count();
    }
    fn unloaded(&self, message: &Message) -> Time {
        self.cxl.unloaded(message)
    }
}

/// A source in which every node sends a page or a line, of every kind, to every other, and all of them to node 0.
struct Storm(u32);

impl Source for Storm {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
        for (src, dst) in (0..self.0).flat_map(|src| (0..self.0).map(move |dst| (src, dst))) {
            for (n, kind) in kinds.into_iter().enumerate().filter(|_| src != dst) {
                out.submit(kind(src, dst, if n % 2 == 0 { 4096 } else { 64 }));
                if src != 0 {
                    out.submit(kind(src, 0, 4096));
                }
            }
        }
    }
    fn wake<O: Outbox>(&mut self, _actor: u32, _now: Time, _out: &mut O) {}
    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}
    fn total(&self) -> Option<u64> {
        None
    }
    fn is_exhausted(&self) -> bool {
        true
    }
}

fn topologies() -> [Topology; 4] {
    let link =
        |gbps| topology::Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(10) };
    [
        Topology::star(6, link(100)),
        Topology::leaf_spine(3, 2, 2, link(100), link(200)),
        Topology::leaf_spine(2, 3, 1, link(100), link(40)),
        Topology::fat_tree(4, link(100), link(100)),
    ]
}

/// Runs a storm, and asserts that credits are conserved and that every byte and message arrives once.
fn assert_all_is_conserved(topology: Topology, params: &Params) {
    let case = format!("{params:?}, {topology:?}");
    let network = Network { topology, switch_latency: Time::ZERO };
    let counted =
        Counted { cxl: Cxl::new(&network, params).unwrap(), credits: params.buffers(), most_away: 0 };
    let (run, ..) = Sim::observed(counted, Storm(network.nodes().min(5)), Unobserved).run();
    assert!(run.outcomes.iter().all(|outcome| outcome.completed().is_some()), "{case}");
    let payload: u64 = run.messages.iter().map(Message::payload).sum();
    assert_eq!((run.counters.sent_bytes, run.counters.arrived_bytes), (payload, payload), "{case}");
}

#[test]
fn no_credit_is_created_or_lost_and_nothing_locks_up() {
    for topology in topologies() {
        for (credits, run) in [(1, 1), (7, 1), (64, 1), (64, 16)] {
            assert_all_is_conserved(topology.clone(), &Params { credits, run, ..Params::default() });
        }
    }
}

/// Also with the keys of the simulator of EDM's authors: one transfer at a time, credits of 8 B, and no head-of-line blocking.
#[test]
fn the_authors_of_edm_conserve_credits_and_bytes() {
    for topology in topologies() {
        for (credits, blocking, answers) in
            [(8, false, AnswerOrder::ByTransfer), (64, true, AnswerOrder::ByLine)]
        {
            let unit = Some(Bytes::new(8));
            let params =
                Params { credits, credit_unit: unit, transfers: 1, answers, blocking, ..Params::default() };
            assert_all_is_conserved(topology.clone(), &params);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn runs_of_any_length_conserve_credits_and_bytes(
        topology in 0usize..4, run in 1u32..100, credits in 1u32..200, outstanding in 1u32..600, small in any::<bool>(),
    ) {
        let flit = if small { Flit::B68 } else { Flit::B256 };
        let params = Params { flit, credits, outstanding, run, ..Params::default() };
        assert_all_is_conserved(topologies()[topology].clone(), &params);
    }
}

/// Times of long messages, which leave out whole periods, are those of simulations that leave out none: to the picosecond
/// with credits and a window that are multiples of each other, and within a thousandth otherwise.
#[test]
fn long_messages_progress_in_equal_periods() {
    for (gbps, propagation_ns) in [(25, 10), (200, 200), (800, 500)] {
        for (credits, outstanding, run, error) in [(64, 256, 16, 0.0), (64, 64, 1, 0.0), (20, 4096, 1, 1e-3)]
        {
            let link = topology::Link {
                pace: Pace::new(Rate::from_gbps(gbps)),
                propagation: Time::from_ns(propagation_ns),
            };
            let network = Network { topology: Topology::star(2, link), switch_latency: Time::ZERO };
            let cxl = Cxl::new(&network, &Params { credits, outstanding, run, ..Params::default() }).unwrap();
            for message in [Message::flow(0, 1, (9 << 20) - 100), Message::read(0, 1, 8 << 20)] {
                let [found, simulated] = [cxl.unloaded(&message), cxl.simulated(&message)].map(Time::as_ps);
                let far = found.abs_diff(simulated) as f64 / simulated as f64;
                assert!(
                    far <= error,
                    "{gbps} {propagation_ns} {credits} {outstanding} {run} {message:?}: {far}"
                );
            }
        }
    }
}
