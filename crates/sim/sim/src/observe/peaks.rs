//! Longest queue of each port, and the maximum number of packets of each message that its receiver held out of order.

use std::collections::{BTreeMap, BTreeSet};
use unrack_engine::events::{Hop, LinkId, PacketKind};
use unrack_engine::topology::{LinkEnd, Topology};
use unrack_units::Time;
use unrack_workload::MessageId;

/// Peaks of a run. It needs 32 bytes for each packet of an incomplete message.
pub struct Peaks {
    topology: Topology,
    /// Longest queue of each port, in bytes; `None` for ports that no data has crossed.
    ports: Vec<Option<u64>>,
    /// Data packets on their last link: arrival, offset of the first byte, and number of bytes.
    coming: BTreeMap<MessageId, Vec<(Time, u64, u32)>>,
    /// Maximum number of packets held out of order, for each complete message.
    held: Vec<u64>,
}

impl Peaks {
    /// Creates empty records for a topology.
    pub fn new(topology: &Topology) -> Peaks {
        let ports = vec![None; topology.ports() as usize];
        Peaks { topology: topology.clone(), ports, coming: BTreeMap::new(), held: Vec::new() }
    }

    /// Returns, for each port that data has crossed, the maximum number of bytes that a data packet found ahead of it.
    /// Bytes in transmission count too.
    pub fn queue_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.ports.iter().copied().flatten()
    }

    /// Returns, for each complete message, the maximum number of packets that had arrived while an earlier one was
    /// missing.
    pub fn reorder_packets(&self) -> &[u64] {
        &self.held
    }

    pub(super) fn queued(&mut self, port: u32, bytes: u64) {
        let most = &mut self.ports[port as usize];
        *most = (*most).max(Some(bytes));
    }

    pub(super) fn hop(&mut self, hop: &Hop) {
        let (Some(message), Some(offset), PacketKind::Data) =
            (hop.message, hop.packet.offset, hop.packet.kind)
        else {
            return;
        };
        if self.is_last(hop) {
            let packet = (hop.arrival(), offset, hop.payload);
            self.coming.entry(message).or_default().push(packet);
        }
    }

    pub(super) fn completed(&mut self, id: MessageId) {
        if let Some(packets) = self.coming.remove(&id) {
            self.held.push(most_held(packets));
        }
    }

    fn is_last(&self, hop: &Hop) -> bool {
        let LinkId::Port(port) = hop.link else { return false };
        match (self.topology.end(port), self.topology.graph()) {
            // A node that forwards for others is its own switch.
            (LinkEnd::Node(node), None) | (LinkEnd::Switch(node), Some(_)) => node == hop.packet.dst,
            _ => false,
        }
    }
}

/// Returns the maximum number of packets held at the same time. Duplicates count once.
fn most_held(mut packets: Vec<(Time, u64, u32)>) -> u64 {
    packets.sort_by_key(|(at, ..)| *at);
    let (mut next, mut most) = (0, 0);
    let mut held: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (_, offset, bytes) in packets {
        if offset >= next {
            held.insert((offset, offset + u64::from(bytes)));
        }
        while let Some(first) = held.first().copied().filter(|(offset, _)| *offset <= next) {
            held.remove(&first);
            next = next.max(first.1);
        }
        most = most.max(held.len() as u64);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(order: &[u64]) -> u64 {
        let packet = |(at, n): (u64, &u64)| (Time::from_ns(at), n * 100, 100);
        most_held((0..).zip(order).map(packet).collect())
    }

    #[test]
    fn packets_wait_for_those_before_them() {
        assert_eq!(held(&[0, 1, 2, 3]), 0);
        assert_eq!(held(&[1, 0, 2, 3]), 1);
        assert_eq!(held(&[3, 2, 1, 0]), 3);
        assert_eq!(held(&[0, 2, 3, 1, 5, 4]), 2);
    }

    #[test]
    fn what_comes_again_is_not_held_twice() {
        assert_eq!(held(&[1, 1, 1, 0, 0, 2]), 1);
    }
}
