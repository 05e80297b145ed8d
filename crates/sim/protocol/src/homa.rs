//! Homa: a receiver-driven low-latency transport protocol using network priorities (Montazeri et al.,
//! SIGCOMM 2018).
//!
//! The sender of a transfer sends the packets of the first round trip without a grant. These packets are called
//! unscheduled ("unasked" in the code). The receiver grants all further packets one by one. It grants to several
//! transfers at the same time, namely those with the fewest segments left (*overcommitment*, §3.5), and gives each of
//! these transfers a different priority (§3.4). The priority of an unscheduled packet depends only on the size of its
//! transfer. Cutoffs between sizes divide the unscheduled bytes evenly among the priorities ([`Cutoffs`]).

use crate::receiver_driven::{Grants, LocalScheduler, Scheduler, TransferId};
use crate::turns::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of Homa.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of packets that the sender of a transfer may send without a grant. This is also the maximum number of
    /// packets of a transfer that are granted but have not arrived. Default: one bandwidth-delay product (§3.2,
    /// RTTbytes).
    pub unscheduled: Option<u32>,
    /// Time without a packet of a transfer after which the receiver asks the sender again for the missing packets.
    /// Default: the longer of two times. One is three round trips of the empty network. The other is one round trip
    /// plus seven times the time W, because data has seven ranks. W is the time that the slower kind of link takes for
    /// all packets that may wait for one receiver: `unscheduled` packets of every node, but at most a port's buffer.
    /// (§3.7: "a few milliseconds".)
    pub resend: Option<Time>,
}

/// Number of priority ranks for data. Switches have eight ranks (§3.4). Data has ranks 1 to 7, where 1 goes first, and
/// control packets have the eighth rank.
pub const RANKS: u8 = 7;

/// Priority ranks of unscheduled segments, which depend on the size of their transfer (§3.4).
///
/// A receiver recomputes its cutoffs after every 256 transfers that are announced to it, from all transfers so far.
/// Unscheduled segments get a share of the seven ranks that equals their share of all segments, rounded down, but at
/// least one rank and at most six. Transfers whose sizes have the same number of bits form a group. The unscheduled
/// segments of all groups, ordered by the size of their transfers, are divided evenly among the ranks for unscheduled
/// segments, and each group gets the rank of its middle segment. Before the first computation, three ranks are reserved
/// for unscheduled segments, but all unscheduled segments have rank 1.
#[derive(Debug, Clone)]
pub struct Cutoffs {
    /// Number of unscheduled segments so far, indexed by the number of bits of their transfer's size in segments.
    unasked: [u64; 33],
    granted: u64,
    /// Number of transfers until the next recomputation of the cutoffs.
    until_next: u32,
    /// Number of ranks for unscheduled segments, which use ranks 1 to this number.
    ranks: u8,
    /// Rank of unscheduled segments, indexed by the number of bits of their transfer's size in segments.
    rank: [u8; 33],
}

/// Number of transfers after which a receiver recomputes its cutoffs.
const LOOK_EVERY: u32 = 256;

impl Default for Cutoffs {
    fn default() -> Cutoffs {
        // The sizes of transfers are not known yet. Therefore unscheduled and granted segments get about half of the
        // ranks each, and all unscheduled segments have the same rank.
        Cutoffs { unasked: [0; 33], granted: 0, until_next: LOOK_EVERY, ranks: RANKS / 2, rank: [1; 33] }
    }
}

fn bits(segments: u32) -> usize {
    (32 - segments.leading_zeros()) as usize
}

impl Cutoffs {
    /// Counts an announced transfer of `segments` segments. The first `unasked` of these segments need no grant.
    pub fn count(&mut self, segments: u32, unasked: u32) {
        self.unasked[bits(segments)] += u64::from(unasked.min(segments));
        self.granted += u64::from(segments.saturating_sub(unasked));
        self.until_next -= 1;
        if self.until_next == 0 {
            self.until_next = LOOK_EVERY;
            self.set();
        }
    }

    /// Recomputes the cutoffs. The number of ranks for unscheduled segments is proportional to their share of all
    /// segments, but unscheduled and granted segments have at least one rank each. Transfer sizes are assigned to the
    /// ranks for unscheduled segments so that each of these ranks carries about the same number of segments.
    fn set(&mut self) {
        let unasked: u64 = self.unasked.iter().sum();
        let share = unasked * u64::from(RANKS) / (unasked + self.granted).max(1);
        self.ranks = (share as u8).clamp(1, RANKS - 1);
        let mut before = 0;
        for (bits, segments) in self.unasked.iter().enumerate() {
            let middle = before + segments / 2;
            self.rank[bits] = 1 + (middle * u64::from(self.ranks) / unasked.max(1)) as u8;
            before += segments;
        }
    }

