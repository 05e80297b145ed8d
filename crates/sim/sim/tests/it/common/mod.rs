//! Helpers that the tests of several fabrics share.

pub(crate) mod fabrics;

use unrack_rack::Protocol;
use unrack_sim::network::{Network, Pace, Port};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::Topology;
use unrack_sim::{Core, Fabric, FabricConfig, Observer, Registered, Run, Setup, Sim};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Message, MessageId, NodeId, Outbox, Source};

/// Changes the parameters of a fabric, if it is this one.
pub(crate) fn change<F: Registered>(fabric: &mut FabricConfig, change: impl FnOnce(&mut F::Params)) {
    if let Some(mut params) = fabric.params::<F>().cloned() {
        change(&mut params);
        *fabric = FabricConfig::new::<F>(params);
    }
}

/// Source that submits given messages at given times.
pub(crate) struct Script {
    messages: Vec<(Time, Message)>,
    submitted: usize,
}

impl Script {
    pub(crate) fn new(messages: Vec<(Time, Message)>) -> Script {
        Script { messages, submitted: 0 }
    }
}

impl Source for Script {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for (actor, (at, _)) in self.messages.iter().enumerate() {
            out.wake_at(*at, actor as u32);
        }
    }
    fn wake<O: Outbox>(&mut self, actor: u32, _now: Time, out: &mut O) {
        self.submitted += 1;
        out.submit(self.messages[actor as usize].1);
    }
    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}
    fn total(&self) -> Option<u64> {
        Some(self.messages.len() as u64)
    }
    fn is_exhausted(&self) -> bool {
        self.submitted == self.messages.len()
    }
}

pub(crate) fn run<F: Fabric>(fabric: F, script: Vec<(Time, Message)>) -> Run {
    Sim::new(fabric, Script::new(script)).run().0
}

/// Returns the completion time of message `index`, in picoseconds.
pub(crate) fn completion_ps(run: &Run, index: usize) -> u64 {
    run.outcomes[index].completion().expect("finished").as_ps()
}

/// Sizes around every boundary of bursts, chunks, packets and pages.
pub(crate) const SIZES: [u64; 16] =
    [1, 7, 8, 9, 63, 64, 65, 100, 255, 256, 257, 512, 1_460, 1_461, 4_096, 1_000_000];

/// Asserts that every kind and size alone completes at its computed time, to the picosecond.
pub(crate) fn assert_unloaded_is_exact<F: Fabric>(fabric: F) {
    assert_unloaded_is_exact_between(fabric, 0, 1);
}

pub(crate) fn assert_unloaded_is_exact_between<F: Fabric>(fabric: F, src: NodeId, dst: NodeId) {
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    let all = kinds.iter().flat_map(|kind| SIZES.map(|bytes| kind(src, dst, bytes)));
    let script = all.enumerate().map(|(n, message)| (Time::from_us(10_000) * n as u64, message)).collect();
    let run = run(fabric, script);
    for (index, message) in run.messages.iter().enumerate() {
        assert_eq!(completion_ps(&run, index), run.unloaded[index].as_ps(), "{message:?}");
    }
}

/// Asserts that no byte is created or lost, and that every message finished.
pub(crate) fn assert_conserved(run: &Run) {
    let counters = &run.counters;
    assert_eq!(counters.sent_bytes, counters.arrived_bytes + counters.dropped_bytes);
    let payload: u64 = run.messages.iter().map(Message::payload).sum();
    assert!(counters.arrived_bytes >= payload);
    assert!(run.outcomes.iter().all(|outcome| outcome.completed().is_some()));
}

/// A network with one port towards each node, first in first out, and nothing else.
pub(crate) struct Ports(Vec<Port>, Pace);

impl Ports {
    pub(crate) fn new(nodes: u32, rate: Rate) -> Ports {
        Ports(vec![Port::new(Pace::new(rate)); nodes as usize], Pace::new(rate))
    }
}

impl Fabric for Ports {
    type Event = MessageId;

    fn submit<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        let message = *core.message(id);
        core.sent(message.payload());
        let port = &mut self.0[message.data_dst() as usize];
        core.schedule(port.enqueue(core.now(), message.bytes).last, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        core.arrived(core.message(id).payload());
        core.complete(id);
    }
    fn unloaded(&self, message: &Message) -> Time {
        self.1.transmit(message.bytes)
    }
}

/// A network in which every message takes the same time.
pub(crate) struct Fixed(pub Time);

impl Fabric for Fixed {
    type Event = MessageId;

    fn submit<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        core.sent(core.message(id).payload());
        core.schedule(core.now() + self.0, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        core.arrived(core.message(id).payload());
        core.complete(id);
    }
    fn unloaded(&self, _message: &Message) -> Time {
        self.0
    }
}

/// Creates a setup of a protocol with its defaults, on switches of 300 ns with `buffer` bytes for each port.
pub(crate) fn setup_on(topology: Topology, protocol: Protocol, buffer: u64) -> Setup {
    Setup {
        network: Network { topology, switch_latency: Time::from_ns(300) },
        ethernet: Ethernet {
            mtu: Bytes::new(1500),
            headers: true,
            buffer: SwitchBuffer::Private(Bytes::new(buffer)),
            cut_through: true,
        },
        fabric: FabricConfig::default_of(protocol),
        seed: 1,
        time_limit: Time::MAX,
    }
}

/// Asserts that two runs are equal, to the last counter.
pub(crate) fn assert_same(whole: &Run, split: &Run) {
    assert_eq!(whole.messages, split.messages);
    for (index, (one, other)) in whole.outcomes.iter().zip(&split.outcomes).enumerate() {
        assert_eq!(one, other, "message {index}: {:?}", whole.messages[index]);
    }
    assert_eq!(whole.unloaded, split.unloaded);
    assert_eq!(whole.counters, split.counters);
    assert_eq!(whole.queue_bytes, split.queue_bytes);
    assert_eq!((whole.ended, whole.ending), (split.ended, split.ending));
}
