//! Free sections and queue areas of the address space.

use crate::wire::Extent;
use crate::{PAGE, SECTION};
use std::collections::BTreeMap;

/// The address space, and the number of its sections that may be in use.
///
/// The space may be larger than the memory behind it, so that adjacent free sections are found even if the memory is
/// fragmented. Queue areas are smaller than a section, so several of them share a section that is used only for queue
/// areas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sections {
    /// Free runs: index of the first section, and number of sections.
    runs: BTreeMap<u32, u32>,
    free: u32,
    capacity: u32,
    queue_bytes: u64,
    /// Offsets of free queue areas.
    queues: std::collections::BTreeSet<u64>,
}

impl Sections {
    /// Makes a space of `space` sections. The first `first` sections are reserved, and `capacity` sections may be in
    /// use. `queue_bytes` is a whole number of pages, and at most a section.
    pub(super) fn new(first: u32, space: u32, capacity: u32, queue_bytes: u64) -> Sections {
        assert!(queue_bytes.is_multiple_of(PAGE) && (1..=SECTION).contains(&queue_bytes));
        assert!(first < space && capacity <= space - first);
        Sections {
            runs: BTreeMap::from([(first, space - first)]),
            free: capacity,
            capacity,
            queue_bytes,
            queues: Default::default(),
        }
    }

    /// Makes a space without any sections; [`add`](Sections::add) adds them later.
    pub(super) fn empty(queue_bytes: u64) -> Sections {
        assert!(queue_bytes.is_multiple_of(PAGE) && (1..=SECTION).contains(&queue_bytes));
        Sections { runs: BTreeMap::new(), free: 0, capacity: 0, queue_bytes, queues: Default::default() }
    }

    /// Returns the number of sections that can still be leased; they need not be adjacent.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Returns the number of sections that may be in use.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Takes adjacent sections from the first run that is long enough.
    pub(super) fn take(&mut self, sections: u32) -> Option<Extent> {
        if sections == 0 || sections > self.free {
            return None;
        }
        let (&first, _) = self.runs.iter().find(|(_, length)| **length >= sections)?;
        self.cut(first, sections).then(|| extent_of(first, sections))
    }

    /// Takes a given range of sections if all of them are free. Returns whether they were taken.
    pub(super) fn take_at(&mut self, extent: Extent) -> bool {
        let Some((first, sections)) = sections_of(extent) else { return false };
        sections <= self.free && self.cut(first, sections)
    }

    /// Removes sections from the free run that contains them. Returns whether one run contains them all.
    fn cut(&mut self, first: u32, sections: u32) -> bool {
        let Some((&start, &length)) = self.runs.range(..=first).next_back() else { return false };
        let (before, end) = (first - start, start + length);
        if sections > length - before.min(length) {
            return false;
        }
        self.runs.remove(&start);
        if before > 0 {
            self.runs.insert(start, before);
        }
        if first + sections < end {
            self.runs.insert(first + sections, end - first - sections);
        }
        self.free -= sections;
        true
    }

    /// Frees sections that were taken.
    pub(super) fn give(&mut self, extent: Extent) {
        let (first, sections) = sections_of(extent).expect("only whole sections are taken");
        let before = self.runs.range(..first).next_back().map(|(&start, &length)| (start, length));
        let after = self.runs.range(first..).next().map(|(&start, &length)| (start, length));
        assert!(before.is_none_or(|(start, length)| start + length <= first), "given twice");
        assert!(after.is_none_or(|(start, _)| first + sections <= start), "given twice");
        let (mut start, mut end) = (first, first + sections);
        if let Some((s, length)) = before.filter(|(s, length)| s + length == first) {
            self.runs.remove(&s);
            (start, end) = (s, s + length + sections);
        }
        if let Some((s, length)) = after.filter(|(s, _)| *s == first + sections) {
            self.runs.remove(&s);
            end += length;
        }
        self.runs.insert(start, end - start);
        self.free += sections;
    }

    /// Adds free sections that this host has just claimed from those that all hosts share.
    pub(super) fn add(&mut self, first: u32, sections: u32) {
        self.give(extent_of(first, sections));
    }

    /// Adds a section unless it is already free here.
    pub(super) fn add_missing(&mut self, section: u32) {
        let before = self.runs.range(..=section).next_back();
        if before.is_none_or(|(start, length)| start + length <= section) {
            self.add(section, 1);
        }
    }

    /// Removes all free sections, and returns them.
    pub(super) fn remove_free(&mut self) -> Vec<std::ops::Range<u32>> {
        self.free = 0;
        std::mem::take(&mut self.runs).into_iter().map(|(start, length)| start..start + length).collect()
    }

    /// Returns whether a section is divided into queue areas of which at least one is free.
    pub(super) fn has_queues_in(&self, section: u64) -> bool {
        self.queues.range(section..section + SECTION).next().is_some()
    }

    /// Takes a queue area.
    pub(super) fn take_queues(&mut self) -> Option<Extent> {
        if self.queues.is_empty() {
            let section = self.take(1)?;
            self.divide(section.offset);
        }
        let offset = self.queues.pop_first()?;
        Some(Extent { offset, bytes: self.queue_bytes })
    }

