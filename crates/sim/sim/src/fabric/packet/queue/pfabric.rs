//! pFabric's port (Alizadeh et al., SIGCOMM 2013, §4.1): the packet with the highest priority leaves first, and the packet with the lowest
//! priority is dropped.

use super::{Loss, Queue};
use crate::fabric::buffer::QueueRoom;
use crate::fabric::packet::Packet;
use crate::fabric::slab::Slab;

/// Queue ordered by remaining size. The rank of a packet is the number of packets that its transfer had left when the packet was sent, and
/// the smallest rank leaves first. Later packets of a transfer have better ranks, but must not overtake earlier ones. Therefore the
/// transfer with the best rank is selected, and its earliest packet leaves.
///
/// Packets are stored in order of arrival. The queue holds about two dozen packets, so that a linear search is faster than any heap.
#[derive(Clone, Default)]
pub struct SmallestFirst {
    waiting: Vec<Entry>,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    rank: u32,
    transfer: u32,
    packet: u32,
    wire: u32,
}

impl SmallestFirst {
    fn remove(&mut self, at: usize) -> Entry {
        let entry = self.waiting.remove(at);
        self.bytes -= u64::from(entry.wire);
        entry
    }

    /// Returns the index and rank of the packet with the lowest priority; among equals, the latest.
    fn worst(&self) -> Option<(usize, u32)> {
        let ranks = self.waiting.iter().map(|entry| entry.rank).enumerate();
        ranks.max_by_key(|(_, rank)| *rank)
    }
}

impl Queue for SmallestFirst {
    fn offer<H: Copy>(
        &mut self,
        packet: u32,
        packets: &mut Slab<Packet<H>>,
        losses: &mut Vec<Loss>,
        mut room: QueueRoom,
    ) {
        let Packet { rank, transfer, wire, .. } = packets[packet];
        while !room.takes(self.bytes, wire) {
            let lost = match self.worst() {
                Some((at, worst)) if worst > rank => {
                    let entry = self.remove(at);
                    room.freed(u64::from(entry.wire));
                    entry.packet
                }
                _ => packet,
            };
            losses.push(Loss { packet: lost, bytes: packets[lost].payload, whole: true });
            if lost == packet {
                return;
            }
        }
        self.bytes += u64::from(wire);
        self.waiting.push(Entry { rank, transfer, packet, wire });
    }

    fn take<H: Copy>(&mut self, _packets: &Slab<Packet<H>>) -> Option<u32> {
        let best = self.waiting.iter().min_by_key(|entry| entry.rank)?.transfer;
        let earliest = self.waiting.iter().position(|entry| entry.transfer == best)?;
        Some(self.remove(earliest).packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
