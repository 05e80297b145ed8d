//! Links of the rack, and the packets on them.

use unrack_engine::network::{Departure, Pace, Port};
use unrack_engine::topology::Topology;
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::packet::Route;
use unrack_units::Time;

/// One direction of a link, with the queue before it.
pub(super) struct Link {
    pub port: Port,
    pub pace: Pace,
    pub propagation: Time,
    /// Node at the receiving end.
    pub to: u32,
}

impl Link {
    /// Creates all links of a topology, in order of number.
    pub(super) fn all(topology: &Topology, links: u32) -> Vec<Link> {
        let graph = topology.graph().expect("a network without switches");
        let of = |link| {
            let is = topology.link(link);
            Link { port: Port::new(is.pace), pace: is.pace, propagation: is.propagation, to: graph.to(link) }
        };
        (0..links).map(of).collect()
    }
}

/// A packet that follows its route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub flow: u32,
    pub body: Body,
    pub route: Route,
    /// Number of hops done.
    pub done: u32,
    pub wire: u32,
    pub payload: u32,
}

/// Value of [`Packet::flow`] for packets that belong to no flow.
pub(super) const NONE: u32 = u32::MAX;

/// Content of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(u32),
    /// Acknowledgement: all segments below `next` have arrived. Of the 64 segments from `next` on, those whose bit is set in `mask` have
    /// arrived.
    Ack {
        next: u32,
        mask: u64,
    },
    /// Report to the source of a broadcast that a node had to drop the broadcast (§3.2).
    Lost(BroadcastContent),
    /// Announcement that goes to the controller only, instead of all nodes.
    Told(BroadcastContent),
    /// New rates of a node's flows, sent by the controller; `list` is the index of the list.
    Rates {
        node: u32,
        list: u32,
    },
    /// Report to the controller that this list was lost.
    LostRates(u32),
}

/// Broadcast in flight, with the number of its copies.
#[derive(Debug, Clone, Copy)]
pub(super) struct BroadcastCopies {
    pub news: BroadcastContent,
    pub copies: u32,
}

/// Returns the earliest time at which a packet with this departure can leave the next node. If that node cuts through, the packet can leave
/// while it arrives; otherwise, it can leave when it has arrived completely.
pub(super) fn ready(departure: Departure, next: Option<Pace>, wire: u32, cut_through: bool) -> Time {
    let Departure { first, last } = departure;
    match next {
        // A faster next link must not run out of bits in the middle of a packet.
        Some(next) if cut_through => first.max(last.saturating_sub(next.transmit(u64::from(wire)))),
        _ => last,
    }
}