    /// Takes a given queue area if it is free. Returns whether it was taken.
    pub(super) fn take_queues_at(&mut self, extent: Extent) -> bool {
        let section = extent.offset / SECTION * SECTION;
        let inside = extent.offset - section;
        if extent.bytes != self.queue_bytes || !inside.is_multiple_of(self.queue_bytes) {
            return false;
        }
        if !self.queues.contains(&extent.offset)
            && inside / self.queue_bytes < SECTION / self.queue_bytes
            && self.take_at(Extent { offset: section, bytes: SECTION })
        {
            self.divide(section);
        }
        self.queues.remove(&extent.offset)
    }

    /// Frees a queue area that was taken. If all areas of its section are free then, the section becomes free as well.
    pub(super) fn give_queues(&mut self, extent: Extent) {
        assert!(extent.bytes == self.queue_bytes && self.queues.insert(extent.offset), "given twice");
        let section = extent.offset / SECTION * SECTION;
        let areas = section..section + SECTION;
        if self.queues.range(areas.clone()).count() as u64 == SECTION / self.queue_bytes {
            self.queues.retain(|area| !areas.contains(area));
            self.give(Extent { offset: section, bytes: SECTION });
        }
    }

    /// Returns the size of a queue area in bytes.
    pub(super) fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }

    fn divide(&mut self, section: u64) {
        self.queues.extend((0..SECTION / self.queue_bytes).map(|area| section + area * self.queue_bytes));
    }
}

fn extent_of(first: u32, sections: u32) -> Extent {
    Extent { offset: first as u64 * SECTION, bytes: sections as u64 * SECTION }
}

/// Returns the first section and the number of sections of an extent, if the extent consists of whole sections.
fn sections_of(extent: Extent) -> Option<(u32, u32)> {
    let whole = extent.offset.is_multiple_of(SECTION) && extent.bytes.is_multiple_of(SECTION);
    let first = u32::try_from(extent.offset / SECTION).ok()?;
    let sections = u32::try_from(extent.bytes / SECTION).ok()?;
    (whole && sections > 0 && first.checked_add(sections).is_some()).then_some((first, sections))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Checks for any order of taking and giving that no section is taken twice, and that the numbers of sections
        /// add up.
        #[test]
        fn no_section_is_lost_or_taken_twice(steps in prop::collection::vec((0u32..6, 0usize..8), 0..200)) {
            let mut sections = Sections::new(1, 40, 20, SECTION / 4);
            let mut held: Vec<Extent> = Vec::new();
            let mut queues: Vec<Extent> = Vec::new();
            for (count, which) in steps {
                match count {
                    0 if !held.is_empty() => sections.give(held.swap_remove(which % held.len())),
                    1 if !queues.is_empty() => sections.give_queues(queues.swap_remove(which % queues.len())),
                    5 => queues.extend(sections.take_queues()),
                    count => held.extend(sections.take(count)),
                }
                let queue_sections: std::collections::BTreeSet<u64> =
                    queues.iter().map(|queue| queue.offset / SECTION).collect();
                let mut all: Vec<Extent> = held.iter().chain(&queues).copied().collect();
                all.sort_by_key(|extent| extent.offset);
                prop_assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
                prop_assert!(all.iter().all(|extent| extent.offset >= SECTION && extent.end() <= 40 * SECTION));
                let used: u64 = held.iter().map(|extent| extent.bytes / SECTION).sum();
                prop_assert_eq!(used + queue_sections.len() as u64 + sections.free() as u64, 20);
            }
            for extent in held {
                sections.give(extent);
            }
            for extent in queues {
                sections.give_queues(extent);
            }
            prop_assert_eq!(sections, Sections::new(1, 40, 20, SECTION / 4));
        }

        /// Compares taking sections at a given place with a simple table: it must succeed if and only if the place is
        /// free.
        #[test]
        fn taking_by_place_agrees(extents in prop::collection::vec((0u64..50, 0u64..5), 0..40)) {
            let mut sections = Sections::new(1, 40, 39, PAGE);
            let mut taken = [false; 64];
            for (first, count) in extents {
                let range = first as usize..(first + count) as usize;
                let fits = count > 0 && first >= 1 && range.end <= 40 && !taken[range.clone()].contains(&true);
                let extent = Extent { offset: first * SECTION, bytes: count * SECTION };
                prop_assert_eq!(sections.take_at(extent), fits);
                if fits {
                    taken[range].fill(true);
                }
            }
            prop_assert_eq!(sections.free() as usize, 39 - taken.iter().filter(|taken| **taken).count());
        }
    }

    #[test]
    fn queue_areas_can_be_taken_by_place() {
        let mut sections = Sections::new(0, 4, 4, SECTION / 2);
        let area = |offset| Extent { offset, bytes: SECTION / 2 };
        assert!(sections.take_queues_at(area(SECTION + SECTION / 2)));
        assert!(!sections.take_queues_at(area(SECTION + SECTION / 2)));
        assert!(!sections.take_queues_at(area(SECTION + 4096)));
        assert!(!sections.take_queues_at(area(9 * SECTION)));
        assert_eq!(sections.take_queues(), Some(area(SECTION)));
        assert_eq!(sections.free(), 3);
    }
}
