//! Fastpass: a centralized "zero-queue" datacenter network (Perry et al., SIGCOMM 2014).
//!
//! Nodes ask an arbiter for every packet that they want to send. The arbiter assigns a timeslot to each packet so that
//! no link is promised twice (§3). [`Arbiter`] computes that matching; the caller exchanges the messages. A timeslot
//! belongs to a source and a destination; the source chooses which packet to send in it.
//!
//! Demands are idempotent (§4: in the Fastpass control protocol, demands are totals). While a demand of a transfer
//! waits, the arbiter therefore takes no second one. Otherwise, nodes that ask again would get slots that they cannot
//! use, so that all nodes would wait longer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use unrack_units::{Rate, Time};

/// Order in which an arbiter serves demands (§3.2 to §3.4: the policy is the allocator's order of demands).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The demand whose last timeslot was the longest ago goes first: max-min fairness.
    #[default]
    MaxMin,
    /// The demand that came first goes first, until all of it is served.
    Fcfs,
    /// The demand with the fewest segments left goes first: least mean completion time.
    Shortest,
}

/// Parameters of Fastpass.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Rate of the arbiter's link. Default 100 Gb/s (EDM §4.3).
    pub arbiter_rate: Rate,
    /// Time that the arbiter takes to serve one demand. Demands are served one after the other. Default 0: "infinitely
    /// fast" (EDM §4.3).
    pub processing: Time,
    /// Timeslots that are matched in one batch, at most 64. Default 8 (§3.3: the batch of an allocator).
    pub batch: u32,
    /// Order in which demands are served: `max-min`, `fcfs` or `shortest`. Default `max-min` (§3.2).
    #[schemars(extend("x-unhashed" = "default"))]
    pub policy: Policy,
    /// Whether messages for the same destination that are smaller than a timeslot share one, as far as they fit.
    /// Default `true`, as in the authors' kernel module. With `false`, each message takes a whole timeslot.
    #[schemars(extend("x-unhashed" = "default"))]
    pub packing: bool,
    /// Silence after which a source asks again for the first time. Default: three round trips of the empty network,
    /// plus the time to ask the arbiter, the time of two batches, and the time for the answer.
    pub timeout: Option<Time>,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            arbiter_rate: Rate::from_gbps(100),
            processing: Time::ZERO,
            batch: 8,
            policy: Policy::default(),
            packing: true,
            timeout: None,
        }
    }
}

/// Request for timeslots, by the number of segments of a transfer that are to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub src: u32,
    pub dst: u32,
    pub transfer: u32,
    /// Serial number, never 0. It distinguishes the transfer from earlier ones with the same transfer number, which
    /// may be reused only when no demand of its former transfer waits.
    pub serial: u32,
    pub slots: u32,
}

/// Assignment of a timeslot to a transfer, counted from the first of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub src: u32,
    pub transfer: u32,
    pub serial: u32,
    pub slot: u32,
    /// Whether this is the last slot of the demand.
    pub last: bool,
}

/// Matches sources and destinations, one batch of timeslots after the other.
#[derive(Debug, Clone)]
pub struct Arbiter {
    backlog: VecDeque<Demand>,
    /// Serial number of each transfer's demand in the backlog, indexed by transfer; 0 if there is none.
    waiting: Vec<u32>,
    batch: u32,
    policy: Policy,
    /// Slots of the batch in which each node sends, one bit per slot; and in which it receives.
    sends: Vec<u64>,
    receives: Vec<u64>,
}

impl Arbiter {
    /// Creates an arbiter for `nodes` nodes, with batches of `batch` slots: 1 to 64.
    pub fn new(nodes: u32, batch: u32, policy: Policy) -> Arbiter {
        let (backlog, waiting, none) = (VecDeque::new(), Vec::new(), vec![0; nodes as usize]);
        Arbiter { backlog, waiting, batch, policy, sends: none.clone(), receives: none }
    }

    /// Adds a demand of one slot or more. Returns whether it was taken, which is not the case if a demand of the same
    /// transfer waits.
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

