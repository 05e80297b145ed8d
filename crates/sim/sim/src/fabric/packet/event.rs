//! Packets, and the events of a network of packets.

use crate::fabric::timers::Alarm;
use unrack_engine::PacketSize;
use unrack_engine::events::{Tie, Tied};
use unrack_units::Time;
use unrack_workload::NodeId;

/// Destination of packets that leave the network at their sender's switch, for a device that is not a node.
pub const OUTSIDE: NodeId = NodeId::MAX;

/// Packet on its way through the network.
#[derive(Debug, Clone, Copy)]
pub struct Packet<H> {
    pub transfer: u32,
    pub to: NodeId,
    /// Bytes on the wire.
    pub wire: u32,
    pub payload: u32,
    /// Rank, by which queues order, trim, mark or drop the packet.
    pub rank: u32,
    /// Whether a queue trimmed the payload.
    pub trimmed: bool,
    pub header: H,
    /// Switch port at which the packet waits, or which it is on its way to.
    pub(super) port: u32,
    /// Hash that selects one of several equal-cost paths.
    pub(super) hash: u32,
    /// Time at which the packet joined the queue of the next link.
    pub(super) ready: Time,
    /// Whether a switch marked the packet for congestion.
    pub marked: bool,
    /// Number of the link by which the packet came to its present switch: see [`Pauses`](super::pause::Pauses).
    pub(super) came_by: u32,
}

impl<H> Packet<H> {
    /// Creates a packet of a transfer to node `to`, with its size, rank and header.
    pub fn new(transfer: u32, to: NodeId, size: PacketSize, rank: u32, header: H) -> Packet<H> {
        let PacketSize { wire, payload } = size;
        let (trimmed, marked, port, hash, ready, came_by) = (false, false, 0, 0, Time::ZERO, 0);
        Packet { transfer, to, wire, payload, rank, trimmed, marked, header, port, hash, ready, came_by }
    }
}

/// Events of a network of packets.
#[derive(Debug, Clone, Copy)]
pub enum Event<T> {
    /// A packet can join the queue of its switch port. It came from port `by` of another switch, or from a node if `by` is `FROM_NODE`.
    AtSwitch {
        packet: u32,
        by: u32,
    },
    /// The last bit of a packet has arrived at its node.
    AtNode(u32),
    /// A packet has arrived at [`OUTSIDE`].
    AtOutside(u32),
    /// A switch port with waiting packets has become free.
    PortFree(u32),
    /// The link of a node that has more to send has become free.
    NodeFree(NodeId),
    /// A pause frame has arrived at the sender of a link. The sender must pause, or resume if `pause` is false.
    Pause {
        link: u32,
        pause: bool,
    },
    /// It is time for the receiving switch of this link to check whether it must repeat its request to pause.
    PauseAgain(u32),
    /// The pause of this link's sender may be over.
    PauseEnds(u32),
    /// The first alarm in the queue of this switch's nodes is due.
    Alarms(u32),
    Alarm(Alarm),
    Transport(T),
}

/// Value of `by` for packets from a node or from [`OUTSIDE`].
pub(super) const FROM_NODE: u32 = u32::MAX;
/// Lowest tie of pause frames. Of events at the same time, pause frames come after the packets that arrive over the links.
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
