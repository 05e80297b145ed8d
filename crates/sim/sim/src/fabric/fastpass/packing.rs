//! Packing: a message smaller than a slot shares the slot of an earlier message to the same destination.
//!
//! The kernel module of Fastpass's authors records, for each destination, the time left in the last slot that it asked for. A packet that
//! fits is sent in that slot; for any other packet, the module asks for a new slot. A node here does the same with transfers of one
//! segment. A slot accepts such passengers until it begins.

use super::{FastpassEnds, Net, Transfer};
use std::collections::HashMap;
use unrack_engine::events::{Observer, WaitReason};
use unrack_workload::NodeId;

/// Identifies a transfer by its number and its serial number.
pub(super) type TransferName = (u32, u32);

/// Slots of one node that have room left.
#[derive(Default)]
pub(super) struct Packing {
    /// Slot with the most room, for each destination.
    roomy: HashMap<NodeId, Roomy>,
}

struct Roomy {
    owner: TransferName,
    /// Room in bytes on the wire.
    room: u32,
}

impl Packing {
    /// Finds a slot to `dst` with room for `wire` bytes. Returns the transfer that asked for the slot.
    fn join(&mut self, dst: NodeId, wire: u32) -> Option<TransferName> {
        let roomy = self.roomy.get_mut(&dst).filter(|roomy| wire <= roomy.room)?;
        roomy.room -= wire;
        Some(roomy.owner)
    }

    /// Records that `owner` asks for a slot to `dst` and leaves this room.
    fn offer(&mut self, dst: NodeId, owner: TransferName, room: u32) {
        if self.roomy.get(&dst).is_none_or(|roomy| roomy.room < room) {
            self.roomy.insert(dst, Roomy { owner, room });
        }
    }

    /// Records that the slot of `owner` accepts no more passengers.
    fn close(&mut self, dst: NodeId, owner: TransferName) {
        if self.roomy.get(&dst).is_some_and(|roomy| roomy.owner == owner) {
            self.roomy.remove(&dst);
        }
    }
}

impl FastpassEnds {
    /// Adds a transfer of one segment to a slot that another transfer asked for. Returns whether there is such a slot with room. If not,
    /// later transfers may share the slot that this transfer has to ask for.
    pub(super) fn shares<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) -> bool {
        let Transfer { src, dst, serial, segments, .. } = *net.transfer(transfer);
        if !self.packs || segments > 1 {
            return false;
        }
        let (full, wire) = (net.plan().full_packet().get() as u32, net.segment(transfer, 0).wire);
        let packing = &mut self.nodes[src as usize].packing;
        match packing.join(dst, wire) {
            Some((owner, _)) => {
                self.transfers[owner as usize].passengers.push((transfer, serial));
                net.waits(transfer, || WaitReason::GrantTurn);
                true
            }
            None => {
                packing.offer(dst, (transfer, serial), full - wire);
                false
            }
        }
    }

    /// Ends the sharing of a transfer's slot. Returns the passengers of the slot that still have to be sent.
    pub(super) fn passengers<O: Observer>(&mut self, net: &Net<Self, O>, transfer: u32) -> Vec<TransferName> {
        let Transfer { src, dst, serial, .. } = *net.transfer(transfer);
        self.nodes[src as usize].packing.close(dst, (transfer, serial));
        let mut passengers = std::mem::take(&mut self.transfers[transfer as usize].passengers);
        passengers.retain(|(passenger, serial)| {
            net.transfer(*passenger).serial == *serial && !self.transfers[*passenger as usize].done
        });
        passengers
    }

    /// Asks for separate slots for the passengers of a transfer that does not need its slot any more.
    pub(super) fn ask_for_passengers<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        for (passenger, _) in self.passengers(net, transfer) {
            self.ask(net, passenger, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_shared_while_it_has_room_and_has_not_begun() {
        let mut packing = Packing::default();
        assert_eq!(packing.join(7, 100), None);
        packing.offer(7, (1, 10), 250);
        assert_eq!(
            [packing.join(7, 100), packing.join(7, 100), packing.join(7, 100)],
            [Some((1, 10)), Some((1, 10)), None]
        );
        assert_eq!(packing.join(8, 10), None, "another destination");
        packing.offer(7, (2, 11), 20);
        assert_eq!(packing.join(7, 40), Some((1, 10)), "the roomier slot stays");
        packing.close(7, (2, 11));
        assert_eq!(packing.join(7, 10), Some((1, 10)));
        packing.close(7, (1, 10));
        assert_eq!(packing.join(7, 1), None);
    }
}
