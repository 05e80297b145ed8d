//! What an observer is told, against the run's own books and against arithmetic.

mod common;

use common::{SIZES, Script};
use proptest::prelude::*;
use std::collections::BTreeMap;
use unrack_protocol::{cxl, dctcp, tcp};
use unrack_sim::fabric::cxl::Cxl;
use unrack_sim::fabric::dctcp::Dctcp;
use unrack_sim::fabric::edm::{Edm, EdmConfig};
use unrack_sim::fabric::stream::Ethernet;
use unrack_sim::fabric::tcp::Tcp;
use unrack_sim::network::{Network, Pace, Star};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Fabric, Hop, LinkId, Observer, PacketKind, Run, Sim};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Message, MessageId};

const STAR: Star = Star {
    nodes: 6,
    rate: Rate::from_gbps(100),
    propagation: Time::from_ns(10),
    switch_latency: Time::from_ns(300),
};

#[derive(Default)]
struct Told {
    hops: Vec<(Hop, Time)>,
    completed: BTreeMap<MessageId, Time>,
}

impl Observer for Told {
    const HOPS: bool = true;

    fn hop(&mut self, hop: &Hop, now: Time) {
        self.hops.push((*hop, now));
    }
    fn completed(&mut self, id: MessageId, _message: &Message, now: Time) {
        self.completed.insert(id, now);
    }
}

fn observed<F: Fabric>(fabric: F, script: &[(Time, Message)]) -> (Run, Told) {
    let (run, _, told) = Sim::observed(fabric, Script::new(script.to_vec()), Told::default()).run();
    (run, told)
}

fn leaf_spine() -> Network {
    let link = |gbps, ns| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) };
    Network {
        topology: Topology::leaf_spine(2, 3, 2, link(40, 200), link(160, 350)),
        switch_latency: Time::from_ns(300),
    }
}

/// The same work on every fabric, on the networks that it can do.
fn on_all(buffer: u64, script: &[(Time, Message)]) -> Vec<(String, Run, Told)> {
    let mut all = Vec::new();
    let mut add = |name: String, (run, told): (Run, Told)| all.push((name, run, told));
    add("edm".into(), observed(Edm::new(&STAR, &EdmConfig::default()).unwrap(), script));
    add("cxl".into(), observed(Cxl::new(&STAR, &cxl::Params::default()).unwrap(), script));
    for (network, on) in [(Network::star(&STAR), "star"), (leaf_spine(), "leaf-spine")] {
        for cut_through in [true, false] {
            let ethernet = Ethernet { mtu: Bytes::new(1500), buffer: Bytes::new(buffer), cut_through };
            let dctcp = Dctcp::new(&network, &ethernet, &dctcp::Params::default()).unwrap();
            add(format!("dctcp on {on}, {cut_through}"), observed(dctcp, script));
            let tcp = Tcp::new(&network, &ethernet, &tcp::Params::default()).unwrap();
            add(format!("tcp on {on}, {cut_through}"), observed(tcp, script));
        }
    }
    all
}

const DEEP: u64 = 1 << 24;

fn assert_sound(name: &str, run: &Run, told: &Told) {
    assert_eq!(told.hops.len() as u64, run.counters.packet_hops, "{name}");
    assert_eq!(told.completed.len() as u64, run.finished());
    for (hop, now) in &told.hops {
        assert!(hop.ready <= hop.first && hop.first < hop.last && *now < hop.last, "{name}: {hop:?}");
        assert!(hop.first + hop.serial <= hop.last && hop.payload <= hop.wire, "{name}: {hop:?}");
        assert!(hop.first + hop.serial + hop.propagation <= hop.onward, "{name}: {hop:?}");
    }
}

#[test]
fn the_last_data_of_a_lone_message_is_of_use_when_it_is_complete() {
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    let all = kinds.iter().flat_map(|kind| SIZES.map(|bytes| kind(0, 5, bytes)));
    let script: Vec<_> =
        all.enumerate().map(|(n, message)| (Time::from_us(20_000) * n as u64, message)).collect();
    for (name, run, told) in on_all(DEEP, &script) {
        assert_sound(&name, &run, &told);
        for (index, message) in run.messages.iter().enumerate() {
            let id = MessageId(index as u32);
            let data = told.hops.iter().map(|(hop, _)| hop).filter(|hop| hop.message == Some(id));
            let last = data.filter(|hop| hop.packet.kind == PacketKind::Data).map(|hop| hop.onward).max();
            assert_eq!(last, run.outcomes[index].completed(), "{name}: {message:?}");
        }
    }
}

/// Links that carry one packet at a time.
fn assert_one_at_a_time(name: &str, told: &Told) {
    let mut links: BTreeMap<LinkId, Vec<(Time, Time)>> = BTreeMap::new();
    for (hop, _) in &told.hops {
        links.entry(hop.link).or_default().push((hop.first, hop.last));
    }
    for (link, mut busy) in links {
        busy.sort_unstable();
        assert!(
            busy.windows(2).all(|two| two[0].1 <= two[1].0),
            "{name}: {link:?} carries two packets at once"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_hop_is_told_and_makes_sense(
        buffer in prop::sample::select(vec![4_000, 20_000, DEEP]),
        drawn in prop::collection::vec((0u64..5_000, 0u32..6, 1u32..6, 1u64..30_000), 1..40),
    ) {
        let mut script: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
            let (kind, dst) = (bytes % 3, (src + offset) % 6);
            let message = match kind {
                0 => Message::read(src, dst, bytes),
                1 => Message::write(src, dst, bytes),
                _ => Message::rmw(src, dst, bytes),
            };
            (Time::from_ns(at), message)
        }).collect();
        script.sort_by_key(|(at, _)| *at);
        for (name, run, told) in on_all(buffer, &script) {
            assert_sound(&name, &run, &told);
            let payload: u64 = told.hops.iter().filter(|(hop, _)| matches!(hop.link, LinkId::Host(_))).map(|(hop, _)| u64::from(hop.payload)).sum();
            if name != "cxl" {
                prop_assert_eq!(payload, run.counters.sent_bytes, "{}", name);
            }
            if name.contains("tcp") {
                assert_one_at_a_time(&name, &told);
            }
        }
    }
}
