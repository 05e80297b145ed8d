//! Scoreboard of a sender's segments: acknowledged, selectively acknowledged, lost, retransmitted (RFC 6675 §3 and §4).

use super::ranges::SequenceRanges;
use super::{Outstanding, Sack};

/// Segments selectively acknowledged above a hole before the hole counts as lost (RFC 6675 §2: DupThresh).
const DUP_THRESH: u32 = 3;

#[derive(Debug, Clone, Default)]
pub(super) struct Scoreboard {
    /// RFC 6675 HighACK + 1: every segment below has arrived.
    una: u32,
    /// RFC 6675 HighData + 1: every segment below has been sent.
    next: u32,
    /// Segments above `una` that have arrived.
    sacked: SequenceRanges,
    /// Segments below this one that are not sacked count as lost.
    lost_below: u32,
    /// RFC 6675 HighRxt + 1: segments below that are not sacked have been retransmitted, in order.
    rxt_below: u32,
}

/// Effect of an acknowledgement.
pub(super) struct AckEffect {
    /// Segments now known to have arrived that were not before.
    pub delivered: u32,
    /// Whether `una` moved.
    pub advanced: bool,
}

impl Scoreboard {
    pub(super) fn una(&self) -> u32 {
        self.una
    }
    pub(super) fn next(&self) -> u32 {
        self.next
    }
    /// Returns whether a segment is sent and not acknowledged.
    pub(super) fn outstanding(&self) -> bool {
        self.una < self.next
    }
    pub(super) fn all_sent(&self) -> Outstanding {
        Outstanding { una: self.una, next: self.next }
    }
    /// Returns whether the first outstanding segment is lost. RFC 6675 §4: IsLost (una).
    pub(super) fn first_is_lost(&self) -> bool {
        self.lost_below > self.una
    }

    /// Returns the segments in flight. RFC 6675 §4: SetPipe (). Sent, neither sacked nor lost; and retransmitted, not
    /// sacked.
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

    /// Applies an acknowledgement of data that was sent, which the caller has checked. RFC 6675 §4: Update ().
    pub(super) fn update(&mut self, next: u32, sack: &Sack) -> AckEffect {
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
        AckEffect { delivered, advanced }
    }

    /// Marks a segment as lost if DupThresh segments above it are sacked. RFC 6675 §4: IsLost.
    fn mark_lost(&mut self) {
        if let Some(third) = self.sacked.nth_from_top(DUP_THRESH) {
            self.lost_below = self.lost_below.max(third);
        }
    }

    /// Returns whether no segment has arrived beyond a hole.
    pub(super) fn is_in_order(&self) -> bool {
        self.sacked.is_empty()
    }

    /// Marks as lost all segments below `segment` that are not sacked.
    pub(super) fn lose_below(&mut self, segment: u32) {
        self.lost_below = self.lost_below.max(segment);
    }

    /// Presumes all outstanding segments lost, except sacked ones; they may be sent again.
    // Departure: RFC 2018 §8 forgets the sacks, because a receiver may drop what it has sacked; receivers here never
    // do.
    pub(super) fn lose_all(&mut self) {
        self.lost_below = self.next;
        self.rxt_below = self.una;
    }

    /// Returns the next hole to fill. RFC 6675 §4: NextSeg () rule 1, and rule 3 if `eager`.
    pub(super) fn hole(&self, eager: bool) -> Option<u32> {
        let hole = self.sacked.gap_from(self.rxt_below.max(self.una));
        let limit = if eager { self.lost_below.max(self.sacked.end().unwrap_or(0)) } else { self.lost_below };
        (hole < limit).then_some(hole)
    }

    pub(super) fn note_retransmission(&mut self, segment: u32) {
        self.rxt_below = segment + 1;
    }

    /// Counts a segment never sent before as sent, and returns it.
    pub(super) fn send_new(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
