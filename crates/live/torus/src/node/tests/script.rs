//! One script, run by the simulator's nodes and by the live rack's: they put the same packets on the same links at the
//! same times.

use super::net::{Faults, Net};
use super::*;
use std::fmt::Write;
use unrack_protocol::r2c2::node::WorldLimits;
use unrack_rack::ScheduledFailure;
use unrack_sim::network::Pace;
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::Topology;
use unrack_sim::{Hop, LinkId, Observer, Sim, faults};
use unrack_units::Bytes;
use unrack_workload::{ListedMessages, Message, MessageId};

/// Events of a rack, in order of their kinds.
#[derive(Default)]
struct Script {
    queue: u64,
    flows: Vec<(Time, Message)>,
    rules: Vec<Rule>,
    /// Cables that fail: between which nodes, from when until when, and how much later nodes know.
    cuts: Vec<((u32, u32), Time, Time, Time)>,
}

impl Script {
    fn parse(text: &str) -> Script {
        let mut script = Script::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u32>().unwrap_or_else(|_| panic!("{line}"));
            let time = |at: usize| words[at].parse::<Time>().unwrap_or_else(|_| panic!("{line}"));
            match words[0] {
                "queue" => script.queue = number(1).into(),
                "flow" => {
                    script.flows.push((time(6), Message::flow(number(1), number(3), number(4).into())));
                }
                "rule" => script.rules.push(rule(&words, (number(1), number(3)), time(5))),
                "cut" => script.cuts.push(((number(1), number(3)), time(5), time(7), time(10))),
                _ => panic!("{line}"),
            }
        }
        script
    }

    fn params(&self) -> Params {
        Params { rules: self.rules.clone(), ack_every: 4, ..Params::default() }
    }

    /// Returns the times at which nodes learn what is up, and which is after all flows.
    fn discoveries(&self) -> Vec<Time> {
        let known = |(_, from, until, after): &(_, Time, Time, Time)| [*from + *after, *until + *after];
        let mut times: Vec<Time> = self.cuts.iter().flat_map(known).collect();
        times.sort();
        times
    }
}

fn rule(words: &[&str], (src, dst): (u32, u32), at: Time) -> Rule {
    let mut rule = Rule { src: Some(vec![src]), dst: Some(vec![dst]), at, ..Rule::default() };
    for pair in words[6..].chunks(2) {
        match pair[0] {
            "demand" => rule.demand = Some(pair[1].parse().unwrap()),
            "weight" => rule.weight = Some(pair[1].parse().unwrap()),
            "priority" => rule.priority = Some(pair[1].parse().unwrap()),
            other => panic!("{other}"),
        }
    }
    rule
}

const NODES: u32 = 5;
const LINK: LinkSpec = LinkSpec { rate: Rate::from_gbps(1), propagation: Time::from_us(1) };

/// Observations of a run: packets on links, and ends of flows.
#[derive(Default)]
struct Seen {
    lines: Vec<(Time, String)>,
    end: Time,
}

impl Seen {
    fn text(mut self) -> String {
        self.lines.retain(|(at, _)| *at < self.end);
        self.lines.sort();
        self.lines.iter().fold(String::new(), |mut text, (at, line)| {
            writeln!(text, "{at} {line}").unwrap();
            text
        })
    }
}

impl Observer for Seen {
    const HOPS: bool = true;

    fn completed(&mut self, id: MessageId, _message: &Message, now: Time) {
        self.lines.push((now, format!("message {} is complete", id.index())));
        self.end = self.end.max(now);
    }

    fn hop(&mut self, hop: &Hop, _now: Time) {
        let LinkId::Port(link) = hop.link else { panic!("a rack without switches") };
        let (packet, kind) = (hop.packet, format!("{:?}", hop.packet.kind).to_lowercase());
        let about = (packet.src, packet.dst, packet.offset);
        self.lines.push((hop.ready, line(link, &kind, about, hop.wire.into(), (hop.first, hop.last))));
    }
}

fn line(
    link: u32,
    kind: &str,
    (src, dst, offset): (u32, u32, Option<u64>),
    wire: u64,
    (first, last): (Time, Time),
) -> String {
    let offset = offset.map_or(String::new(), |offset| format!(" at {offset}"));
    format!("link {link}: {kind} {src} -> {dst}{offset}, {wire} B, {first} to {last}")
}

