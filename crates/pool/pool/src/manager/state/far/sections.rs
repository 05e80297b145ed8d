//! Sections of a pool. If several hosts use the device, they share its sections.

use super::State;
use crate::SECTION;
use crate::wire::{Denied, Extent};
use std::collections::BTreeSet;

impl State {
    /// Takes adjacent sections. If this host has too few free sections of its pool, it claims some of those that all
    /// hosts share.
    pub(in crate::manager::state) fn take_sections(&mut self, count: u32) -> Option<Extent> {
        if let Some(extent) = self.sections.take(count) {
            return Some(extent);
        }
        let first = self.hosts.as_mut().filter(|_| count > 0)?.member.take(count)?;
        self.sections.add(first, count);
        self.sections.take(count)
    }

    /// Takes a given range of sections, which the previous manager had taken. Returns whether they could be taken.
    pub(in crate::manager::state) fn take_sections_at(&mut self, extent: Extent) -> bool {
        if let Some(hosts) = &self.hosts {
            let sections = extent.offset / SECTION..extent.end().div_ceil(SECTION);
            if !sections.clone().all(|section| u32::try_from(section).is_ok_and(|one| hosts.member.has(one)))
            {
                return false;
            }
            sections.for_each(|section| self.sections.add_missing(section as u32));
        }
        self.sections.take_at(extent)
    }

    /// Frees sections that were taken.
    pub(in crate::manager::state) fn give_sections(&mut self, extent: Extent) {
        self.sections.give(extent);
        self.release_free();
    }

    /// Takes a queue area.
    pub(in crate::manager::state) fn take_queue_area(&mut self) -> Option<Extent> {
        self.sections.take_queues().or_else(|| {
            let first = self.hosts.as_mut()?.member.take(1)?;
            self.sections.add(first, 1);
            self.sections.take_queues()
        })
    }

    /// Takes a given queue area, which the previous manager had taken. Returns whether it could be taken.
    pub(in crate::manager::state) fn take_queue_area_at(&mut self, extent: Extent) -> bool {
        if let Some(hosts) = &self.hosts {
            let section = extent.offset / SECTION;
            if !u32::try_from(section).is_ok_and(|section| hosts.member.has(section)) {
                return false;
            }
            if !self.sections.has_queues_in(section * SECTION) {
                self.sections.add_missing(section as u32);
            }
        }
        self.sections.take_queues_at(extent)
    }

    /// Frees a queue area that was taken.
    pub(in crate::manager::state) fn give_queue_area(&mut self, extent: Extent) {
        self.sections.give_queues(extent);
        self.release_free();
    }

    /// Releases sections without any used part, so that any host can claim them.
    fn release_free(&mut self) {
        let Some(hosts) = &mut self.hosts else { return };
        for run in self.sections.remove_free() {
            hosts.member.give(run);
        }
    }

    /// Returns the number of all sections, and the number of free sections.
    pub(in crate::manager::state) fn room(&self) -> (u32, u32) {
        match &self.hosts {
            Some(hosts) => hosts.member.room(),
            None => (self.sections.capacity(), self.sections.free()),
        }
    }

    /// Returns the denial of a request for sections that are not available.
    pub(in crate::manager::state) fn full(&self, asked: u32) -> Denied {
        let (all, free) = self.room();
        Denied::Full { asked, free, all }
    }

    /// Releases sections that the previous manager had claimed and that no segment or channel uses.
    pub(crate) fn release_unused(&mut self) {
        let Some(hosts) = &mut self.hosts else { return };
        let whole = |extent: Extent| extent.offset / SECTION..extent.end().div_ceil(SECTION);
        let segments = self.segments.values().map(|segment| segment.extent);
        let queues = self.channels.values().map(|channel| channel.queues);
        let used: BTreeSet<u32> = segments
            .chain(queues)
            .flat_map(whole)
            .filter_map(|section| u32::try_from(section).ok())
            .collect();
        hosts.member.give_all_but(&used);
    }
}
