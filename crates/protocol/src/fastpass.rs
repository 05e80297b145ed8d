//! Fastpass: a centralized "zero-queue" datacenter network (Perry et al., SIGCOMM 2014).
//!
//! Nodes ask an arbiter for every packet that they want to send; it says in which timeslot each goes, so that
//! no link is promised twice (§3). [`Arbiter`] is that matching; who asks and who is told is the caller's.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use unrack_units::{Rate, Time};

/// Parameters of Fastpass.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Of the arbiter's link. Default 100 Gb/s (EDM §4.3).
    pub arbiter_rate: Rate,
    /// What the arbiter takes to serve one demand, one after the other. Default 0: "infinitely fast" (EDM §4.3).
    pub processing: Time,
    /// Timeslots that are matched at once, at most 64. Default 8 (§3.3: the batch of an allocator).
    pub batch: u32,
    /// Silence after which a source asks again, the first time. Default 1 ms.
    pub timeout: Time,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            arbiter_rate: Rate::from_gbps(100),
            processing: Time::ZERO,
            batch: 8,
            timeout: Time::from_us(1_000),
        }
    }
}

/// Segments of a transfer that are to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub src: u32,
    pub dst: u32,
    pub transfer: u32,
    pub segments: Range<u32>,
}

/// A segment goes in a timeslot, counted from the first of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub src: u32,
    pub transfer: u32,
    pub segment: u32,
    pub slot: u32,
}

/// Matches sources and destinations, one batch of timeslots after the other.
#[derive(Debug, Clone)]
pub struct Arbiter {
    backlog: VecDeque<Demand>,
    batch: u32,
    /// Slots of the batch in which a node sends, and receives: one bit each.
    sends: Vec<u64>,
    receives: Vec<u64>,
}

impl Arbiter {
    /// For `nodes` nodes, with batches of `batch` slots: 1 to 64.
    pub fn new(nodes: u32, batch: u32) -> Arbiter {
        let none = vec![0; nodes as usize];
        Arbiter { backlog: VecDeque::new(), batch, sends: none.clone(), receives: none }
    }

    pub fn demand(&mut self, demand: Demand) {
        self.backlog.push_back(demand);
    }

    pub fn is_idle(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Allocates the slots of the next batch: a maximal matching in each, and who was served longest ago
    /// first (§3.2: max-min fair).
    pub fn allocate(&mut self, allocations: &mut Vec<Allocation>) {
        let all = if self.batch >= 64 { u64::MAX } else { (1 << self.batch) - 1 };
        self.sends.fill(0);
        self.receives.fill(0);
        // Those that found no slot in this batch will find none later on.
        let mut candidates = std::mem::take(&mut self.backlog);
        let mut without = VecDeque::new();
        while let Some(mut demand) = candidates.pop_front() {
            let (sends, receives) =
                (&mut self.sends[demand.src as usize], &mut self.receives[demand.dst as usize]);
            let free = all & !(*sends | *receives);
            let Some(segment) = (free != 0).then(|| demand.segments.next()).flatten() else {
                without.push_back(demand);
                continue;
            };
            let slot = free.trailing_zeros();
            *sends |= 1 << slot;
            *receives |= 1 << slot;
            allocations.push(Allocation { src: demand.src, transfer: demand.transfer, segment, slot });
            if !demand.segments.is_empty() {
                candidates.push_back(demand);
            }
        }
        self.backlog = without;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No node sends or receives two packets in a slot; no slot is left to two that both had it free; all is
        /// served once.
        #[test]
        fn every_batch_is_a_maximal_matching(
            batch in 1u32..65,
            drawn in prop::collection::vec((0u32..6, 0u32..6, 1u32..30), 1..40),
        ) {
            let mut arbiter = Arbiter::new(6, batch);
            let mut left = vec![0; drawn.len()];
            for (n, (src, dst, count)) in drawn.iter().enumerate() {
                arbiter.demand(Demand { src: *src, dst: *dst, transfer: n as u32, segments: 0..*count });
                left[n] = *count;
            }
            while !arbiter.is_idle() {
                let mut allocations = Vec::new();
                arbiter.allocate(&mut allocations);
                prop_assert!(!allocations.is_empty());
                let (mut sends, mut receives) = (vec![0u64; 6], vec![0u64; 6]);
                for Allocation { src, transfer, segment, slot } in allocations {
                    let (from, to, count) = drawn[transfer as usize];
                    prop_assert!(src == from && slot < batch);
                    prop_assert_eq!(segment, count - left[transfer as usize]);
                    left[transfer as usize] -= 1;
                    for node in [&mut sends[from as usize], &mut receives[to as usize]] {
                        prop_assert_eq!(*node & (1 << slot), 0);
                        *node |= 1 << slot;
                    }
                }
                for (n, (src, dst, _)) in drawn.iter().enumerate() {
                    let busy = (sends[*src as usize] | receives[*dst as usize]).count_ones();
                    prop_assert!(left[n] == 0 || busy == batch, "{n} could have been served");
                }
            }
            prop_assert!(left.iter().all(|left| *left == 0));
        }
    }

    #[test]
    fn who_was_served_longest_ago_is_served_first() {
        let mut arbiter = Arbiter::new(3, 2);
        arbiter.demand(Demand { src: 0, dst: 2, transfer: 0, segments: 0..3 });
        arbiter.demand(Demand { src: 1, dst: 2, transfer: 1, segments: 0..3 });
        let mut order = Vec::new();
        for _ in 0..3 {
            let mut allocations = Vec::new();
            arbiter.allocate(&mut allocations);
            order.extend(allocations.iter().map(|allocation| allocation.transfer));
        }
        assert_eq!(order, [0, 1, 0, 1, 0, 1]);
    }
}
