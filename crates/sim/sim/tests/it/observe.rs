//! Reports of runs to observers, on every fabric: against the run's own counters and against arithmetic.

use crate::common;
use crate::common::fabrics::*;

use common::SIZES;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use unrack_rack::graph::{Graph, Sides};
use unrack_rack::{Protocol, Wiring};
use unrack_sim::network::{Network, Pace, StarNetwork};
use unrack_sim::observe::{Explanation, Journal, LinkSamples, Packets, Peaks, TimeSpent, Views, explain};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Hop, LinkId, PacketKind, Run, Setup, WaitReason, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Message, MessageId};

const NODES: u32 = 6;
const DEEP: u64 = 1 << 24;
const EVERY: Time = Time::from_ns(700);

fn networks() -> [Network; 3] {
    let star = StarNetwork {
        nodes: NODES,
        rate: Rate::from_gbps(100),
        propagation: Time::from_ns(10),
        switch_latency: Time::from_ns(300),
    };
    let link = |gbps, ns| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) };
    let topology = Topology::leaf_spine(2, NODES / 2, 2, link(40, 200), link(160, 350));
    let wiring = Wiring { racks: 2, hosts_per_rack: NODES / 2, cores: 0 };
    let pooled = Topology::drack(wiring, link(40, 200), link(40, 350), link(200, 55));
    let of = |topology| Network { topology, switch_latency: Time::from_ns(300) };
    [Network::star(&star), of(topology), of(pooled)]
}

/// Results of a watched run.
struct Watched {
    name: String,
    network: Network,
    run: Run,
    hops: Vec<Hop>,
    journal: Journal,
    links: LinkSamples,
    peaks: Peaks,
}

impl Watched {
    fn explain(&self, index: usize) -> Explanation {
        explain(&self.journal, &self.network, MessageId(index as u32)).expect("it finished")
    }
}

/// Creates a network for fabrics whose nodes forward for each other.
fn torus() -> Network {
    let sides = Sides::new(&[NODES / 2, 2]).unwrap();
    let link = Link { pace: Pace::new(Rate::from_gbps(40)), propagation: Time::from_ns(200) };
    let graph = Arc::new(Graph::cube(sides, true).unwrap());
    Network { topology: Topology::direct(graph, link), switch_latency: Time::from_ns(300) }
}

/// Adds the headroom that pauses need for packets on the way.
fn with_headroom(buffer: u64, protocol: Protocol) -> u64 {
    if protocol == PfcDcqcn::PROTOCOL { buffer + 60_000 } else { buffer }
}

/// Runs the same work on every fabric, on every network that suits it, one after the other: each takes hundreds of
/// megabytes.
fn on_all(buffer: u64, script: &[(Time, Message)], mut look: impl FnMut(Watched)) {
    let work = Work::listed(script.to_vec());
    for (protocol, cut_through) in known().protocols.into_iter().flat_map(|p| [(p, true), (p, false)]) {
        let networks =
            if !protocol.profile().networks.have_switches() { vec![torus()] } else { networks().into() };
        for network in networks {
            let buffer = with_headroom(buffer, protocol);
            let ethernet = Ethernet {
                mtu: Bytes::new(1500),
                headers: true,
                buffer: SwitchBuffer::Private(Bytes::new(buffer)),
                cut_through,
            };
            let fabric = FabricConfig::default_of(protocol);
            let setup = Setup { network, ethernet, fabric, seed: 1, time_limit: Time::MAX };
            let hops = RefCell::new(Vec::new());
            let mut watch = Views {
                links: Some(LinkSamples::new(EVERY)),
                packets: Some(Packets::new(|hop, _| hops.borrow_mut().push(*hop))),
                journal: Some(Journal::of_all()),
                peaks: Some(Peaks::new(&setup.network.topology)),
            };
            let name = format!("{protocol}, {:?}, cut through: {cut_through}", setup.network.topology);
            let Ok(done) = setup.watched(&work, &mut watch, |_| {}) else {
                // pfc-dcqcn needs room for packets that come after a pause.
                assert!(!setup.network.topology.is_star() || buffer < DEEP, "{name} is refused");
                continue;
            };
            watch.packets.take().unwrap().finish();
            let (journal, links) = (watch.journal.take().unwrap(), watch.links.take().unwrap());
            let peaks = watch.peaks.take().unwrap();
            drop(watch);
            let (run, network, hops) = (done.run, setup.network, hops.into_inner());
            look(Watched { name, network, run, hops, journal, links, peaks });
        }
    }
}

