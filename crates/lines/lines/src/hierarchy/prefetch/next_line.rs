//! Next-line prefetcher, which models Intel's DCU prefetcher.
//!
//! According to the manual, it is "triggered by an ascending access to very recently loaded data". In this model, such
//! an access is a load of a line whose preceding line is among the most recently loaded lines.

use super::page::is_same_page;

/// Number of recently loaded lines that the prefetcher stores. Intel's manual does not state this number.
const RECENT: usize = 8;

/// Line number that marks an empty entry. The number after it is not the number of any loaded line.
const NO_LINE: u64 = u64::MAX - 1;

/// Most recently loaded lines.
#[derive(Clone, Debug)]
pub(super) struct NextLine {
    recent: [u64; RECENT],
    oldest: usize,
}

impl NextLine {
    pub(super) fn new() -> NextLine {
        NextLine { recent: [NO_LINE; RECENT], oldest: 0 }
    }

    /// Trains the prefetcher with a load of `line`. Returns the next line if the line before `line` was loaded
    /// recently.
    pub(super) fn loaded(&mut self, line: u64) -> Option<u64> {
        let is_ascending = self.recent.contains(&line.wrapping_sub(1));
        self.recent[self.oldest] = line;
        self.oldest = (self.oldest + 1) % RECENT;
        (is_ascending && is_same_page(line, line + 1)).then_some(line + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_behind_an_ascending_pair_is_asked_for() {
        let mut next_line = NextLine::new();
        let lines = [10, 11, 12, 40, 13, 9, 8];
        let asked = lines.map(|line| next_line.loaded(line));
        assert_eq!(asked, [None, Some(12), Some(13), None, Some(14), None, None]);
    }

    #[test]
    fn the_next_page_is_left() {
        let mut next_line = NextLine::new();
        assert_eq!(
            [61, 62, 63, 64, 65].map(|line| next_line.loaded(line)),
            [None, Some(63), None, Some(65), Some(66)]
        );
    }

    #[test]
    fn a_line_of_long_ago_triggers_nothing() {
        for others in [RECENT - 1, RECENT] {
            let mut next_line = NextLine::new();
            next_line.loaded(1000);
            (0..others as u64).for_each(|line| _ = next_line.loaded(line * 2));
            assert_eq!(next_line.loaded(1001).is_some(), others < RECENT);
        }
    }
}
