//! Fastpass: a centralized "zero-queue" datacenter network (Perry et al., SIGCOMM 2014).
//!
//! Nodes ask an arbiter for every packet that they want to send; it assigns each a timeslot, so that no link is
//! promised twice (§3). [`Arbiter`] is that matching; the exchange of messages is the caller's.
//!
//! Demands are idempotent (§4, Fastpass control protocol, whose demands are totals): the arbiter takes no second demand
//! of a transfer that has one waiting. Otherwise, nodes that ask again would get slots that they cannot use, and wait
//! all the longer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use unrack_units::{Rate, Time};

/// Parameters of Fastpass.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Rate of the arbiter's link. Default 100 Gb/s (EDM §4.3).
    pub arbiter_rate: Rate,
    /// Time that the arbiter takes to serve one demand; demands are served one after the other. Default 0: "infinitely
    /// fast" (EDM §4.3).
    pub processing: Time,
    /// Timeslots that are matched in one batch, at most 64. Default 8 (§3.3: the batch of an allocator).
    pub batch: u32,
    /// Silence after which a source asks again for the first time. Default 1 ms.
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

/// Request for timeslots: segments of a transfer that are to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub src: u32,
    pub dst: u32,
    pub transfer: u32,
    /// Serial number, which tells the transfer from others that had its number before. Not 0. A number may be reused
    /// only when no demand of its former transfer waits.
    pub serial: u32,
    pub segments: Range<u32>,
}

/// Assignment of a segment to a timeslot, counted from the first of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub src: u32,
    pub transfer: u32,
    pub serial: u32,
    pub segment: u32,
    pub slot: u32,
    /// True if this serves the last segment of the demand.
    pub last: bool,
}

/// Matches sources and destinations, one batch of timeslots after the other.
#[derive(Debug, Clone)]
pub struct Arbiter {
    backlog: VecDeque<Demand>,
    /// Serial number of each transfer's demand in the backlog, or 0; by transfer.
    waiting: Vec<u32>,
    batch: u32,
    /// Slots of the batch in which each node sends, and receives: one bit each.
    sends: Vec<u64>,
    receives: Vec<u64>,
}

impl Arbiter {
    /// Creates an arbiter for `nodes` nodes, with batches of `batch` slots: 1 to 64.
    pub fn new(nodes: u32, batch: u32) -> Arbiter {
        let none = vec![0; nodes as usize];
        Arbiter { backlog: VecDeque::new(), waiting: Vec::new(), batch, sends: none.clone(), receives: none }
    }

    /// Adds a demand. Returns whether it is taken: not if the transfer has a demand that waits.
    pub fn demand(&mut self, demand: Demand) -> bool {
        let at = demand.transfer as usize;
        if self.waiting.len() <= at {
            self.waiting.resize(at + 1, 0);
        }
        let taken = self.waiting[at] != demand.serial;
        if taken {
            self.waiting[at] = demand.serial;
            self.backlog.push_back(demand);
        }
        taken
    }

    /// Returns whether no demand waits.
    pub fn is_idle(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Allocates the slots of the next batch: a maximal matching in each, least recently served demands first (§3.2:
    /// max-min fair).
    pub fn allocate(&mut self, allocations: &mut Vec<Allocation>) {
        let all = if self.batch >= 64 { u64::MAX } else { (1 << self.batch) - 1 };
        self.sends.fill(0);
        self.receives.fill(0);
        // A demand that found no slot in this batch will find none later in it.
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
            let Demand { src, transfer, serial, .. } = demand;
            let last = demand.segments.is_empty();
            allocations.push(Allocation { src, transfer, serial, segment, slot, last });
            if last {
                self.waiting[transfer as usize] = 0;
            } else {
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
        /// No node sends or receives two packets in a slot; no slot is left unused by two nodes that both had it free;
        /// every segment is served once.
        #[test]
        fn every_batch_is_a_maximal_matching(
            batch in 1u32..65,
            drawn in prop::collection::vec((0u32..6, 0u32..6, 1u32..30), 1..40),
        ) {
            let mut arbiter = Arbiter::new(6, batch);
            let mut left = vec![0; drawn.len()];
            for (n, (src, dst, count)) in drawn.iter().enumerate() {
                let (src, dst, transfer, segments) = (*src, *dst, n as u32, 0..*count);
                let taken = arbiter.demand(Demand { src, dst, transfer, serial: 1, segments });
                prop_assert!(taken);
                left[n] = *count;
            }
            while !arbiter.is_idle() {
                let mut allocations = Vec::new();
                arbiter.allocate(&mut allocations);
                prop_assert!(!allocations.is_empty());
                let (mut sends, mut receives) = (vec![0u64; 6], vec![0u64; 6]);
                for Allocation { src, transfer, segment, slot, .. } in allocations {
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
        arbiter.demand(Demand { src: 0, dst: 2, transfer: 0, serial: 1, segments: 0..3 });
        arbiter.demand(Demand { src: 1, dst: 2, transfer: 1, serial: 2, segments: 0..3 });
        let mut order = Vec::new();
        for _ in 0..3 {
            let mut allocations = Vec::new();
            arbiter.allocate(&mut allocations);
            order.extend(allocations.iter().map(|allocation| allocation.transfer));
        }
        assert_eq!(order, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn to_ask_twice_is_to_ask_once() {
        let mut arbiter = Arbiter::new(2, 2);
        let demand = |serial, segments| Demand { src: 0, dst: 1, transfer: 5, serial, segments };
        let mut served = |demands: &[Demand]| {
            let mut allocations = Vec::new();
            let taken: Vec<_> = demands.iter().map(|demand| arbiter.demand(demand.clone())).collect();
            assert!(taken[0] && !taken[1..].contains(&true));
            while !arbiter.is_idle() {
                arbiter.allocate(&mut allocations);
            }
            allocations.iter().map(|given| (given.serial, given.segment)).collect::<Vec<_>>()
        };
        assert_eq!(served(&[demand(1, 0..3), demand(1, 1..3)]), [(1, 0), (1, 1), (1, 2)]);
        // The demand waits no longer.
        assert_eq!(served(&[demand(1, 1..2)]), [(1, 1)]);
        assert_eq!(served(&[demand(2, 0..1)]), [(2, 0)]);
    }
}