fn assert_sound(watched: &Watched) {
    let Watched { name, run, hops, links, peaks, .. } = watched;
    if name.starts_with("ideal") {
        assert!(hops.is_empty());
        return;
    }
    assert_eq!(hops.len() as u64, run.counters.packet_hops, "{name}");
    assert!(hops.is_sorted_by_key(|hop| hop.last), "{name}");
    for hop in hops {
        assert!(hop.ready <= hop.first && hop.first < hop.last, "{name}: {hop:?}");
        assert!(hop.first + hop.serial <= hop.last && hop.payload <= hop.wire, "{name}: {hop:?}");
        assert!(hop.first + hop.serial + hop.propagation <= hop.onward, "{name}: {hop:?}");
    }
    let most = links.samples().map(|sample| sample.queue_max_bytes).max().unwrap_or(0);
    assert_eq!(peaks.queue_bytes().max().unwrap_or(0), most, "{name}");
    assert!(peaks.reorder_packets().len() as u64 <= run.finished(), "{name}");
    let (mut bytes, mut busy) = (0, BTreeMap::<LinkId, Time>::new());
    for sample in links.samples() {
        assert!(sample.busy <= EVERY && sample.wire_bytes >= sample.payload_bytes);
        bytes += sample.wire_bytes;
        *busy.entry(sample.link).or_insert(Time::ZERO) += sample.busy;
    }
    assert_eq!(bytes, hops.iter().map(|hop| u64::from(hop.wire)).sum::<u64>(), "{name}");
    for (link, busy) in busy {
        let sent = hops.iter().filter(|hop| hop.link == link).map(|hop| hop.last - hop.first);
        assert!(busy <= sent.fold(Time::ZERO, |sum, time| sum + time), "{name}");
    }
}

/// Asserts that the parts of every message follow each other and sum to its completion time.
fn assert_explained(watched: &Watched) {
    for (index, outcome) in watched.run.outcomes.iter().enumerate() {
        let explained = watched.explain(index);
        let mut now = outcome.submitted;
        for part in &explained.parts {
            assert_eq!(part.from, now, "{}: {explained:?}", watched.name);
            assert!(part.time > Time::ZERO);
            now += part.time;
        }
        assert_eq!(Some(now), outcome.completed(), "{}: {explained:?}", watched.name);
    }
}

#[test]
fn a_lone_message_waits_for_nobody_and_is_complete_when_its_last_data_is_of_use() {
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    let all = kinds.iter().flat_map(|kind| SIZES.map(|bytes| kind(0, 5, bytes)));
    let script: Vec<_> =
        all.enumerate().map(|(n, message)| (Time::from_us(2_000) * n as u64, message)).collect();
    on_all(DEEP, &script, |watched| {
        assert_sound(&watched);
        assert_explained(&watched);
        for (index, message) in watched.run.messages.iter().enumerate() {
            let id = MessageId(index as u32);
            let at = format!("{}: {message:?}", watched.name);
            let data = watched.journal.hops(id).filter(|hop| hop.packet.kind == PacketKind::Data);
            let last = data.map(|hop| hop.onward).max();
            assert!(last.is_none() || last == watched.run.outcomes[index].completed(), "{at}");
            let explained = watched.explain(index);
            let is_followed =
                explained.parts.iter().any(|part| matches!(part.place, TimeSpent::Propagation(_)));
            assert!(is_followed, "{at}: {:?}", explained.parts);
            for (place, time) in explained.sums() {
                // In r2c2, the broadcast of the message may go before its second packet.
                let behind = matches!(place, TimeSpent::HostQueue(_)) && !at.starts_with("r2c2");
                assert!(!behind && place != TimeSpent::Lost, "{at}: {place:?} {time}");
                // A short last packet waits for the full one before it, unless a switch cuts through at the rate it
                // came with. In cxl, requests of a long read wait in the switch until those before were answered.
                let same_pace = at.contains("Star") && at.contains("cut through: true");
                let most = if same_pace { 0 } else { 1538 };
                // With three NICs at two switches, two subflows meet where the other rack has one.
                let alone = !(at.starts_with("cxl") || at.starts_with("mptcp") && at.contains("Drack"));
                let port = matches!(place, TimeSpent::Queue(_)) && alone;
                let queued = if port { time } else { Time::ZERO };
                let most = watched.network.host_rate().transmit(Bytes::new(most));
                assert!(queued <= most, "{at}: {place:?} {time}");
            }
        }
    });
}