    /// Allocates the slots of the next batch. Each slot gets a maximal matching, with demands in the order of the
    /// policy.
    pub fn allocate(&mut self, allocations: &mut Vec<Allocation>) {
        let all = if self.batch >= 64 { u64::MAX } else { (1 << self.batch) - 1 };
        self.sends.fill(0);
        self.receives.fill(0);
        // A demand that found no slot in this batch will find none later in it.
        let mut candidates = std::mem::take(&mut self.backlog);
        if self.policy == Policy::Shortest {
            // The sort is stable: among equals, the demand that came first stays first.
            candidates.make_contiguous().sort_by_key(|demand| demand.slots);
        }
        let mut without = VecDeque::new();
        while let Some(mut demand) = candidates.pop_front() {
            let (sends, receives) =
                (&mut self.sends[demand.src as usize], &mut self.receives[demand.dst as usize]);
            let free = all & !(*sends | *receives);
            if free == 0 {
                without.push_back(demand);
                continue;
            }
            demand.slots -= 1;
            let slot = free.trailing_zeros();
            *sends |= 1 << slot;
            *receives |= 1 << slot;
            let Demand { src, transfer, serial, .. } = demand;
            let last = demand.slots == 0;
            allocations.push(Allocation { src, transfer, serial, slot, last });
            match self.policy {
                _ if last => self.waiting[transfer as usize] = 0,
                Policy::MaxMin => candidates.push_back(demand),
                Policy::Fcfs | Policy::Shortest => candidates.push_front(demand),
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
        /// No node sends or receives two packets in a slot. No slot stays unused if two nodes with a demand both had
        /// it free. Every segment is served once.
        #[test]
        fn every_batch_is_a_maximal_matching(
            batch in 1u32..65,
            policy in prop::sample::select(vec![Policy::MaxMin, Policy::Fcfs, Policy::Shortest]),
            drawn in prop::collection::vec((0u32..6, 0u32..6, 1u32..30), 1..40),
        ) {
            let mut arbiter = Arbiter::new(6, batch, policy);
            let mut left = vec![0; drawn.len()];
            for (n, (src, dst, count)) in drawn.iter().enumerate() {
                let (src, dst, transfer, slots) = (*src, *dst, n as u32, *count);
                let taken = arbiter.demand(Demand { src, dst, transfer, serial: 1, slots });
                prop_assert!(taken);
                left[n] = *count;
            }
            while !arbiter.is_idle() {
                let mut allocations = Vec::new();
                arbiter.allocate(&mut allocations);
                prop_assert!(!allocations.is_empty());
                let (mut sends, mut receives) = (vec![0u64; 6], vec![0u64; 6]);
                for Allocation { src, transfer, slot, last, .. } in allocations {
                    let (from, to, _) = drawn[transfer as usize];
                    prop_assert!(src == from && slot < batch && left[transfer as usize] > 0);
                    left[transfer as usize] -= 1;
                    prop_assert_eq!(last, left[transfer as usize] == 0);
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
    fn the_policy_is_the_order_of_demands() {
        let order = |policy| {
            let mut arbiter = Arbiter::new(3, 2, policy);
            arbiter.demand(Demand { src: 0, dst: 2, transfer: 0, serial: 1, slots: 4 });
            arbiter.demand(Demand { src: 1, dst: 2, transfer: 1, serial: 2, slots: 2 });
            let mut order = Vec::new();
            while !arbiter.is_idle() {
                let mut allocations = Vec::new();
                arbiter.allocate(&mut allocations);
                allocations.sort_by_key(|allocation| allocation.slot);
                order.extend(allocations.iter().map(|allocation| allocation.transfer));
            }
            order
        };
        assert_eq!(order(Policy::MaxMin), [0, 1, 0, 1, 0, 0]);
        assert_eq!(order(Policy::Fcfs), [0, 0, 0, 0, 1, 1]);
        assert_eq!(order(Policy::Shortest), [1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn to_ask_twice_is_to_ask_once() {
        let mut arbiter = Arbiter::new(2, 2, Policy::MaxMin);
        let demand = |serial, slots| Demand { src: 0, dst: 1, transfer: 5, serial, slots };
        let mut served = |demands: &[Demand]| {
            let mut allocations = Vec::new();
            let taken: Vec<_> = demands.iter().map(|demand| arbiter.demand(demand.clone())).collect();
            assert!(taken[0] && !taken[1..].contains(&true));
            while !arbiter.is_idle() {
                arbiter.allocate(&mut allocations);
            }
            allocations.iter().map(|given| given.serial).collect::<Vec<_>>()
        };
        assert_eq!(served(&[demand(1, 3), demand(1, 2)]), [1, 1, 1]);
        // The demand does not wait any more.
        assert_eq!(served(&[demand(1, 1)]), [1]);
        assert_eq!(served(&[demand(2, 1)]), [2]);
    }
}
