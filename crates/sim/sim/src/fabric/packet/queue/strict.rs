//! Strict priorities (IEEE 802.1Q §8.6.8.1): eight FIFO classes under one common limit.

use super::{Loss, Queue};
use crate::fabric::buffer::QueueRoom;
use crate::fabric::packet::Packet;
use crate::fabric::slab::Slab;
use std::collections::VecDeque;

/// Queue of eight classes. The rank of a packet is its class, and class 0 leaves first. Packets that do not fit are dropped.
#[derive(Clone, Default)]
pub struct StrictPriority {
    classes: [VecDeque<u32>; CLASSES],
    /// Bit mask of the classes that have packets.
    waiting: u8,
    bytes: u64,
}

pub(super) const CLASSES: usize = 8;

impl Queue for StrictPriority {
    fn offer<H: Copy>(
        &mut self,
        packet: u32,
        packets: &mut Slab<Packet<H>>,
        losses: &mut Vec<Loss>,
        room: QueueRoom,
    ) {
        let Packet { wire, payload, rank, .. } = packets[packet];
        if !room.takes(self.bytes, wire) {
            return losses.push(Loss { packet, bytes: payload, whole: true });
        }
        self.bytes += u64::from(wire);
        self.classes[rank as usize].push_back(packet);
        self.waiting |= 1 << rank;
    }

    fn take<H: Copy>(&mut self, packets: &Slab<Packet<H>>) -> Option<u32> {
        let class = self.waiting.trailing_zeros() as usize;
        let queue = self.classes.get_mut(class)?;
        let packet = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting &= !(1 << class);
        }
        self.bytes -= u64::from(packets[packet].wire);
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}
