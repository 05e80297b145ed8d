//! What a transport is to the network under it.

use super::{Net, Packet, Queue, Side};
use crate::engine::{Observer, PacketKind};
use crate::fabric::stream::Plan;
use unrack_units::Time;
use unrack_workload::{Message, NodeId};

/// What decides who sends what, and when.
pub(in crate::fabric) trait Transport: Sized {
    /// What a packet says to its receiver.
    type Header: Copy + Send;
    /// What it asks to be told later.
    type Timer: Copy + Send;
    type Queue: Queue;
    /// As in scenarios and tables.
    const NAME: &'static str;
    /// Packets of a node take all ways in turn, control included; else those of a transfer all take the same.
    const SPRAYS: bool;
    /// What it does at the nodes of a switch depends on those, and on packets that come, alone.
    const SPLITS: bool;
    /// [`Transport::lost`] is called.
    const HEARS_OF_LOSSES: bool = false;

    /// Makes both ends of a transfer.
    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32);
    /// Its sender may begin now.
    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32);
    /// A packet has arrived at its end.
    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Self::Header>);
    /// A packet to [`OUTSIDE`] has arrived there.
    fn receive_outside<O: Observer>(&mut self, _net: &mut Net<Self, O>, _packet: &Packet<Self::Header>) {
        unreachable!("no transport sends there but one that receives there");
    }
    /// A packet was lost, of which the books of the simulation may keep something: nobody in the network knows.
    fn lost<O: Observer>(&mut self, _net: &mut Net<Self, O>, _header: &Self::Header) {}
    /// The first packet of its answer has arrived, which acknowledges this request.
    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32);
    /// The link of a node is free: what it sends now.
    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Self::Header>>;
    /// Whether [`Transport::poll`] may have something for this node.
    fn is_ready(&self, node: NodeId) -> bool;
    fn handle_timer<O: Observer>(&mut self, net: &mut Net<Self, O>, timer: Self::Timer);
    /// What a packet is, and of data or what answers it: which segment.
    fn describe(header: &Self::Header) -> (PacketKind, Option<u32>);
    /// When [`Transport::handle_alarm`] is due for this end of a transfer. It may move to later at any time; if it
    /// comes to be sooner, or something at last, [`Transport::keep_alarm`] has to be called, at this end.
    fn deadline(&self, transfer: u32, side: Side) -> Option<Time>;
    /// The deadline of this end of a transfer has come.
    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, side: Side);
    fn keep_alarm<O: Observer>(&self, net: &mut Net<Self, O>, transfer: u32, side: Side) {
        if let Some(at) = self.deadline(transfer, side) {
            net.set_alarm(at, transfer, side);
        }
    }
    /// It keeps nothing of any transfer that could have an effect.
    #[cfg(test)]
    fn is_empty(&self) -> bool;
    /// How long a message takes alone in the network.
    fn unloaded(&self, plan: &Plan, message: &Message) -> Time {
        alone::<Self>(plan, message, None, |_, _| Time::ZERO)
    }
}

/// How long a message takes alone in the network, if each of its transfers is sent `ahead` after it was opened,
/// without a break or a packet each `spacing`.
pub(in crate::fabric) fn alone<T: Transport>(
    plan: &Plan,
    message: &Message,
    spacing: Option<Time>,
    ahead: impl Fn(NodeId, NodeId) -> Time,
) -> Time {
    let transfer = |src, dst, bytes| {
        let mut alone = plan.alone(src, dst);
        alone.spacing = spacing;
        if T::SPRAYS {
            alone.ways = plan.network.topology.ways(src, dst);
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
