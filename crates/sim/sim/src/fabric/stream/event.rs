//! Events of streams.

use crate::fabric::timers::Alarm;
use unrack_engine::events::{Tie, Tied};
use unrack_hosts as hosts;

/// Events of streams.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet can join the queue of its switch port. It came from port `by` of another switch, or from a node if `by` is `FROM_NODE`.
    AtSwitch {
        packet: u32,
        by: u32,
    },
    /// The last bit of a packet has arrived at its node.
    AtNode(u32),
    /// A link by which nodes send has sent all packets in its queue.
    Refill(u32),
    /// The first timer in the queue of this switch's nodes is due.
    Timers(u32),
    Timer(Alarm),
    /// An event inside a host.
    Host(hosts::Event),
}

/// Value of `by` for packets from a node.
pub(super) const FROM_NODE: u32 = u32::MAX;

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::AtSwitch { by, .. } if by != FROM_NODE => by + 1,
            Event::Timers(_) | Event::Timer(_) => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}
