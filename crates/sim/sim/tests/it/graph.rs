//! Racks with any cables, each different, under all fabrics that forward: whole messages, no faster than can be.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_conserved, setup_on};
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use unrack_rack::graph::Graph;
use unrack_sim::network::Pace;
use unrack_sim::observe::{Packets, Views};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{LinkId, Work};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

const NODES: u32 = 9;

fn any_cable() -> impl Strategy<Value = Link> {
    let rate = prop::sample::select(vec![1, 10, 25, 40]).prop_map(|gbps| Pace::new(Rate::from_gbps(gbps)));
    (rate, 0..2_000u64).prop_map(|(pace, ns)| Link { pace, propagation: Time::from_ns(ns) })
}

/// Draws a tree, and as many further cables as fit.
fn any_rack() -> impl Strategy<Value = Topology> {
    let more = prop::collection::vec((0..NODES, 0..NODES), 0..12);
    (prop::collection::vec(any::<u32>(), NODES as usize), more, prop::collection::vec(any_cable(), 21))
        .prop_map(|(parents, more, links)| {
            let mut cables: Vec<_> = (1..NODES).map(|node| (node, parents[node as usize] % node)).collect();
            for cable in more {
                cables.push(cable);
                if Graph::of_cables(NODES, &cables).is_err() {
                    cables.pop();
                }
            }
            let graph = Graph::of_cables(NODES, &cables).expect("a tree of at most 8 branches, and more");
            Topology::direct_by(Arc::new(graph), &links[..cables.len()])
        })
}

fn any_messages() -> impl Strategy<Value = Vec<(Time, Message)>> {
    let kinds = prop::sample::select(vec![Message::read, Message::rmw, Message::flow]);
    prop::collection::vec((0..200u64, kinds, 0..NODES, 1..NODES, 1..60_000u64), 1..25).prop_map(
        |mut drawn| {
            drawn.sort_by_key(|drawn| drawn.0);
            let message = |(at, kind, src, apart, bytes): (_, fn(_, _, _) -> Message, _, _, _)| {
                (Time::from_us(at), kind(src, (src + apart) % NODES, bytes))
            };
            drawn.into_iter().map(message).collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn all_arrives_at_the_pace_of_the_links(topology in any_rack(), messages in any_messages(), cut_through: bool) {
        for protocol in [R2c2::PROTOCOL, Pfq::PROTOCOL, Tcp::PROTOCOL, Dctcp::PROTOCOL] {
            let mut setup = setup_on(topology.clone(), protocol, 1 << 30);
            setup.ethernet.cut_through = cut_through;
            let hops = RefCell::new(Vec::new());
            let mut watch = Views {
                packets: Some(Packets::new(|hop, _| hops.borrow_mut().push(*hop))),
                ..Views::default()
            };
            let run = setup.watched(&Work::listed(messages.clone()), &mut watch, |_| {}).unwrap().run;
            watch.packets.take().unwrap().finish();
            drop(watch);
            // Data that others sent again, since it took long, may still be under way.
            if protocol == Pfq::PROTOCOL {
                assert_conserved(&run);
            }
            prop_assert!(run.is_complete() && run.counters.dropped_packets == 0);
            for (n, message) in run.messages.iter().enumerate() {
                let (took, least) = (run.outcomes[n].completion().unwrap(), setup.network.ideal(message));
                prop_assert!(took >= run.unloaded[n], "{protocol} {message:?}: {took} {}", run.unloaded[n]);
                prop_assert!(run.unloaded[n] >= least, "{protocol} {message:?}: {} {least}", run.unloaded[n]);
            }
            for hop in hops.into_inner() {
                let LinkId::Port(port) = hop.link else { continue };
                let link = topology.link(port);
                prop_assert_eq!(hop.propagation, link.propagation);
                prop_assert_eq!(hop.last - hop.first, link.pace.transmit(u64::from(hop.wire)));
            }
        }
    }
}
