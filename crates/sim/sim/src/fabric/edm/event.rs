//! Events of EDM.

use unrack_workload::{MessageId, NodeId};

/// Events of [`Edm`](super::Edm).
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The demand of a message has reached the head of the scheduler's list.
    Demand(MessageId),
    /// The scheduler is due to run.
    Schedule,
    /// A granted chunk is due on its sender's link after `Latency::host_ahead`.
    Send(Chunk),
    /// A chunk is due on its receiver's link after `Latency::switch_ahead`.
    Forward(Chunk),
    /// A clock cycle begins, in which blocks may move. Only with `wire = "blocks"`.
    Cycle,
    /// The last burst of a message has arrived at its receiver.
    Deliver(MessageId),
    /// The timer of a read has expired.
    Timeout(MessageId),
    /// A node has a frame to send.
    NewFrame(NodeId),
    /// A frame has left completely, unless memory traffic has delayed it.
    FrameEnd(u32),
    /// A frame to this node has arrived at the switch.
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
