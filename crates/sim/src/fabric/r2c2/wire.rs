//! The links of the rack and what crosses them.

use crate::network::{Departure, Pace, Port};
use crate::topology::Topology;
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::Route;
use unrack_units::Time;

/// One way of a link, with the queue before it.
pub(super) struct Link {
    pub port: Port,
    pub pace: Pace,
    pub propagation: Time,
    /// The node at its end.
    pub to: u32,
}

impl Link {
    pub fn all(topology: &Topology, links: u32) -> Vec<Link> {
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
    /// Hops done.
    pub done: u32,
    pub wire: u32,
    pub payload: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(u32),
    /// All segments below `next` are there, and of the 64 from there on those of the mask.
    Ack {
        next: u32,
        mask: u64,
    },
    /// What a node had to drop of a broadcast (§3.2): it goes back to its source.
    Lost(News),
    /// What the controller is told instead of all.
    Told(News),
    /// New rates of a node's flows, from the controller; and that they were lost, back to it.
    Rates(u32),
    LostRates(u32),
}

/// A broadcast on its way, and how many copies of it are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub news: News,
    pub copies: u32,
}

/// When a packet that leaves so can leave the next node at the earliest; with all of it, or as soon as it comes if that
/// node cuts through.
pub(super) fn ready(departure: Departure, next: Option<Pace>, wire: u32, cut_through: bool) -> Time {
    let Departure { first, last } = departure;
    match next {
        // A faster link must not run out of bits in the middle of a packet.
        Some(next) if cut_through => first.max(last.saturating_sub(next.transmit(u64::from(wire)))),
        _ => last,
    }
}
