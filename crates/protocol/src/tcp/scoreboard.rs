//! What the sender knows about its segments: acknowledged, selectively acknowledged, lost,
//! retransmitted (RFC 6675 §3 and §4).

use super::ranges::Ranges;
use super::{Outstanding, Sack};

/// Segments selectively acknowledged above a hole before the hole counts as lost
/// (RFC 6675 §2: DupThresh).
const DUP_THRESH: u32 = 3;

#[derive(Debug, Clone, Default)]
pub(super) struct Scoreboard {
    /// RFC 6675 HighACK + 1: everything below has arrived.
    una: u32,
    /// RFC 6675 HighData + 1: everything below has been sent.
    next: u32,
    /// Arrived above `una`.
    sacked: Ranges,
    /// What is below and not sacked is lost.
    lost_below: u32,
    /// RFC 6675 HighRxt + 1: what is below and not sacked has been retransmitted, in order.
    rxt_below: u32,
}

/// What an acknowledgement brought.
pub(super) struct Progress {
    /// Segments now known to have arrived that were not before.
    pub delivered: u32,
    /// `una` moved.
    pub advanced: bool,
}

impl Scoreboard {
    pub(super) fn una(&self) -> u32 {
        self.una
    }
    pub(super) fn next(&self) -> u32 {
        self.next
    }
    /// Something is sent and not acknowledged.
    pub(super) fn outstanding(&self) -> bool {
        self.una < self.next
    }
    pub(super) fn all_sent(&self) -> Outstanding {
        Outstanding { una: self.una, next: self.next }
    }
    /// RFC 6675 §4: IsLost (una).
    pub(super) fn first_is_lost(&self) -> bool {
        self.lost_below > self.una
    }

    /// RFC 6675 §4: SetPipe (). Sent, neither sacked nor lost; and retransmitted, not sacked.
    pub(super) fn pipe(&self) -> u32 {
        if self.sacked.is_empty() {
            return self.next - self.lost_below.max(self.una) + self.rxt_below.saturating_sub(self.una);
        }
        self.unsacked(self.lost_below, self.next) + self.unsacked(self.una, self.rxt_below)
    }

    fn unsacked(&self, from: u32, to: u32) -> u32 {
        let from = from.max(self.una);
        if from >= to {
            return 0;
        }
        (to - from) - (self.sacked.count_below(to) - self.sacked.count_below(from))
    }

    /// RFC 6675 §4: Update (). The caller has checked that the acknowledgement is for data sent.
    pub(super) fn update(&mut self, next: u32, sack: &Sack) -> Progress {
        let advanced = next > self.una;
        let mut delivered = 0;
        if advanced {
            delivered = self.unsacked(self.una, next);
            self.una = next;
            if !self.sacked.is_empty() {
                self.sacked.remove_below(next);
            }
        }
        if !sack.is_empty() {
            for block in sack.blocks() {
                let known = block.start.max(self.una)..block.end.min(self.next);
                delivered += self.sacked.insert(known);
            }
            self.mark_lost();
        }
        Progress { delivered, advanced }
    }

    /// RFC 6675 §4: IsLost: DupThresh segments above have been sacked.
    fn mark_lost(&mut self) {
        if let Some(third) = self.sacked.nth_from_top(DUP_THRESH) {
            self.lost_below = self.lost_below.max(third);
        }
    }

    /// Nothing has arrived beyond a hole.
    pub(super) fn is_in_order(&self) -> bool {
        self.sacked.is_empty()
    }

    /// What is below and not sacked is lost.
    pub(super) fn lose_below(&mut self, segment: u32) {
        self.lost_below = self.lost_below.max(segment);
    }

    /// Everything outstanding is presumed lost and may be sent again, except what is sacked.
    // Departure: RFC 2018 §8 forgets the sacks, because a receiver may drop what it has sacked; ours
    // never does.
    pub(super) fn lose_all(&mut self) {
        self.lost_below = self.next;
        self.rxt_below = self.una;
    }

    /// RFC 6675 §4: NextSeg () rule 1, and rule 3 if `eager`: the next hole to fill.
    pub(super) fn hole(&self, eager: bool) -> Option<u32> {
        let hole = self.sacked.gap_from(self.rxt_below.max(self.una));
        let limit = if eager { self.lost_below.max(self.sacked.end().unwrap_or(0)) } else { self.lost_below };
        (hole < limit).then_some(hole)
    }

    pub(super) fn note_retransmission(&mut self, segment: u32) {
        self.rxt_below = segment + 1;
    }

    /// A segment never sent before.
    pub(super) fn send_new(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
