//! What can be seen of a run while it happens.
//!
//! A fabric tells the books of [`Core`](super::Core) what it does; an [`Observer`] is told the same.
//! What it does not ask for is not computed: see [`Observer::HOPS`].

use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

/// Looks on. Every method does nothing unless overridden, and then costs nothing.
pub trait Observer {
    /// Whether [`Observer::hop`], [`Observer::waits`] and [`Observer::lost`] are called: then what they are told is put together.
    const HOPS: bool = false;

    fn submitted(&mut self, _id: MessageId, _message: &Message, _now: Time) {}
    fn completed(&mut self, _id: MessageId, _message: &Message, _now: Time) {}
    /// A packet of message `id` was sent again.
    fn retransmitted(&mut self, _id: MessageId, _now: Time) {}
    /// A packet of `bytes` was lost on its way.
    fn dropped(&mut self, _id: MessageId, _bytes: u64, _now: Time) {}
    /// A packet that message `id` needs was lost. If [`Observer::HOPS`]. A packet that several messages need is told of
    /// for each of them.
    fn lost(&mut self, _id: MessageId, _packet: &Packet, _now: Time) {}
    /// A packet found `bytes` waiting ahead of it at this switch port (of a star: the node's number).
    fn queued(&mut self, _port: u32, _bytes: u64, _now: Time) {}
    /// A packet crosses a link. Told as soon as its times are decided: before its last bit leaves and, for
    /// one link, not always in the order of time. If [`Observer::HOPS`].
    fn hop(&mut self, _hop: &Hop, _now: Time) {}
    /// What keeps a message from sending, from `now` until it is told otherwise. If [`Observer::HOPS`].
    fn waits(&mut self, _id: MessageId, _wait: Wait, _now: Time) {}
}

impl<O: Observer> Observer for &mut O {
    const HOPS: bool = O::HOPS;

    fn submitted(&mut self, id: MessageId, message: &Message, now: Time) {
        (**self).submitted(id, message, now);
    }
    fn completed(&mut self, id: MessageId, message: &Message, now: Time) {
        (**self).completed(id, message, now);
    }
    fn retransmitted(&mut self, id: MessageId, now: Time) {
        (**self).retransmitted(id, now);
    }
    fn dropped(&mut self, id: MessageId, bytes: u64, now: Time) {
        (**self).dropped(id, bytes, now);
    }
    fn lost(&mut self, id: MessageId, packet: &Packet, now: Time) {
        (**self).lost(id, packet, now);
    }
    fn queued(&mut self, port: u32, bytes: u64, now: Time) {
        (**self).queued(port, bytes, now);
    }
    fn hop(&mut self, hop: &Hop, now: Time) {
        (**self).hop(hop, now);
    }
    fn waits(&mut self, id: MessageId, wait: Wait, now: Time) {
        (**self).waits(id, wait, now);
    }
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// One packet (or control block, or cache line) over one link, one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub link: LinkId,
    /// `None`: it belongs to no message, such as a pause frame.
    pub message: Option<MessageId>,
    pub packet: Packet,
    /// Bytes that it takes on the link, rounded up, with all that surrounds them.
    pub wire: u32,
    /// Bytes of data, or of a request, that it carries.
    pub payload: u32,
    /// It joined what waits for this link.
    pub ready: Time,
    /// Its first bit leaves.
    pub first: Time,
    /// Its last bit has left.
    pub last: Time,
    /// Others may be on the link in the same time: they share a flit.
    pub shares: bool,
    /// Time from `first` on in which the link found out that what it sent was corrupted, and began to send it again.
    pub repeated: Time,
    /// How much of its transmission what comes next waits for: nothing before a switch that cuts
    /// through, all of it at its end.
    pub serial: Time,
    /// Of the link.
    pub propagation: Time,
    /// When it can leave by the next link, or is of use at its end, if nothing is in its way there:
    /// `first`, `serial`, `propagation` and the fixed latency of the device.
    pub onward: Time,
}

impl Hop {
    /// Its last bit is at the other end.
    pub fn arrival(&self) -> Time {
        self.last + self.propagation
    }
}

/// One way of a link, by who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkId {
    /// From a node to its switch.
    Host(NodeId),
    /// From a switch port: see [`Topology`](crate::topology::Topology). On a star, the port of this node.
    Port(u32),
}

/// What a packet says, in words that all fabrics share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub kind: PacketKind,
    /// Who made it, and whom it is for.
    pub src: NodeId,
    pub dst: NodeId,
    /// Of data: its first byte in the message. Of what is asked for or answered: the first byte that is
    /// not yet acknowledged, granted, ... `None`: the packet does not say.
    pub offset: Option<u64>,
    /// Ranges of bytes received beyond `offset`; an empty one ends the list.
    pub sack: [(u64, u64); 3],
    /// When what it carries or acknowledges was sent, if it says so.
    pub sent: Option<Time>,
    /// 0 is the highest, and that of fabrics without priorities.
    pub priority: u8,
    /// A switch marked it for congestion.
    pub marked: bool,
    /// It tells the sender of marks.
    pub echo: bool,
}

impl Packet {
    /// A packet that says no more than this.
    pub fn new(kind: PacketKind, src: NodeId, dst: NodeId) -> Packet {
        let sack = [(0, 0); 3];
        let (sent, priority, marked, echo) = (None, 0, false, false);
        Packet { kind, src, dst, offset: None, sack, sent, priority, marked, echo }
    }
}

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Data of a message.
    Data,
    /// Asks for the data of a read or rmw.
    Request,
    /// Data or a request has arrived.
    Ack,
    /// Data was lost, or had to be cut off its header.
    Nack,
    /// The header of a data packet of which the rest was cut off.
    Header,
    /// There is something to send.
    Notification,
    /// Data may be sent: a grant, token, credit, pull or slot.
    Grant,
    /// Nothing may be sent on a link, or something again.
    Pause,
    /// Tells a sender of congestion.
    Congestion,
}

impl PacketKind {
    pub const ALL: [PacketKind; 9] = {
        use PacketKind::*;
        [Data, Request, Ack, Nack, Header, Notification, Grant, Pause, Congestion]
    };

    pub const fn name(self) -> &'static str {
        match self {
            PacketKind::Data => "data",
            PacketKind::Request => "request",
            PacketKind::Ack => "ack",
            PacketKind::Nack => "nack",
            PacketKind::Header => "header",
            PacketKind::Notification => "notification",
            PacketKind::Grant => "grant",
            PacketKind::Pause => "pause",
            PacketKind::Congestion => "congestion",
        }
    }
}

/// What keeps a message from sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    /// Nothing does.
    Nothing,
    /// Other messages of its node go first.
    Turn,
    /// Its notification has not yet come to who grants.
    Notification,
    /// It was not granted yet, by a scheduler, an arbiter or its receiver; or its grant is under way.
    Grant,
    /// It was not granted yet by who could: it is the turn of others, or too early.
    GrantTurn,
    /// The next hop has no buffer for it, or as much as may be asked for at once has been.
    Credit,
    /// Its congestion window is full.
    Window,
    /// Its sending rate.
    Pacing,
    /// The link is paused.
    Pause,
    /// Something was lost: until the sender has learnt of it and sent it again.
    Retransmission,
}

impl Wait {
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Nothing => "nothing",
            Wait::Turn => "turn",
            Wait::Notification => "notification",
            Wait::Grant => "grant",
            Wait::GrantTurn => "grant-turn",
            Wait::Credit => "credit",
            Wait::Window => "window",
            Wait::Pacing => "pacing",
            Wait::Pause => "pause",
            Wait::Retransmission => "retransmission",
        }
    }
}
