//! Observation of a run while it happens.
//!
//! A fabric reports its actions to the [`Core`](super::Core), which counts them and passes them on to an [`Observer`].
//! Details that the observer does not need are not computed: see [`Observer::HOPS`].

use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

/// Observer of a run. By default, each method does nothing and costs nothing.
pub trait Observer {
    /// Whether the engine calls [`Observer::hop`], [`Observer::waits`] and [`Observer::lost`]. If not, their arguments
    /// are not computed.
    const HOPS: bool = false;

    fn submitted(&mut self, _id: MessageId, _message: &Message, _now: Time) {}
    fn completed(&mut self, _id: MessageId, _message: &Message, _now: Time) {}
    /// Reports that a packet of message `id` was retransmitted.
    fn retransmitted(&mut self, _id: MessageId, _now: Time) {}
    /// Reports that a packet with `bytes` of payload was lost on its way, or that only its payload was.
    fn dropped(&mut self, _id: MessageId, _bytes: u64, _now: Time) {}
    /// Reports the loss of a packet that message `id` needs. If several messages need the packet, each of them gets a
    /// report. Called only if [`Observer::HOPS`].
    fn lost(&mut self, _id: MessageId, _packet: &ObservedPacket, _now: Time) {}
    /// Reports that a packet found `bytes` waiting ahead of it at this switch port. On a star, the port has the number
    /// of its node.
    fn queued(&mut self, _port: u32, _bytes: u64, _now: Time) {}
    /// Reports that a packet crosses a link. The fabric calls this as soon as it has decided the times, which is before
    /// the last bit leaves. Therefore the calls for one link are not always in order of time. Called only if
    /// [`Observer::HOPS`].
    fn hop(&mut self, _hop: &Hop, _now: Time) {}
    /// Reports why a message cannot send, from `now` until the next report. Called only if [`Observer::HOPS`].
    fn waits(&mut self, _id: MessageId, _wait: WaitReason, _now: Time) {}
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
    fn lost(&mut self, id: MessageId, packet: &ObservedPacket, now: Time) {
        (**self).lost(id, packet, now);
    }
    fn queued(&mut self, port: u32, bytes: u64, now: Time) {
        (**self).queued(port, bytes, now);
    }
    fn hop(&mut self, hop: &Hop, now: Time) {
        (**self).hop(hop, now);
    }
    fn waits(&mut self, id: MessageId, wait: WaitReason, now: Time) {
        (**self).waits(id, wait, now);
    }
}

/// Observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// Transmission of one packet (or control block, or cache line) over one link, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub link: LinkId,
    /// Message of the packet; `None` if the packet belongs to no message, such as a pause frame.
    pub message: Option<MessageId>,
    pub packet: ObservedPacket,
    /// Bytes on the link, including headers and framing, rounded up.
    pub wire: u32,
    /// Bytes of data or of a request that the packet carries.
    pub payload: u32,
    /// Time at which the packet joined the queue of this link.
    pub ready: Time,
    /// Time at which the first bit leaves.
    pub first: Time,
    /// Time at which the last bit has left.
    pub last: Time,
    /// Whether other packets may be on the link at the same time, because they share a flit.
    pub shares: bool,
    /// Time from `first` on that the link spent on detecting a corrupted transmission, until it began to retransmit.
    pub repeated: Time,
    /// Part of the transmission for which the next step waits: zero before a cut-through switch, and the whole
    /// transmission at the destination.
    pub serial: Time,
    /// Propagation of the link.
    pub propagation: Time,
    /// Time at which the packet can leave on the next link, or can be used at the destination, if no other packet
    /// delays it: `first` plus `serial`, `propagation` and the fixed latency of the device.
    pub onward: Time,
}

impl Hop {
    /// Returns the time at which the last bit arrives at the other end of the link.
    #[inline]
    pub fn arrival(&self) -> Time {
        self.last + self.propagation
    }
}

/// One direction of a link, named by its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkId {
    /// Link from a node to its switch.
    Host(NodeId),
    /// Link from a switch port: see [`Topology`](crate::topology::Topology). On a star, the number of a port is the
    /// number of its node.
    Port(u32),
}

/// Contents of a packet, in terms that all fabrics share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedPacket {
    pub kind: PacketKind,
    /// Node that created the packet.
    pub src: NodeId,
    /// Node to which the packet is addressed.
    pub dst: NodeId,
    /// Offset in the message. In data packets, it is the offset of the first byte; in control packets, of the first
    /// byte that is not yet acknowledged, granted, and so on. `None` if the packet carries no offset.
    pub offset: Option<u64>,
    /// Ranges of bytes received beyond `offset`. An empty range ends the list.
    pub sack: [(u64, u64); 3],
    /// Time at which the data that the packet carries or acknowledges was sent; `None` if the packet does not carry it.
    pub sent: Option<Time>,
    /// Priority. 0 is the highest, and fabrics without priorities use only 0.
    pub priority: u8,
    /// Whether a switch marked the packet because of congestion.
    pub marked: bool,
    /// Whether the packet reports marks to the sender (ECN echo).
    pub echo: bool,
}

impl ObservedPacket {
    /// Creates a packet with these fields; all other fields are empty.
    pub fn new(kind: PacketKind, src: NodeId, dst: NodeId) -> ObservedPacket {
        let sack = [(0, 0); 3];
        let (sent, priority, marked, echo) = (None, 0, false, false);
        ObservedPacket { kind, src, dst, offset: None, sack, sent, priority, marked, echo }
    }
}

/// Purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Data of a message.
    Data,
    /// Request for the data of a read or rmw.
    Request,
    /// Acknowledgement that data or a request has arrived.
    Ack,
    /// Report that data was lost, or was trimmed to its header.
    Nack,
    /// Header of a data packet that was trimmed.
    Header,
    /// Notification that a node has data to send.
    Notification,
    /// Permission to send data: a grant, token, credit, pull or slot.
    Grant,
    /// Pause or resumption of a link.
    Pause,
    /// Report of congestion to a sender.
    Congestion,
}

impl PacketKind {
    /// All kinds of packets, in order.
    pub const ALL: [PacketKind; 9] = {
        use PacketKind::*;
        [Data, Request, Ack, Nack, Header, Notification, Grant, Pause, Congestion]
    };

    /// Returns the name of the kind in lower case.
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

/// Reason why a message does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// None: the message can send.
    Nothing,
    /// Other messages of the same node are served first.
    Turn,
    /// The notification has not yet arrived at the scheduler.
    Notification,
    /// A scheduler, an arbiter or the receiver has not yet granted the message, or the grant is in flight.
    Grant,
    /// The scheduler knows the message but has not yet granted it, because other messages are served first or because
    /// it is too early.
    GrantTurn,
    /// The next hop has no buffer for the message, or the limit of outstanding requests is reached.
    Credit,
    /// The congestion window is full.
    Window,
    /// The sending rate delays the message.
    Pacing,
    /// The link is paused.
    Pause,
    /// A packet was lost, and the sender has not yet noticed the loss and retransmitted the packet.
    Retransmission,
}

impl WaitReason {
    /// Returns the name of the reason in lower case, such as `grant-turn`.
    pub const fn name(self) -> &'static str {
        match self {
            WaitReason::Nothing => "nothing",
            WaitReason::Turn => "turn",
            WaitReason::Notification => "notification",
            WaitReason::Grant => "grant",
            WaitReason::GrantTurn => "grant-turn",
            WaitReason::Credit => "credit",
            WaitReason::Window => "window",
            WaitReason::Pacing => "pacing",
            WaitReason::Pause => "pause",
            WaitReason::Retransmission => "retransmission",
        }
    }
}
