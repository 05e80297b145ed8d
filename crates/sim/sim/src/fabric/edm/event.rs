//! Events of EDM.

use unrack_workload::{MessageId, NodeId};

/// Events of [`Edm`](super::Edm).
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The demand of a message has come to the head of the scheduler's list.
    Demand(MessageId),
    /// The scheduler asked to be run.
    Schedule,
    /// A granted chunk is `Latency::host_ahead` from its sender's link.
    Send(Chunk),
    /// A chunk is `Latency::switch_ahead` from its receiver's link.
    Forward(Chunk),
    /// The last burst of a message has arrived at its receiver.
    Deliver(MessageId),
    /// The timer of a read has run out.
    Timeout(MessageId),
    /// A node has a frame to send.
    NewFrame(NodeId),
    /// A frame is due to have left, unless memory traffic has displaced it.
    FrameEnd(u32),
    /// A frame has arrived at the switch, to go on to a node.
    FrameAtSwitch(NodeId),
    /// A frame has arrived at its node.
    FrameAtNode,
}

/// Part of a message that one grant allows.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    pub(super) id: MessageId,
    pub(super) bytes: u16,
    pub(super) last: bool,
}
