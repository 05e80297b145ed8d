//! Scoreboard of a sender (RFC 6675 §3 and §4): records which segments are acknowledged, selectively acknowledged (sacked), lost and
//! retransmitted.

use super::ranges::SequenceRanges;
use super::{Outstanding, Sack};

/// Number of selectively acknowledged segments above a hole that make the hole count as lost (RFC 6675 §2: DupThresh).
const DUP_THRESH: u32 = 3;

#[derive(Debug, Clone, Default)]
pub(super) struct Scoreboard {
    /// RFC 6675 HighACK + 1: every segment with a lower number has arrived.
    una: u32,
    /// RFC 6675 HighData + 1: every segment with a lower number has been sent.
    next: u32,
    /// Segments above `una` that have arrived.
    sacked: SequenceRanges,
    /// Segments with lower numbers that are not acknowledged, selectively or otherwise, count as lost.
    lost_below: u32,
    /// RFC 6675 HighRxt + 1: segments with lower numbers that are neither acknowledged nor sacked have been retransmitted, in order.
    rxt_below: u32,
}

/// Effect of an acknowledgement.
pub(super) struct AckEffect {
    /// Number of segments that the sender did not know to have arrived before this acknowledgement.
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
    /// Returns whether any segment is sent and not acknowledged.
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

    /// Returns the number of segments in flight (RFC 6675 §4: SetPipe ()). A segment that was sent and is neither sacked nor lost counts
    /// once. A segment that was retransmitted and is not sacked counts once more.
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

    /// Applies an acknowledgement (RFC 6675 §4: Update ()). The caller has checked that it acknowledges only segments that were sent.
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

    /// Returns whether no segment is known to have arrived out of order.
    pub(super) fn is_in_order(&self) -> bool {
        self.sacked.is_empty()
    }

    /// Marks as lost all segments below `segment` that are not sacked.
    pub(super) fn lose_below(&mut self, segment: u32) {
        self.lost_below = self.lost_below.max(segment);
    }

    /// Counts all segments in flight as lost, except sacked ones, so that they are sent again.
    // Departure: RFC 2018 §8 discards the selective acknowledgements, because a receiver may drop segments that it has acknowledged
    // selectively. Receivers here never drop them.
    pub(super) fn lose_all(&mut self) {
        self.lost_below = self.next;
        self.rxt_below = self.una;
    }

    /// Returns the next missing segment to retransmit (RFC 6675 §4: NextSeg () rule 1, and rule 3 if `eager`).
    pub(super) fn hole(&self, eager: bool) -> Option<u32> {
        let hole = self.sacked.gap_from(self.rxt_below.max(self.una));
        let limit = if eager { self.lost_below.max(self.sacked.end().unwrap_or(0)) } else { self.lost_below };
        (hole < limit).then_some(hole)
    }

    pub(super) fn note_retransmission(&mut self, segment: u32) {
        self.rxt_below = segment + 1;
    }

    /// Returns the next segment that was never sent, and counts it as sent.
    pub(super) fn send_new(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
