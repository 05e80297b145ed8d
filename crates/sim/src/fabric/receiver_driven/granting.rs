//! Grants of a receiver, and its view of the credits that senders have.

use super::{CONTROL, Ends, Header, Net, Packet, Pair, Poll, ReceiverPolicy};
use unrack_engine::PacketSize;
use unrack_engine::events::Observer;
use unrack_protocol::receiver_driven::Scheduler;
use unrack_units::Time;
use unrack_workload::NodeId;

impl<P: ReceiverPolicy> Ends<P> {
    /// Tells a receiver's scheduler that a transfer has changed.
    pub(super) fn update(&mut self, transfer: u32, dst: NodeId) {
        let pair = &mut self.transfers[transfer as usize];
        let receiver = &mut self.receivers[dst as usize];
        receiver.scheduler.update(transfer, &mut pair.grants);
        if self.policy.senders().is_some() {
            let before = std::mem::replace(&mut pair.outstanding, pair.grants.outstanding());
            receiver.outstanding += pair.pace * u64::from(pair.outstanding);
            receiver.outstanding = receiver.outstanding - pair.pace * u64::from(before);
        }
    }

    /// Handles the loss of all outstanding grants of a transfer, but for those that its sender has.
    pub(super) fn expired<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let dst = net.transfer(transfer).dst;
        self.update(transfer, dst);
        let Pair { source, unused, .. } = &self.transfers[transfer as usize];
        let left = source.granted().min(*unused);
        self.forget_credits(net, transfer, left);
    }

    /// Counts all but `left` credits of a transfer as used, and lets receivers that wait for its sender grant.
    pub(super) fn forget_credits<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, left: u32) {
        let src = net.transfer(transfer).src;
        let Pair { unused, pace, .. } = &mut self.transfers[transfer as usize];
        let (before, pace) = (std::mem::replace(unused, left), *pace);
        let Some(senders) = self.policy.senders().filter(|_| before > left) else { return };
        senders.settle(src, pace, u64::from(before - left));
        let full = net.plan().full_packet().get();
        let full = net.plan().network.topology.host_link().pace.transmit(full);
        for (size, receiver) in senders.take_waiting(src) {
            // Whoever has had its turn since waits again when the next turn comes.
            let next = self.receivers[receiver as usize].scheduler.next();
            if next.is_none_or(|at| at > net.now()) {
                continue;
            }
            match self.policy.senders() {
                // A sender without room for credits of full packets, nor for those of none, has none for any.
                Some(senders) if ![full, Time::ZERO].iter().any(|time| senders.has_room(src, *time)) => {
                    senders.wait(src, size, receiver);
                }
                _ => self.grant(net, receiver),
            }
        }
    }

    /// Returns the transfer to grant now, and the rank of the segment. A receiver that finds no sender with room waits
    /// for all that it found.
    fn turn<O: Observer>(&mut self, net: &Net<Self, O>, node: NodeId) -> Option<(u32, u8)> {
        let Ends { policy, transfers, receivers, full, .. } = self;
        let receiver = &receivers[node as usize];
        if receiver.outstanding >= self.most_outstanding {
            return None;
        }
        full.clear();
        let mut senders = policy.senders();
        let outstanding = |transfer: u32| transfers[transfer as usize].grants.outstanding();
        let has_room = |transfer: u32| {
            let (src, pair) = (net.transfer(transfer).src, &transfers[transfer as usize]);
            let has_room = senders.as_ref().is_none_or(|senders| senders.has_room(src, pair.pace));
            if !has_room {
                full.push((src, pair.grants.remaining()));
            }
            has_room
        };
        let turn = receiver.scheduler.poll(net.now(), outstanding, has_room);
        if let (None, Some(senders)) = (turn, &mut senders) {
            full.iter().for_each(|(src, size)| senders.wait(*src, *size, node));
        }
        turn
    }

    /// Notes whether the link to the receiver of a packet was idle before it.
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

    /// Returns when to look again for what was granted of a transfer, if it may wait in the queue before its receiver:
    /// since it could have come, that link has not been idle.
    pub(super) fn may_be_queued<O: Observer>(&self, net: &Net<Self, O>, transfer: u32) -> Option<Time> {
        let (now, dst, pair) = (net.now(), net.transfer(transfer).dst, &self.transfers[transfer as usize]);
        let receiver = &self.receivers[dst as usize];
        let round_trip = self.idles_after.filter(|_| pair.grants.outstanding() > 0)?;
        // A packet may be on the link now.
        let full = time_of(net, net.plan().full_packet().get());
        let is_idle = now > receiver.last_arrival + full;
        let (could_come, latest) = (pair.granted_at + round_trip, pair.granted_at + self.patience);
        let waits = !is_idle && receiver.idle_at < could_come && now < latest;
        waits.then(|| latest.min(now + round_trip))
    }

    /// Sends the grants that a receiver may send now.
    pub(super) fn grant<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) {
        while let Some((transfer, rank)) = self.turn(net, node) {
            let pair = &mut self.transfers[transfer as usize];
            let segment = pair.grants.grant().expect("a transfer whose turn it is has something to grant");
            let to = net.transfer(transfer).src;
            if let Some(senders) = self.policy.senders() {
                senders.issue(to, pair.pace);
                pair.unused += 1;
            }
            pair.granted_at = net.now();
            pair.deadline = pair.deadline.max(net.now() + self.timeout);
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

/// Returns the time of a segment on a node's link.
pub(super) fn pace<P: ReceiverPolicy, O: Observer>(
    net: &Net<Ends<P>, O>,
    transfer: u32,
    segment: u32,
) -> Time {
    let PacketSize { wire, .. } = net.segment(transfer, segment);
    time_of(net, u64::from(wire))
}

/// Returns the time of a packet on a node's link.
fn time_of<P: ReceiverPolicy, O: Observer>(net: &Net<Ends<P>, O>, wire: u64) -> Time {
    net.plan().network.topology.host_link().pace.transmit(wire)
}
