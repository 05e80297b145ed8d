//! Interface between a transport and the network below it.

use super::{Net, Packet, Queue, TransferSide};
use crate::fabric::stream::StreamPlan;
use unrack_engine::events::{Observer, PacketKind};
use unrack_units::Time;
use unrack_workload::{Message, NodeId};

/// Transport: decides which packet each node sends, and when.
pub trait Transport: Sized {
    /// Content of a packet for its receiver.
    type Header: Copy + Send;
    /// Timer event that the transport schedules.
    type Timer: Copy + Send;
    type Queue: Queue;
    /// Whether the packets of a node, including control packets, take all paths in turn. If not, all packets of a transfer take the same
    /// path.
    const SPRAYS: bool;
    /// Whether runs with this transport can be split. This requires that the actions of the transport at the nodes of a switch depend only
    /// on these nodes and on arriving packets.
    const SPLITS: bool = false;
    /// Whether the network calls [`Transport::lost`].
    const HEARS_OF_LOSSES: bool = false;

    /// Creates both ends of a transfer.
    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32);
    /// Starts the sender of a transfer.
    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32);
    /// Takes a packet that has arrived at its destination node.
    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Self::Header>);
    /// Takes a packet that has arrived at [`OUTSIDE`](super::event::OUTSIDE).
    fn receive_outside<O: Observer>(&mut self, _net: &mut Net<Self, O>, _packet: &Packet<Self::Header>) {
        unreachable!("no transport sends there but one that receives there");
    }
    /// Forgets the state that the simulation keeps for a lost packet. The nodes of the network do not learn of the loss.
    fn lost<O: Observer>(&mut self, _net: &mut Net<Self, O>, _header: &Self::Header) {}
    /// Marks a request as acknowledged, because the first packet of its answer has arrived.
    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32);
    /// Returns the packet that a node sends now. Called when the link of the node is free.
    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Self::Header>>;
    /// Returns whether [`Transport::poll`] may have a packet for this node.
    fn is_ready(&self, node: NodeId) -> bool;
    /// Handles a timer that is due. The default does nothing, for transports that schedule no timers.
    fn handle_timer<O: Observer>(&mut self, _net: &mut Net<Self, O>, _timer: Self::Timer) {}
    /// Returns the kind of a packet and, for data and replies to data, the number of the segment.
    fn describe(header: &Self::Header) -> (PacketKind, Option<u32>);
    /// Returns when [`Transport::handle_alarm`] is due for this end of a transfer. The deadline may move to a later time without notice. If
    /// it moves to an earlier time, or starts to exist, the transport must call [`Transport::keep_alarm`] for this end.
    fn deadline(&self, transfer: u32, side: TransferSide) -> Option<Time>;
    /// Handles the expired deadline of this end of a transfer.
    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, side: TransferSide);
    /// Sets the alarm for the deadline of this end of a transfer, if it has a deadline.
    fn keep_alarm<O: Observer>(&self, net: &mut Net<Self, O>, transfer: u32, side: TransferSide) {
        if let Some(at) = self.deadline(transfer, side) {
            net.set_alarm(at, transfer, side);
        }
    }
    /// Returns whether the transport keeps no state of any transfer that could still have an effect.
    #[cfg(test)]
    fn is_empty(&self) -> bool;
    /// Returns the completion time of a message alone in the network.
    fn unloaded(&self, plan: &StreamPlan, message: &Message) -> Time {
        alone::<Self>(plan, message, None, |_, _| Time::ZERO)
    }
}

/// Returns the completion time of a message alone in the network. Each transfer of the message starts `ahead` after it was opened. Its
/// packets are sent back to back, or one packet each `spacing`.
pub(crate) fn alone<T: Transport>(
    plan: &StreamPlan,
    message: &Message,
    spacing: Option<Time>,
    ahead: impl Fn(NodeId, NodeId) -> Time,
) -> Time {
    let transfer = |src, dst, bytes| {
        let mut alone = plan.alone(src, dst);
        alone.spacing = spacing;
        if T::SPRAYS && !plan.cut_through && plan.network.topology.ways(src, dst) > 1 {
            let path = |hash| plan.network.topology.path(src, dst, hash).collect();
            // One path for each packet that the last packet can meet on its way, and one path for the last packet itself.
            alone.paths = (0..alone.links.len() as u32 + 2).map(path).collect();
        }
        ahead(src, dst) + alone.stream(bytes)
    };
    match message.kind.is_answered() {
        true => {
            transfer(message.src, message.dst, u64::from(message.request))
                + transfer(message.dst, message.src, message.bytes)
        }
        false => transfer(message.src, message.dst, message.bytes),
    }
}
