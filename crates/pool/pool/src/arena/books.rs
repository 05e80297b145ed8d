//! Segments that an arena holds, and the free ones among their sections.

use super::Shares;
use super::classes::CLASSES;
use super::section::Section;
use super::table::Table;
use crate::SECTION;
use crate::client::{Client, Error, Grantee, Segment};
use crate::wire::{Access, Denied};
use std::collections::{BTreeMap, BTreeSet};

/// Record of an arena's segments and sections; locked by the arena.
pub(super) struct Books {
    /// Segments, keyed by their offset in the pool.
    segments: BTreeMap<u64, Held>,
    shares: Shares,
    /// Offsets of sections with free buffers, by class; without the section that each class currently takes from.
    partial: [BTreeSet<u64>; CLASSES],
    /// Most sections that are leased at a time for small buffers.
    region: u32,
    held: u32,
    free: u32,
    /// Sections that are kept free at least, once they were leased.
    spare: u32,
}

struct Held {
    segment: Segment,
    /// True for each section of the segment that is free.
    free: Vec<bool>,
}

impl Books {
    /// Makes empty books; `region` is the most sections that are leased at a time for small buffers.
    pub(super) fn new(region: u32) -> Books {
        Books {
            segments: BTreeMap::new(),
            shares: Vec::new(),
            partial: [const { BTreeSet::new() }; CLASSES],
            region,
            held: 0,
            free: 0,
            spare: region,
        }
    }

    /// Takes `count` adjacent free sections and returns the offset of the first, if some segment has them.
    pub(super) fn take_sections(&mut self, count: u32) -> Option<u64> {
        if count > self.free {
            return None;
        }
        let (held, first) =
            self.segments.values_mut().find_map(|held| held.run(count).map(|first| (held, first)))?;
        held.free[first..first + count as usize].fill(false);
        self.free -= count;
        Some(held.segment.extent().offset + first as u64 * SECTION)
    }

    /// Takes `count` adjacent sections, from a newly leased segment if need be. The lease is larger than needed
    /// if much is held already.
    pub(super) fn take_sections_or_lease(&mut self, count: u32, client: &Client) -> Result<u64, Error> {
        if let Some(offset) = self.take_sections(count) {
            return Ok(offset);
        }
        // Half of the sections held, so that the number of segments grows with the logarithm of what they hold.
        let more = count.max((self.held / 2).min(self.region));
        let is_full = |leased: &Result<Segment, Error>| {
            matches!(leased, Err(Error::Denied(Denied::Full { .. } | Denied::Quota { .. })))
        };
        let mut leased = client.lease(more);
        if is_full(&leased) && self.spare > self.region {
            // What is kept may be in pieces that are too short.
            self.give_back_above(self.region);
            leased = client.lease(more);
        }
        if is_full(&leased) && more > count {
            leased = client.lease(count);
        }
        let segment = leased?;
        // A peer that cannot be told, since it is gone or reads nothing, will not find the buffers it is sent.
        // That is its loss, and must not be ours.
        self.shares.retain(|(grantee, access)| grantee.grant(&segment, *access).is_ok());
        let extent = segment.extent();
        let sections = (extent.bytes / SECTION) as u32;
        self.held += sections;
        self.free += sections;
        self.segments.insert(extent.offset, Held { segment, free: vec![true; sections as usize] });
        Ok(self.take_sections(count).expect("just leased"))
    }

    /// Marks sections free again, all of whose buffers are unused.
    pub(super) fn give_sections(&mut self, offset: u64, count: u32) {
        let held = self.segments.range_mut(..=offset).next_back().expect("sections are of a segment").1;
        let first = ((offset - held.segment.extent().offset) / SECTION) as usize;
        let sections = &mut held.free[first..first + count as usize];
        assert!(sections.iter().all(|free| !free), "a section was given back twice");
        sections.fill(true);
        self.free += count;
    }

    /// Returns segments without used sections to the manager (DRack §4.2), as long as more sections are free than
    /// are to be kept (a region, unless it was said otherwise) and than a quarter of those held.
    pub(super) fn give_back_excess(&mut self) {
        self.give_back_above(self.spare);
    }

    fn give_back_above(&mut self, spare: u32) {
        let excess = |books: &Books| {
            let spare = (books.held / 4).max(spare);
            let mut unused = books.segments.values().filter(|held| held.free.iter().all(|free| *free));
            let (first, free) = (unused.next()?, books.free);
            (free > spare).then(|| (first.segment.extent().offset, first.free.len() as u32))
        };
        while let Some((offset, sections)) = excess(self) {
            self.segments.remove(&offset);
            self.held -= sections;
            self.free -= sections;
        }
    }

    /// Keeps up to `sections` free sections for later, at least a region, and returns what exceeds that.
    pub(super) fn keep_spare(&mut self, sections: u32) {
        self.spare = sections.max(self.region);
        self.give_back_excess();
    }

    /// Grants a peer all segments, and those leased later.
    pub(super) fn share_with(&mut self, grantee: Grantee, access: Access) -> Result<(), Error> {
        for held in self.segments.values() {
            grantee.grant(&held.segment, access)?;
        }
        self.shares.retain(|(grantee, _)| !grantee.is_gone());
        self.shares.push((grantee, access));
        Ok(())
    }

    /// Records that a section of the class has free buffers.
    pub(super) fn add_partial(&mut self, class: usize, offset: u64) {
        self.partial[class].insert(offset);
    }

    /// Removes a section from those of the class that have free buffers.
    pub(super) fn drop_partial(&mut self, class: usize, offset: u64) {
        self.partial[class].remove(&offset);
    }

    /// Takes a section of the class that has free buffers.
    pub(super) fn take_partial(&mut self, class: usize, sections: &Table) -> Option<*mut Section> {
        self.partial[class].pop_first().map(|offset| sections.make(offset))
    }

    /// Returns the bytes of all sections held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held as u64 * SECTION
    }
}

impl Held {
    /// Returns the index of the first of `count` adjacent free sections.
    fn run(&self, count: u32) -> Option<usize> {
        self.free.windows(count as usize).position(|run| run.iter().all(|free| *free))
    }
}