    /// Returns the rank of the unscheduled segments of a transfer that has `segments` segments.
    pub fn rank(&self, segments: u32) -> u8 {
        self.rank[bits(segments)].min(self.ranks)
    }
}

/// Scheduler of one receiver, which chooses the transfers to grant and the priorities of their segments.
#[derive(Debug, Clone)]
pub struct Overcommitment {
    pending: Turns,
    cutoffs: Cutoffs,
    /// Maximum number of packets of one transfer that are granted, or need no grant, but have not arrived.
    window: u32,
}

impl Overcommitment {
    /// Creates the scheduler of a receiver that has no transfers yet. `window` is the maximum number of outstanding
    /// packets of one transfer.
    pub fn new(window: u32) -> Overcommitment {
        Overcommitment { pending: Turns::default(), cutoffs: Cutoffs::default(), window }
    }

    /// Counts a transfer of `segments` segments that was announced to this receiver, for the computation of the cutoffs.
    pub fn count(&mut self, segments: u32) {
        self.cutoffs.count(segments, self.window);
    }

    /// Returns the rank of the unscheduled segments of a transfer of `segments` segments to this receiver.
    pub fn unasked_rank(&self, segments: u32) -> u8 {
        self.cutoffs.rank(segments)
    }
}

impl Scheduler for Overcommitment {
    fn could_grant(&self, grants: &Grants) -> bool {
        grants.is_pending() && grants.outstanding() < self.window
    }

    fn granted(&mut self, _now: Time, _pace: Time) {}

    fn next(&self) -> Option<Time> {
        None
    }
}

impl LocalScheduler for Overcommitment {
    fn update(&mut self, transfer: TransferId, grants: &mut Grants) {
        let size = grants.size();
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(&self, _now: Time, outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)> {
        // §3.5: the number of transfers that the receiver grants to at once is the number of priority ranks for granted
        // segments.
        let degree = usize::from(RANKS - self.cutoffs.ranks);
        let active = self.pending.len().min(degree);
        let (at, transfer) = self
            .pending
            .iter()
            .take(degree)
            .enumerate()
            .find(|(_, transfer)| outstanding(*transfer) < self.window)?;
        // §3.4: granted transfers use the lowest priorities that suffice, so that a free priority above them remains
        // for a new transfer.
        Some((transfer, RANKS - (active - 1 - at) as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unasked_bytes_are_shared_out_evenly() {
        let mut cutoffs = Cutoffs::default();
        assert_eq!((cutoffs.rank(1), cutoffs.rank(1000)), (1, 1));
        // About two thirds of all segments are unscheduled. Half of the unscheduled segments belong to transfers of one
        // segment.
        for n in 0..LOOK_EVERY {
            cutoffs.count(if n % 16 == 0 { 31 } else { 1 }, 15);
        }
        assert_eq!(cutoffs.ranks, 4);
        assert_eq!((cutoffs.rank(1), cutoffs.rank(31)), (2, 4));
    }

    #[test]
    fn the_smallest_few_are_granted_at_ranks_of_their_own() {
        let mut receiver = Overcommitment::new(2);
        let mut all: Vec<_> = (0..6).map(|n| Grants::new(10 + n, 2, n, (n, 64))).collect();
        for (n, grants) in all.iter_mut().enumerate() {
            receiver.update(n as u32, grants);
        }
        let poll = |receiver: &Overcommitment, all: &[Grants]| {
            receiver.poll(Time::ZERO, |transfer| all[transfer as usize].outstanding())
        };
        assert_eq!(poll(&receiver, &all), None, "all are on their way");
        for n in [5, 3, 1] {
            all[n].arrive(0);
            receiver.update(n as u32, &mut all[n]);
        }
        // Three of the seven ranks are for unscheduled segments. Ranks 4 to 7 remain for granted segments, so that the
        // receiver grants to four transfers at once.
        assert_eq!(poll(&receiver, &all), Some((1, 5)));
        all[1].grant();
        receiver.update(1, &mut all[1]);
        assert_eq!(poll(&receiver, &all), Some((3, 7)));
        all[3].grant();
        receiver.update(3, &mut all[3]);
        assert_eq!(poll(&receiver, &all), None, "5 is not among the smallest");
    }
}
