//! Support for a host with lines to two mirrored switches (§3.3): sets of lines, and detection of which copy arrives first if the same data
//! arrives over both lines.

/// Maximum number of lines of a host. A host has one line to the only switch, or one line to each of two switches.
pub(super) const MOST: usize = 2;

/// A set of a host's lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineSet(u8);

impl LineSet {
    /// Returns the first `count` lines.
    pub(super) fn first(count: usize) -> LineSet {
        LineSet((1 << count) - 1)
    }

    /// Returns whether the set has this line.
    pub(super) fn has(self, line: usize) -> bool {
        self.0 >> line & 1 == 1
    }

    /// Returns whether the set has no line.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: usize) {
        self.0 |= 1 << line;
    }

    /// Removes a line.
    pub(super) fn remove(&mut self, line: usize) {
        self.0 &= !(1 << line);
    }

    /// Returns the lines of this set that are not in `others`.
    pub(super) fn without(self, others: LineSet) -> LineSet {
        LineSet(self.0 & !others.0)
    }

    /// Returns the lines in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |line| self.has(*line))
    }
}

impl FromIterator<usize> for LineSet {
    fn from_iter<T: IntoIterator<Item = usize>>(lines: T) -> LineSet {
        LineSet(lines.into_iter().fold(0, |set, line| set | 1 << line))
    }
}

/// For each line, the number of bytes of a message that have arrived over it. This number identifies the bytes, because each line delivers
/// the message in order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Copies {
    came: [usize; MOST],
    taken: usize,
}

impl Copies {
    /// Records that `bytes` more bytes of the message have arrived over `line`. Returns the number of bytes at the end of these that have
    /// not arrived over the other line before.
    pub(super) fn take(&mut self, line: usize, bytes: usize) -> usize {
        self.came[line] += bytes;
        let new = self.came[line].saturating_sub(self.taken);
        self.taken += new;
        new
    }
}

/// Age of a message relative to the newest message so far with the same place in the sender's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotRelation {
    Newer,
    Same,
    Older,
}

impl SlotRelation {
    /// Compares the use counts of two messages with the same place. The message ids contain only the low `bits` bits of these counts.
    pub(super) fn compare(uses: u8, before: u8, bits: u32) -> SlotRelation {
        let ahead = uses.wrapping_sub(before) & ((1 << bits) - 1);
        match ahead {
            0 => SlotRelation::Same,
            _ if ahead < 1 << (bits - 1) => SlotRelation::Newer,
            _ => SlotRelation::Older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_once() {
        let mut copies = Copies::default();
        let new: Vec<usize> = [(0, 256), (1, 256), (1, 256), (0, 256), (0, 44), (1, 44)]
            .into_iter()
            .map(|(line, bytes)| copies.take(line, bytes))
            .collect();
        assert_eq!(new, [256, 0, 256, 0, 44, 0]);
    }

    #[test]
    fn uses_wrap() {
        assert_eq!(SlotRelation::compare(0, 63, 6), SlotRelation::Newer);
        assert_eq!(SlotRelation::compare(63, 0, 6), SlotRelation::Older);
        assert_eq!(SlotRelation::compare(5, 5, 6), SlotRelation::Same);
        assert_eq!(SlotRelation::compare(3, 1, 2), SlotRelation::Older);
    }
}