#[test]
fn a_packet_of_64_bytes_is_explained_to_the_picosecond() {
    // 154 B on the wire at 100 Gb/s, 80 ps a byte.
    let script = [(Time::ZERO, Message::write(0, 1, 64))];
    let mut all = Vec::new();
    on_all(DEEP, &script, |watched| all.push(watched));
    let dctcp = all.iter().find(|watched| watched.name.starts_with("dctcp, Topology { shape: Star")).unwrap();
    let ns = Time::from_ns;
    assert_eq!(
        dctcp.explain(0).sums(),
        [
            (TimeSpent::Propagation(LinkId::Host(0)), ns(10)),
            (TimeSpent::Switch(0), ns(300)),
            (TimeSpent::Serialization(LinkId::Port(1)), Time::from_ps(154 * 80)),
            (TimeSpent::Propagation(LinkId::Port(1)), ns(10)),
        ]
    );
    // EDM table 1: notification and grant each cross two PCS, two PMA and 10 ns. These parts are the rest of 296.96
    // ns once the data is on its way.
    let edm = all.iter().find(|watched| watched.name.starts_with("edm")).unwrap();
    let sums: BTreeMap<TimeSpent, Time> = edm.explain(0).sums().into_iter().collect();
    let cycles = |n| Time::from_ps(2_560) * n;
    assert_eq!(sums[&TimeSpent::Propagation(LinkId::Host(0))], ns(10));
    assert_eq!(sums[&TimeSpent::Switch(0)], ns(38) + cycles(4 + 1 + 4));
    assert_eq!(sums[&TimeSpent::Node(1)], ns(38) + cycles(4 + 3));
    let protocol = [WaitReason::Notification, WaitReason::Grant].map(|wait| sums[&TimeSpent::Protocol(wait)]);
    let announced = sums[&TimeSpent::Serialization(LinkId::Host(0))];
    assert_eq!(announced, Time::from_ps(330), "33 bits");
    assert_eq!(
        protocol[0] + protocol[1] + announced + sums[&TimeSpent::Node(0)],
        Time::from_ps(296_960) - ns(96) - cycles(16)
    );
}

#[test]
fn what_waits_behind_another_is_in_the_queue_of_the_port() {
    // Two writes of a packet each into one port, at the same time: the second waits for the first.
    let script = [(Time::ZERO, Message::write(0, 2, 1000)), (Time::ZERO, Message::write(1, 2, 1000))];
    on_all(DEEP, &script, |watched| {
        // In networks whose nodes forward for each other, these two come by links of their own.
        if ["ideal", "r2c2", "pfq"].iter().any(|name| watched.name.starts_with(name)) {
            return;
        }
        let last = usize::from(watched.run.outcomes[0].completed() < watched.run.outcomes[1].completed());
        let alone = watched.run.unloaded[last];
        let waited = watched.run.outcomes[last].completion().unwrap() - alone;
        let sums = watched.explain(last).sums();
        let queued =
            sums.iter().filter(|(place, _)| matches!(place, TimeSpent::Queue(_) | TimeSpent::Protocol(_)));
        let queued: Time = queued.fold(Time::ZERO, |sum, (_, time)| sum + *time);
        assert!(waited > Time::ZERO && queued >= waited, "{}: {waited} {sums:?}", watched.name);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]
    #[test]
    fn every_hop_is_told_and_every_message_explained(
        buffer in prop::sample::select(vec![4_000, 20_000, DEEP]),
        drawn in prop::collection::vec((0u64..5_000, 0..NODES, 1..NODES, 1u64..30_000), 1..40),
    ) {
        let mut script: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
            let dst = (src + offset) % NODES;
            let message = match bytes % 3 {
                0 => Message::read(src, dst, bytes),
                1 => Message::write(src, dst, bytes),
                _ => Message::rmw(src, dst, bytes),
            };
            (Time::from_ns(at), message)
        }).collect();
        script.sort_by_key(|(at, _)| *at);
        on_all(buffer, &script, |watched| {
            assert_sound(&watched);
            assert_explained(&watched);
            let lost = watched.run.counters.dropped_packets + watched.run.counters.trimmed_packets;
            let again = (0..watched.run.outcomes.len()).any(|index| {
                watched.explain(index).parts.iter().any(|part| part.place == TimeSpent::Lost)
            });
            assert!(lost > 0 || !again, "{}: nothing was lost", watched.name);
        });
    }
}

#[test]
fn to_be_watched_changes_nothing() {
    let script: Vec<_> = (0..200u32)
        .map(|n| (Time::from_ns(u64::from(n) * 50), Message::write(n % 5, 5, 3_000 + u64::from(n))))
        .collect();
    on_all(20_000, &script, |watched| {
        let protocol = known().protocol(watched.name.split(',').next().unwrap()).unwrap();
        let cut_through = watched.name.ends_with("true");
        let buffer = Bytes::new(with_headroom(20_000, protocol));
        let ethernet = Ethernet {
            mtu: Bytes::new(1500),
            headers: true,
            buffer: SwitchBuffer::Private(buffer),
            cut_through,
        };
        let fabric = FabricConfig::default_of(protocol);
        let setup =
            Setup { network: watched.network.clone(), ethernet, fabric, seed: 1, time_limit: Time::MAX };
        let run = setup.run(&Work::listed(script.clone()), |_| {}).unwrap().run;
        assert!(
            run.outcomes == watched.run.outcomes && run.counters == watched.run.counters,
            "{}",
            watched.name
        );
    });
}
