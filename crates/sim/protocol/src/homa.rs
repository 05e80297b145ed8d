//! Homa: a receiver-driven low-latency transport protocol using network priorities (Montazeri et al.,
//! SIGCOMM 2018).
//!
//! A transfer sends one round trip's worth of packets unscheduled ("unasked" in the code). Its receiver grants the
//! rest, packet by packet, to the few transfers with the fewest segments left (*overcommitment*, §3.5), each of them
//! at a different priority (§3.4). The priority of unscheduled packets depends only on the size of the transfer, by
//! cutoffs that divide the unscheduled bytes evenly ([`Cutoffs`]).

use crate::receiver_driven::{Grants, LocalScheduler, Scheduler, TransferId};
use crate::turns::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of Homa.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets that a transfer may send without a grant. This is also the number of packets that may be granted beyond
    /// those that have arrived. Default: one bandwidth-delay product (§3.2, RTTbytes).
    pub unscheduled: Option<u32>,
    /// Time without a packet after which a receiver asks again for missing packets. Default: the longer of two times:
    /// three round trips of the empty network; and one round trip plus seven times (once for each rank of data) the
    /// time that the slower links take for all packets that may wait for a receiver, which are `unscheduled` packets
    /// of every node, at most a port's buffer. (§3.7: "a few milliseconds".)
    pub resend: Option<Time>,
}

/// Highest data rank. Data has ranks 1 to 7 of the eight that switches have (§3.4); control packets have the eighth.
pub const RANKS: u8 = 7;

/// Ranks of unscheduled segments, by the size of their transfer (§3.4).
///
/// The cutoffs are recomputed after every 256 transfers announced to a receiver, from all transfers so far. The
/// unscheduled segments get a share of the seven ranks equal to their share of all segments: rounded down, at least
/// one and at most six. Transfer sizes with the same number of bits form a group. The unscheduled segments, ordered by
/// size, are divided evenly among these ranks, and each group gets the rank of its middle segment. Before the first
/// computation three ranks are set aside, and all unscheduled segments have rank 1.
#[derive(Debug, Clone)]
pub struct Cutoffs {
    /// Unscheduled segments of transfers whose size in segments has this many bits.
    unasked: [u64; 33],
    granted: u64,
    /// Transfers until the next recomputation.
    until_next: u32,
    /// Highest rank of unscheduled segments, which use ranks 1 to this one.
    ranks: u8,
    /// Rank by number of bits of a transfer's size.
    rank: [u8; 33],
}

/// Transfers after which the cutoffs are recomputed.
const LOOK_EVERY: u32 = 256;

impl Default for Cutoffs {
    fn default() -> Cutoffs {
        // Nothing is known yet, therefore each kind gets about half of the ranks, and all unscheduled segments rank
        // alike.
        Cutoffs { unasked: [0; 33], granted: 0, until_next: LOOK_EVERY, ranks: RANKS / 2, rank: [1; 33] }
    }
}

fn bits(segments: u32) -> usize {
    (32 - segments.leading_zeros()) as usize
}

impl Cutoffs {
    /// Counts an announced transfer of `segments` segments, of which `unasked` need no grant.
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
    /// segments, with at least one rank for each kind. Sizes are assigned to these ranks so that each rank carries the
    /// same number of segments.
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

    /// Returns the rank of unscheduled segments of a transfer of this size in segments.
    pub fn rank(&self, segments: u32) -> u8 {
        self.rank[bits(segments)].min(self.ranks)
    }
}

/// A receiver's choice of the transfers to grant, and of their priorities.
#[derive(Debug, Clone)]
pub struct Overcommitment {
    pending: Turns,
    cutoffs: Cutoffs,
    /// Packets that may be granted to one transfer beyond what has arrived.
    window: u32,
}

impl Overcommitment {
    /// Creates a scheduler without transfers.
    pub fn new(window: u32) -> Overcommitment {
        Overcommitment { pending: Turns::default(), cutoffs: Cutoffs::default(), window }
    }

    /// Counts an announced transfer of `segments` segments.
    pub fn count(&mut self, segments: u32) {
        self.cutoffs.count(segments, self.window);
    }

    /// Returns the rank of the unscheduled segments of a transfer to this receiver that has `segments` segments.
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
        // §3.5: as many transfers at once as there are priorities for them.
        let degree = usize::from(RANKS - self.cutoffs.ranks);
        let active = self.pending.len().min(degree);
        let (at, transfer) = self
            .pending
            .iter()
            .take(degree)
            .enumerate()
            .find(|(_, transfer)| outstanding(*transfer) < self.window)?;
        // §3.4: the lowest priorities that suffice, so that a new transfer finds a free one above them.
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
        // Two thirds of the bytes are unscheduled; half of those in single packets.
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
        // Half of the seven ranks are left for four transfers: ranks 0 to 3.
        assert_eq!(poll(&receiver, &all), Some((1, 5)));
        all[1].grant();
        receiver.update(1, &mut all[1]);
        assert_eq!(poll(&receiver, &all), Some((3, 7)));
        all[3].grant();
        receiver.update(3, &mut all[3]);
        assert_eq!(poll(&receiver, &all), None, "5 is not among the smallest");
    }
}
