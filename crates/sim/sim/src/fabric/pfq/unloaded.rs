//! Completion time of a flow that is alone, in closed form.

use super::Pfq;
use crate::fabric::single_message::MOST_SIMULATED;
use std::collections::BTreeMap;
use unrack_units::Time;
use unrack_workload::Message;

impl Pfq {
    /// Returns whether the time of a message is simulated. This is the case if no exact formula exists, because packets of one transfer may
    /// part and meet again or because links differ, unless the message is too long.
    pub(super) fn is_simulated(&self, message: &Message) -> bool {
        let segments = self.segments(message.bytes).max(self.segments(message.request.into()));
        let has_one_way = || {
            let (src, dst) = (message.src, message.dst);
            self.has_one_way(src, dst) && self.has_one_way(dst, src)
        };
        let is_exact = self.alike.is_some() && (segments == 1 || has_one_way());
        !is_exact && segments <= MOST_SIMULATED
    }

    /// Returns the time until the last packet has arrived. It is exact over links that are alike, for one packet or if there is only one
    /// path. Otherwise it is a lower bound, because packets of one flow may meet again after they parted.
    pub(super) fn alone(&self, src: u32, dst: u32, bytes: u64) -> Time {
        let last = u64::from(self.segments(bytes)) - 1;
        let wire = u64::from(self.wire(self.payload(bytes, last as u32)));
        let Some(before) = last.checked_sub(1) else { return self.way(src, dst, wire) };
        let full = u64::from(self.wire(self.most));
        let start = |segment| self.start(src, dst, segment * full);
        let (full_there, last_there) =
            (start(before) + self.way(src, dst, full), start(last) + self.way(src, dst, wire));
        match self.alike {
            // On a single path, the last packet waits for the full packet before it.
            Some((pace, _)) if self.has_one_way(src, dst) => last_there.max(full_there + pace.transmit(wire)),
            // A short last packet may overtake the full packet before it.
            _ => full_there.max(last_there),
        }
    }

    /// Returns a lower bound of the time at which `bytes` bytes of full packets have left the source, over all links with which shortest
    /// paths begin.
    fn start(&self, src: u32, dst: u32, bytes: u64) -> Time {
        let ports = self.graph.closer(src, dst);
        let links = self.graph.links_of(src).enumerate().filter(|(port, _)| ports >> port & 1 == 1);
        let full = u64::from(self.wire(self.most));
        let paces: Vec<_> = links.map(|(_, link)| self.links[link as usize].pace).collect();
        match paces.iter().all(|pace| *pace == paces[0]) {
            // Each link sends an equal share of the packets.
            true => paces[0].transmit(full) * (bytes / full / paces.len() as u64),
            false => {
                let bps: u128 = paces.iter().map(|pace| u128::from(pace.rate().as_bps())).sum();
                let ahead = full * (paces.len() as u64 - 1);
                let ps = u128::from(bytes.saturating_sub(ahead)) * 8_000_000_000_000 / bps;
                Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the time from the start of a packet to its arrival, by the fastest shortest path for this packet.
    fn way(&self, src: u32, dst: u32, wire: u64) -> Time {
        let (latency, hops) = (self.network.switch_latency, u64::from(self.graph.distance(src, dst)));
        if let Some((pace, propagation)) = self.alike {
            let stored = if self.cut_through { 1 } else { hops };
            return propagation * hops + latency * (hops - 1) + pace.transmit(wire) * stored;
        }
        // Earliest time at which the first bit can leave each node, and earliest time at which the last bit is there.
        let mut at = BTreeMap::from([(src, (Time::ZERO, Time::ZERO))]);
        for _ in 0..hops {
            let mut next = BTreeMap::new();
            for (&node, &(can_leave, whole)) in &at {
                let ports = self.graph.closer(node, dst);
                let links = self.graph.links_of(node).enumerate();
                for (_, link) in links.filter(|(port, _)| ports >> port & 1 == 1) {
                    let link = &self.links[link as usize];
                    let transmit = link.pace.transmit(wire);
                    let first = can_leave.max(whole.saturating_sub(transmit));
                    let device = if link.to == dst { Time::ZERO } else { latency };
                    let there = first + transmit + link.propagation + device;
                    let head = if self.cut_through { first + link.propagation + device } else { there };
                    let best = next.entry(link.to).or_insert((head, there));
                    *best = (best.0.min(head), best.1.min(there));
                }
            }
            at = next;
        }
        at[&dst].1
    }

    fn has_one_way(&self, src: u32, dst: u32) -> bool {
        let mut node = src;
        while node != dst {
            let ports = self.graph.closer(node, dst);
            if ports.count_ones() > 1 {
                return false;
            }
            node = self.graph.to(self.graph.links_of(node).start + ports.trailing_zeros());
        }
        true
    }
}
