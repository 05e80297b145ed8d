//! Fastpass: a centralized "zero-queue" datacenter network (Perry et al., SIGCOMM 2014).
//!
//! Nodes ask a central arbiter for timeslots for the packets that they want to send. The arbiter assigns timeslots to
//! pairs of source and destination so that no node sends, and no node receives, more than one packet in a timeslot
//! (§3). [`Arbiter`] computes this matching, and its driver carries the messages between nodes and arbiter. The source
//! of an assigned timeslot chooses which packet for the destination to send in it.
//!
//! Demands are idempotent (§4: in the Fastpass control protocol, demands are totals). Therefore the arbiter ignores a
//! second demand of a transfer while the first one waits. Otherwise a node that repeats a demand, because no answer has
//! come, would get timeslots that it cannot use, so that all nodes would wait longer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use unrack_units::{Rate, Time};

/// Order in which an arbiter serves demands. (In §3.2 to §3.4 of the paper, the order in which the allocator processes
/// demands is its policy.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The demand that has waited longest since its last timeslot goes first. This gives max-min fairness.
    #[default]
    MaxMin,
    /// The demand that arrived first goes first, until it has all its timeslots.
    Fcfs,
    /// The demand with the fewest segments left goes first. This minimizes the mean completion time.
    Shortest,
}

/// Parameters of Fastpass.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Rate of the link between the arbiter and the network. Default 100 Gb/s (EDM §4.3).
    pub arbiter_rate: Rate,
    /// Time that the arbiter takes to process one demand. The arbiter processes demands one after the other. Default 0:
    /// "infinitely fast" (EDM §4.3).
    pub processing: Time,
    /// Number of timeslots that the arbiter matches in one batch, at most 64. Default 8 (§3.3: the batch of an
    /// allocator).
    pub batch: u32,
    /// Order in which the arbiter serves demands: `max-min`, `fcfs` or `shortest`. Default `max-min` (§3.2).
    #[schemars(extend("x-unhashed" = "default"))]
    pub policy: Policy,
    /// Whether several small messages from one source to one destination share a timeslot, as far as they fit into it.
    /// Default `true`, as in the authors' kernel module. With `false`, each message takes at least one whole timeslot.
    #[schemars(extend("x-unhashed" = "default"))]
    pub packing: bool,
    /// Time without an answer from the arbiter after which a source repeats its demand for the first time. Default: the
    /// sum of three round trips of the empty network, the time for a demand to reach the arbiter, the time of two
    /// batches, and the time for the arbiter's answer to reach the source.
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

/// Request of a source for timeslots, one for each segment of a transfer that it has to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub src: u32,
    pub dst: u32,
    pub transfer: u32,
    /// Serial number of the transfer, never 0. It distinguishes the transfer from earlier transfers with the same
    /// number in `transfer`. The driver may reuse a transfer number only when the arbiter has no waiting demand of the
    /// former transfer.
    pub serial: u32,
    pub slots: u32,
}

/// Assignment of one timeslot to a transfer. Timeslots are counted from 0 in each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub src: u32,
    pub transfer: u32,
    pub serial: u32,
    pub slot: u32,
    /// Whether this is the last timeslot of the transfer's demand.
    pub last: bool,
}

/// The arbiter, which matches sources and destinations for one batch of timeslots after the other.
#[derive(Debug, Clone)]
pub struct Arbiter {
    backlog: VecDeque<Demand>,
    /// For each transfer number, the serial number of the transfer's demand in the backlog; 0 if the backlog has none.
    waiting: Vec<u32>,
    batch: u32,
    policy: Policy,
    /// For each node, the timeslots of the current batch in which the node sends, with one bit per slot. `receives` has
    /// the slots in which the node receives.
    sends: Vec<u64>,
    receives: Vec<u64>,
}

impl Arbiter {
    /// Creates an arbiter for `nodes` nodes, which matches timeslots in batches of `batch` slots, 1 to 64.
    pub fn new(nodes: u32, batch: u32, policy: Policy) -> Arbiter {
        let (backlog, waiting, none) = (VecDeque::new(), Vec::new(), vec![0; nodes as usize]);
        Arbiter { backlog, waiting, batch, policy, sends: none.clone(), receives: none }
    }

    /// Adds a demand, which must ask for at least one timeslot. Returns whether the arbiter has accepted the demand. It
    /// ignores the demand if an earlier demand of the same transfer waits.
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

    /// Returns whether no demand waits for timeslots.
    pub fn is_idle(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Assigns the timeslots of the next batch, and adds the assignments to `allocations`. Each slot gets a maximal
    /// matching of sources and destinations, because the arbiter serves the demands in the order of the policy, and
    /// gives each of them the first slot in which its source and its destination are free.
    pub fn allocate(&mut self, allocations: &mut Vec<Allocation>) {
        let all = if self.batch >= 64 { u64::MAX } else { (1 << self.batch) - 1 };
        self.sends.fill(0);
        self.receives.fill(0);
        // A demand that finds no free slot in this batch is set aside: slots of the batch only become taken, never
        // free.
        let mut candidates = std::mem::take(&mut self.backlog);
        if self.policy == Policy::Shortest {
            // The sort is stable: among demands with the same number of slots, the one that arrived first stays first.
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
        /// In each slot, a node sends at most one packet and receives at most one. If a demand still waits after a
        /// batch, every slot of the batch was taken at its source or at its destination. Every segment gets exactly one
        /// slot.
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
        // The first demand does not wait any more, so that the arbiter accepts a new one of the same transfer.
        assert_eq!(served(&[demand(1, 1)]), [1]);
        assert_eq!(served(&[demand(2, 1)]), [2]);
    }
}
