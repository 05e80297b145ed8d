//! Events of R2C2.

use unrack_engine::events::{Tie, Tied};
use unrack_protocol::r2c2::node::NodeTimer;

/// Events of [`R2c2`](super::R2c2).
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet can leave the node at the end of this link, or has arrived at its destination.
    Arrive {
        packet: u32,
        link: u32,
    },
    /// A broadcast has arrived over this link.
    Heard {
        spread: u32,
        link: u32,
    },
    Send {
        flow: u32,
        turn: u32,
    },
    Tick(u32),
    Alarm {
        flow: u32,
        turn: u32,
    },
    /// A node repeats one of its announcements, because a copy of it was lost.
    Repeat(u32),
    /// A node repeats its report of a broadcast that it had to drop.
    Report(u32),
    /// A rule takes effect.
    Rule(u32),
    /// A node chooses routings.
    Select,
    /// Nodes learn that a part of the network is down, or up again.
    Discover,
}

impl Event {
    /// Returns the event of a node's timer.
    pub(super) fn new(node: u32, timer: NodeTimer<u32>) -> Event {
        match timer {
            NodeTimer::Tick => Event::Tick(node),
            NodeTimer::Repeat => Event::Repeat(node),
            NodeTimer::Report => Event::Report(node),
            NodeTimer::Send { flow, turn } => Event::Send { flow, turn },
            NodeTimer::Alarm { flow, turn } => Event::Alarm { flow, turn },
        }
    }
}

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::Arrive { link, .. } | Event::Heard { link, .. } => link + 1,
            Event::Alarm { .. } => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}
