//! NDP's port (Handley et al., SIGCOMM 2017, §3.1): a short queue of data packets. A packet that finds this queue full loses its payload,
//! and its header joins a separate queue. Headers leave first, but one data packet leaves after ten headers. The two queues have equal
//! memory (§3.1), so that data packets use at most half of the port's buffer, but one data packet may always wait. Only packets that waited
//! count: a packet that finds the port free bypasses the two queues.

use super::{Loss, Queue};
use crate::fabric::buffer::QueueRoom;
use crate::fabric::packet::Packet;
use crate::fabric::slab::Slab;
use std::collections::VecDeque;

/// Queue of two ranks: 0 is headers and control, and all others are data.
#[derive(Clone)]
pub struct Trimming {
    headers: VecDeque<u32>,
    data: VecDeque<u32>,
    data_limit: usize,
    bytes: u64,
    /// Bytes in `data`.
    data_bytes: u64,
    /// Number of headers that left since the last data packet.
    in_a_row: u32,
    /// Bytes on the wire of a packet without payload.
    header_wire: u32,
}

/// Number of headers that leave before a waiting data packet (§3.1: 10:1 round robin).
const HEADERS_PER_DATA: u32 = 10;

impl Trimming {
    /// Creates a queue in which at most `data_packets` packets wait with their payload. `header_wire`: bytes on the wire of a bare header.
    pub fn new(data_packets: u32, header_wire: u32) -> Trimming {
        let (headers, data) = (VecDeque::new(), VecDeque::new());
        let data_limit = data_packets as usize;
        Trimming { headers, data, data_limit, bytes: 0, data_bytes: 0, in_a_row: 0, header_wire }
    }

    /// Returns whether a packet of `wire` bytes may wait with its payload.
    fn holds(&self, wire: u32, room: QueueRoom) -> bool {
        let fits = self.data_bytes + u64::from(wire) <= room.limit() / 2;
        self.data.len() < self.data_limit && (fits || self.data.is_empty())
    }
}

impl Queue for Trimming {
    fn offer<H: Copy>(
        &mut self,
        index: u32,
        packets: &mut Slab<Packet<H>>,
        losses: &mut Vec<Loss>,
        room: QueueRoom,
    ) {
        let packet = &mut packets[index];
        let trim = packet.rank > 0 && !self.holds(packet.wire, room);
        let wire = if trim { self.header_wire } else { packet.wire };
        if !room.takes(self.bytes, wire) {
            return losses.push(Loss { packet: index, bytes: packet.payload, whole: true });
        }
        if trim {
            losses.push(Loss { packet: index, bytes: packet.payload, whole: false });
            (packet.wire, packet.payload, packet.rank, packet.trimmed) = (wire, 0, 0, true);
        }
        self.bytes += u64::from(wire);
        if packet.rank == 0 {
            return self.headers.push_back(index);
        }
        self.data_bytes += u64::from(wire);
        self.data.push_back(index);
    }

    fn take<H: Copy>(&mut self, packets: &Slab<Packet<H>>) -> Option<u32> {
        let data_turn = self.in_a_row >= HEADERS_PER_DATA && !self.data.is_empty();
        let packet = match self.headers.pop_front() {
            Some(header) if data_turn => {
                self.headers.push_front(header);
                self.data.pop_front()
            }
            Some(header) => Some(header),
            None => self.data.pop_front(),
        }?;
        let Packet { rank, wire, .. } = packets[packet];
        self.in_a_row = if rank == 0 { self.in_a_row + 1 } else { 0 };
        self.bytes -= u64::from(wire);
        self.data_bytes -= if rank == 0 { 0 } else { u64::from(wire) };
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.data.is_empty()
    }
}
