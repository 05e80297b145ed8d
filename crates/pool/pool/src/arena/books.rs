//! Segments that an arena holds, and the free sections in them.

use super::GrantedPeers;
use super::classes::CLASSES;
use super::section::ArenaSection;
use super::table::Table;
use crate::SECTION;
use crate::client::{Client, Error, Grantee, Segment};
use crate::wire::{Access, Denied};
use std::collections::{BTreeMap, BTreeSet};

/// Record of an arena's segments and sections. The arena locks it.
pub(super) struct Books {
    /// Segments, keyed by their offset in the pool.
    segments: BTreeMap<u64, HeldBuffers>,
    shares: GrantedPeers,
    /// For each class, the offsets of its sections that have free buffers, except the section that the class currently
    /// takes from.
    partial: [BTreeSet<u64>; CLASSES],
    /// Maximum number of sections that are leased at a time for small buffers.
    region: u32,
    held: u32,
    free: u32,
    /// Maximum free sections that are kept instead of being returned to the manager.
    spare: u32,
}

struct HeldBuffers {
    segment: Segment,
    /// True for each free section of the segment.
    free: Vec<bool>,
}

impl Books {
    /// Makes empty books. `region` is the most sections that are leased at a time for small buffers.
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

    /// Takes `count` adjacent free sections and returns the offset of the first. Returns `None` if no segment has them.
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

    /// Takes `count` adjacent sections, from a newly leased segment if necessary. The lease is larger than needed if
    /// the arena already holds many sections.
    pub(super) fn take_sections_or_lease(&mut self, count: u32, client: &Client) -> Result<u64, Error> {
        if let Some(offset) = self.take_sections(count) {
            return Ok(offset);
        }
        // The lease grows to half of the sections held, so that the number of segments grows only with the logarithm of
        // their total size.
        let more = count.max((self.held / 2).min(self.region));
        let is_full = |leased: &Result<Segment, Error>| {
            matches!(leased, Err(Error::Denied(Denied::Full { .. } | Denied::Quota { .. })))
        };
        let mut leased = client.lease(more);
        if is_full(&leased) && self.spare > self.region {
            // The free sections that are kept may not be adjacent, so they are returned before the lease is tried
            // again.
            self.give_back_above(self.region);
            leased = client.lease(more);
        }
        if is_full(&leased) && more > count {
            leased = client.lease(count);
        }
        let segment = leased?;
        // The grant fails if a peer is gone or does not read its messages. That peer is no longer granted segments, and
        // will not find buffers in them; the allocation must not fail because of it.
        self.shares.retain(|(grantee, access)| grantee.grant(&segment, *access).is_ok());
        let extent = segment.extent();
        let sections = (extent.bytes / SECTION) as u32;
        self.held += sections;
        self.free += sections;
        self.segments.insert(extent.offset, HeldBuffers { segment, free: vec![true; sections as usize] });
        Ok(self.take_sections(count).expect("just leased"))
    }

    /// Marks sections as free. None of their buffers is in use.
    pub(super) fn give_sections(&mut self, offset: u64, count: u32) {
        let held = self.segments.range_mut(..=offset).next_back().expect("sections are of a segment").1;
        let first = ((offset - held.segment.extent().offset) / SECTION) as usize;
        let sections = &mut held.free[first..first + count as usize];
        assert!(sections.iter().all(|free| !free), "a section was given back twice");
        sections.fill(true);
        self.free += count;
    }

    /// Returns unused segments to the manager (DRack §4.2), as long as the free sections exceed a quarter of those held
    /// and also exceed the number to keep. That number is a region unless [`keep_spare`](Books::keep_spare) has changed
    /// it.
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

    /// Sets the number of free sections to keep for later, which is at least a region, and returns the excess to the
    /// manager.
    pub(super) fn keep_spare(&mut self, sections: u32) {
        self.spare = sections.max(self.region);
        self.give_back_excess();
    }

    /// Grants a peer all segments, including those that are leased later.
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

    /// Removes a section from the record of sections of the class that have free buffers.
    pub(super) fn drop_partial(&mut self, class: usize, offset: u64) {
        self.partial[class].remove(&offset);
    }

    /// Takes a section of the class that has free buffers.
    pub(super) fn take_partial(&mut self, class: usize, sections: &Table) -> Option<*mut ArenaSection> {
        self.partial[class].pop_first().map(|offset| sections.make(offset))
    }

    /// Returns the size of all sections held, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held as u64 * SECTION
    }
}

impl HeldBuffers {
    /// Returns the index of the first of `count` adjacent free sections.
    fn run(&self, count: u32) -> Option<usize> {
        self.free.windows(count as usize).position(|run| run.iter().all(|free| *free))
    }
}
