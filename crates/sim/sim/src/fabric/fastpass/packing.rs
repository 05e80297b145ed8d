//! Packing: messages that are smaller than a slot share the slot of an earlier one for the same destination.
//!
//! The kernel module of Fastpass's authors keeps, for each destination, the time left in the last slot that it asked for; a
//! packet that fits goes into that slot, and any other asks for a new one. So does a node here, with transfers
//! of one segment. A slot takes passengers until it begins.

use super::{Ends, Net, Transfer};
use std::collections::HashMap;
use unrack_engine::events::{Observer, Wait};
use unrack_workload::NodeId;

/// A transfer: its number and its serial number.
pub(super) type Name = (u32, u32);

/// Slots of one node that have room left.
#[derive(Default)]
pub(super) struct Packing {
    /// Slot with the most room, for each destination.
    roomy: HashMap<NodeId, Roomy>,
}

struct Roomy {
    owner: Name,
    /// Bytes on the wire.
    room: u32,
}

impl Packing {
    /// Finds a slot to `dst` with room for `wire` bytes. Returns the transfer that asked for it.
    fn join(&mut self, dst: NodeId, wire: u32) -> Option<Name> {
        let roomy = self.roomy.get_mut(&dst).filter(|roomy| wire <= roomy.room)?;
        roomy.room -= wire;
        Some(roomy.owner)
    }

    /// Notes that `owner` asks for a slot to `dst` and leaves this room.
    fn offer(&mut self, dst: NodeId, owner: Name, room: u32) {
        if self.roomy.get(&dst).is_none_or(|roomy| roomy.room < room) {
            self.roomy.insert(dst, Roomy { owner, room });
        }
    }

    /// Notes that the slot of `owner` takes no more passengers.
    fn close(&mut self, dst: NodeId, owner: Name) {
        if self.roomy.get(&dst).is_some_and(|roomy| roomy.owner == owner) {
            self.roomy.remove(&dst);
        }
    }
}

impl Ends {
    /// Puts a transfer of one segment into a slot that another asked for. Returns whether there is one with room; if
    /// not, others may share the one that this transfer has to ask for.
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
                net.waits(transfer, || Wait::GrantTurn);
                true
            }
            None => {
                packing.offer(dst, (transfer, serial), full - wire);
                false
            }
        }
    }

    /// Ends the sharing of a transfer's slot, and returns those of its passengers that are still to be sent.
    pub(super) fn passengers<O: Observer>(&mut self, net: &Net<Self, O>, transfer: u32) -> Vec<Name> {
        let Transfer { src, dst, serial, .. } = *net.transfer(transfer);
        self.nodes[src as usize].packing.close(dst, (transfer, serial));
        let mut passengers = std::mem::take(&mut self.transfers[transfer as usize].passengers);
        passengers.retain(|(passenger, serial)| {
            net.transfer(*passenger).serial == *serial && !self.transfers[*passenger as usize].done
        });
        passengers
    }

    /// Asks for slots of their own for those who shared that of a transfer that needs none any more.
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
