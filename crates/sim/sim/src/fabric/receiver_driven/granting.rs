//! The grants that a receiver issues, and the shared view of the credits that senders have.

use super::{CONTROL, Header, Net, Packet, Poll, ReceiverPolicy, TransferEnds};
use unrack_engine::PacketSize;
use unrack_engine::events::Observer;
use unrack_protocol::receiver_driven::Scheduler;
use unrack_units::Time;
use unrack_workload::NodeId;

impl<P: ReceiverPolicy> TransferEnds<P> {
    /// Informs the scheduler of a receiver that a transfer has changed.
    pub(super) fn update(&mut self, transfer: u32, dst: NodeId) {
        let grants = &mut self.transfers[transfer as usize].grants;
        self.policy.update(&mut self.receivers[dst as usize].scheduler, transfer, grants);
    }

    /// Handles the loss of all outstanding grants of a transfer, except the grants that its sender still has.
    pub(super) fn expired<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let dst = net.transfer(transfer).dst;
        self.update(transfer, dst);
        self.forget_credits(net, transfer, self.transfers[transfer as usize].source.granted());
    }

    /// Counts all but `left` credits of a transfer as used, and lets the receivers that wait for room at its sender issue grants.
    pub(super) fn forget_credits<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, left: u32) {
        let src = net.transfer(transfer).src;
        let Some(view) = self.policy.view() else { return };
        view.keep(transfer, left);
        while let Some(receiver) = self.policy.next_waiting(&mut self.receivers, src) {
            self.grant(net, receiver);
        }
    }

    /// Returns the transfer that the receiver grants now, and the rank of the segment.
    fn turn<O: Observer>(&mut self, net: &Net<Self, O>, node: NodeId) -> Option<(u32, u8)> {
        let TransferEnds { policy, transfers, receivers, .. } = self;
        let outstanding = |transfer: u32| transfers[transfer as usize].grants.outstanding();
        policy.choose(&mut receivers[node as usize].scheduler, net.now(), outstanding)
    }

    /// Records whether the link to the receiver was idle before this packet.
    pub(super) fn note_arrival<O: Observer>(&mut self, net: &Net<Self, O>, packet: &Packet<Header>) {
        if self.idles_after.is_none() {
            return;
        }
        let began = net.now() - time_of(net, u64::from(packet.wire));
        let receiver = &mut self.receivers[packet.to as usize];
        if began > receiver.last_arrival + time_of(net, net.bare().wire.into()) {
            receiver.idle_at = began;
        }
        receiver.last_arrival = net.now();
    }

    /// Returns when to check again whether the granted segments of a transfer are lost, if they may still wait in the queue of the port to
    /// their receiver. They may wait there if that link has not been idle since the time when they could have arrived.
    pub(super) fn may_be_queued<O: Observer>(&self, net: &Net<Self, O>, transfer: u32) -> Option<Time> {
        let (now, dst, pair) = (net.now(), net.transfer(transfer).dst, &self.transfers[transfer as usize]);
        let receiver = &self.receivers[dst as usize];
        let round_trip = self.idles_after.filter(|_| pair.grants.outstanding() > 0)?;
        // A packet may be on the link at this moment.
        let full = time_of(net, net.plan().full_packet().get());
        let is_idle = now > receiver.last_arrival + full;
        let (could_come, latest) = (pair.granted_at + round_trip, pair.granted_at + self.patience);
        let waits = !is_idle && receiver.idle_at < could_come && now < latest;
        waits.then(|| latest.min(now + round_trip))
    }

    /// Sends the grants that a receiver may issue now.
    pub(super) fn grant<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) {
        while let Some((transfer, rank)) = self.turn(net, node) {
            let pair = &mut self.transfers[transfer as usize];
            let segment = pair.grants.grant().expect("a transfer whose turn it is has something to grant");
            let to = net.transfer(transfer).src;
            pair.granted_at = net.now();
            pair.deadline = pair.deadline.max(net.now() + pair.grants.timeout(self.timeout));
            if let Some(view) = self.policy.view() {
                view.issue(transfer);
            }
            let pace = pace(net, transfer, segment);
            self.receivers[node as usize].scheduler.granted(net.now(), pace);
            self.update(transfer, node);
            self.tell_wait(net, transfer);
            let header = Header::Grant { segment, rank };
            net.send_first(node, Packet::new(transfer, to, net.bare(), CONTROL, header));
        }
        let receiver = &mut self.receivers[node as usize];
        let next = receiver.scheduler.next().filter(|at| *at > net.now());
        if let Some(at) = next
            && receiver.polled_at.is_none_or(|polled| at < polled)
        {
            receiver.polled_at = Some(at);
            net.schedule(at, Poll(node));
        }
    }
}

/// Returns the transmission time of a segment on a node's link.
pub(super) fn pace<P: ReceiverPolicy, O: Observer>(
    net: &Net<TransferEnds<P>, O>,
    transfer: u32,
    segment: u32,
) -> Time {
    let PacketSize { wire, .. } = net.segment(transfer, segment);
    time_of(net, u64::from(wire))
}

/// Returns the transmission time of a packet on a node's link.
fn time_of<P: ReceiverPolicy, O: Observer>(net: &Net<TransferEnds<P>, O>, wire: u64) -> Time {
    net.plan().network.topology.host_link().pace.transmit(wire)
}
