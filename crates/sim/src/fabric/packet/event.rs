//! Packets, and what happens to them.

use crate::engine::{Tie, Tied};
use crate::fabric::timers::Alarm;
use unrack_units::Time;
use unrack_workload::NodeId;

/// Where packets go that leave the network at the switch of their sender: for what is not one of its nodes.
pub(in crate::fabric) const OUTSIDE: NodeId = NodeId::MAX;

#[derive(Debug, Clone, Copy)]
pub struct Packet<H> {
    pub transfer: u32,
    pub to: NodeId,
    /// On the wire.
    pub wire: u32,
    pub payload: u32,
    /// What the queues go by.
    pub rank: u32,
    /// A queue took the payload away.
    pub trimmed: bool,
    pub header: H,
    /// The switch port it is on its way to, or in.
    pub(super) port: u32,
    /// Which of equal ways it takes.
    pub(super) hash: u32,
    /// When it joined what waits for the link that it is to cross next.
    pub(super) ready: Time,
    /// A switch marked it for congestion.
    pub marked: bool,
    /// The link that it came by to its switch: see [`Pauses`](super::pause::Pauses).
    pub(super) came_by: u32,
}

impl<H> Packet<H> {
    pub fn new(transfer: u32, to: NodeId, (wire, payload): (u32, u32), rank: u32, header: H) -> Packet<H> {
        let (trimmed, marked, port, hash, ready, came_by) = (false, false, 0, 0, Time::ZERO, 0);
        Packet { transfer, to, wire, payload, rank, trimmed, marked, header, port, hash, ready, came_by }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Event<T> {
    /// A packet is ready to be queued at its switch port. It came by this port of another switch.
    AtSwitch {
        packet: u32,
        by: u32,
    },
    /// The last bit of a packet has come to its node.
    AtNode(u32),
    /// A packet has come to [`OUTSIDE`].
    AtOutside(u32),
    /// A switch port at which packets wait is free.
    PortFree(u32),
    /// A node that has more to send is free to.
    NodeFree(NodeId),
    /// A pause frame has come to the sender of a link, which it tells to pause or to go on.
    Pause {
        link: u32,
        pause: bool,
    },
    /// Whoever asked the sender of this link to pause may have to ask again.
    PauseAgain(u32),
    /// The pause of the sender of this link may be over.
    PauseEnds(u32),
    /// The first alarm of the queue of this switch's nodes is due.
    Alarms(u32),
    Alarm(Alarm),
    Transport(T),
}

/// Instead of a port: a node, or [`OUTSIDE`].
pub(super) const FROM_NODE: u32 = u32::MAX;
/// Pause frames come after packets by as many links.
const PAUSES: u32 = 1 << 31;

impl<T: Copy + Send> Tied for Event<T> {
    fn tie(&self) -> u32 {
        match *self {
            Event::AtSwitch { by, .. } if by != FROM_NODE => by + 1,
            Event::Pause { link, .. } => PAUSES + link,
            Event::Alarms(_) | Event::Alarm(_) => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}