/// Describes a packet as the simulator's observers see it.
pub(super) fn described(plan: &TorusPlan, link: u32, packet: &Packet, times: (Time, Time)) -> String {
    let wire = packet.len() as u64;
    if let Ok(told) = Broadcast::decode(packet) {
        return line(link, "notification", (told.src.into(), told.dst.into(), None), wire, times);
    }
    let (data, _) = Data::decode(packet).expect("a packet of this script");
    let (src, dst, offset) = (data.src.into(), data.dst.into(), Some(plan.setup.offset(data.seq)));
    let (kind, about) = match data.kind {
        Kind::Data | Kind::Last => ("data", (src, dst, offset)),
        Kind::Ack => ("ack", (src, dst, offset)),
        Kind::Lost => ("nack", (plan.setup.graph.from(link), dst, None)),
        Kind::Frame => panic!("no host sends"),
    };
    line(link, kind, about, wire, times)
}

/// Runs a script in the simulator.
fn simulated(script: &Script) -> Seen {
    let network = network("torus", &format!("[{NODES}]"));
    let graph = network.topology.graph().unwrap();
    let link = unrack_sim::topology::Link { pace: Pace::new(LINK.rate), propagation: LINK.propagation };
    let topology = Topology::direct(graph, link);
    let failure = |((a, b), from, until, after): &((u32, u32), Time, Time, Time)| faults::Downtime {
        what: faults::BrokenPart::Between(*a, *b),
        from: *from,
        until: *until,
        every: None,
        detected_after: Some(*after),
    };
    let failures: Vec<faults::Downtime> = script.cuts.iter().map(failure).collect();
    let faults = faults::FaultSchedule::new(&topology, &failures, faults::ErrorRates::default(), 1).unwrap();
    let ethernet = Ethernet {
        mtu: network.mtu,
        headers: true,
        buffer: SwitchBuffer::Private(Bytes::new(script.queue)),
        cut_through: false,
    };
    let network =
        unrack_sim::network::Network { topology: topology.with_faults(faults), switch_latency: Time::ZERO };
    let r2c2 = unrack_sim::fabric::r2c2::R2c2::new(&network, &ethernet, &script.params(), 7).unwrap();
    let flows = ListedMessages::new(Arc::new(script.flows.clone()), NODES).unwrap();
    let (run, _, seen) = Sim::observed(r2c2, flows, Seen::default()).run();
    assert!(run.outcomes.iter().all(|outcome| outcome.completion().is_some()));
    seen
}

/// Runs a script with the nodes of a live rack, in virtual time, without the limits of a real one.
fn live(script: &Script) -> Seen {
    let mut network = network("torus", &format!("[{NODES}]"));
    network.link = LINK;
    network.switch.buffer = unrack_rack::BufferSize::Limited(Bytes::new(script.queue));
    let failure = |((a, b), from, until, after): &((u32, u32), Time, Time, Time)| ScheduledFailure {
        node: None,
        switch: None,
        between: Some((*a, *b)),
        from: *from,
        until: Some(*until),
        every: None,
        detected_after: Some(*after),
    };
    let failures = script.cuts.iter().map(failure).collect();
    let faults = unrack_rack::Faults { failures, ..unrack_rack::Faults::default() };
    let mut plan = TorusPlan::new(&network, &faults, &script.params(), 7).unwrap();
    plan.setup.limits = WorldLimits::NONE;
    let mut net = Net::new(Arc::new(plan), Faults::default(), 1);
    net.nodes.iter_mut().for_each(|node| node.begin(Time::ZERO));
    net.around.seen = Some(Vec::new());
    let mut discoveries = script.discoveries().into_iter().peekable();
    for (message, (at, Message { src, dst, bytes, .. })) in script.flows.iter().enumerate() {
        while let Some(known) = discoveries.next_if(|known| known < at) {
            discover(&mut net, known);
        }
        net.run(*at);
        net.now = *at;
        net.submit(message as u32, (*src, *dst), *bytes);
    }
    discoveries.for_each(|known| discover(&mut net, known));
    net.run(END);
    let mut seen = Seen { lines: net.around.seen.take().unwrap(), end: Time::ZERO };
    for (message, at) in &net.around.complete {
        seen.completed(MessageId(*message), &script.flows[0].1, *at);
    }
    assert_eq!((seen.end > Time::ZERO, net.around.wrong), (true, 0));
    seen
}

/// Tells all nodes what is down at this time.
fn discover(net: &mut Net, at: Time) {
    net.run(at);
    net.now = at;
    let down = net.around.plan.known_down(at);
    net.learn(&down);
}

#[test]
fn both_worlds_do_the_same_with_one_script() {
    let script = Script::parse(include_str!("script.txt"));
    let (simulated, live) = (simulated(&script).text(), live(&script).text());
    for kind in ["data", "ack", "nack", "notification", "complete"] {
        assert!(simulated.contains(kind), "the script has no {kind}");
    }
    let differ = simulated.lines().zip(live.lines()).find(|(simulated, live)| simulated != live);
    assert_eq!(differ, None, "the first lines that differ: simulated, and live");
    assert_eq!(simulated, live);
}
