//! Segments: leased, granted, given back.

use super::{Grant, Segment, State};
use crate::SECTION;
use crate::manager::backing::narrow;
use crate::manager::ledger::{Granted, Identity, Key, Record};
use crate::wire::{Access, ChannelId, ClientId, Denied, Event, Extent, Limited, Reply};
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl State {
    pub(super) fn lease(
        &mut self,
        by: ClientId,
        sections: u32,
    ) -> Result<(Extent, Option<Arc<OwnedFd>>), Denied> {
        let most = self.limits.segments;
        let client = self.clients.get(&by).ok_or(Denied::NotYours)?;
        if client.segments >= most {
            return Err(Denied::Limit { what: Limited::Segments, most });
        }
        let Some(extent) = self.sections.take(sections) else {
            let (free, all) = (self.sections.free(), self.sections.capacity());
            return Err(Denied::Full { asked: sections, free, all });
        };
        let file = match self.store.make(extent) {
            Ok(file) => file.map(Arc::new),
            Err(error) => {
                self.sections.give(extent);
                return Err(Denied::Memory(error.to_string()));
            }
        };
        let identity = file.as_ref().map(|file| identity(file));
        let segment = Segment { extent, owner: Some(by), file: file.clone(), identity, grants: Vec::new() };
        if let Err(denied) = self.put(segment.record()) {
            self.store.backing.remove(extent);
            self.sections.give(extent);
            return Err(denied);
        }
        self.clients.get_mut(&by).expect("it was there").segments += 1;
        self.segments.insert(extent.offset, segment);
        Ok((extent, file))
    }

    /// The owner gives a segment back.
    pub(super) fn release(&mut self, by: ClientId, offset: u64) -> Result<Reply, Denied> {
        let segment = self.segments.get(&offset).filter(|segment| segment.owner == Some(by));
        let grants = segment.ok_or(Denied::NotYours)?.grants.clone();
        for grant in grants {
            self.event(grant.to, Event::Withdrawn { channel: grant.channel, offset }, Vec::new());
        }
        self.disown(offset);
        Ok(Reply::Done)
    }

    pub(super) fn grant(
        &mut self,
        by: ClientId,
        channel: ChannelId,
        offset: u64,
        access: Access,
    ) -> Result<Reply, Denied> {
        let to = self.other_side(by, channel)?;
        self.check_reads(to)?;
        let granted =
            |segment: &Segment| segment.grants.iter().any(|grant| grant.channel == channel && grant.to == to);
        // Those that were given back count as well: the other side has them mapped until it closes the channel.
        if self.segments.values().filter(|segment| granted(segment)).count() >= self.limits.grants as usize {
            return Err(Denied::Limit { what: Limited::Grants, most: self.limits.grants });
        }
        let segment = self.segments.get_mut(&offset).filter(|segment| segment.owner == Some(by));
        let segment = segment.ok_or(Denied::NotYours)?;
        if granted(segment) {
            return Ok(Reply::Done);
        }
        if access == Access::Write && segment.grants.iter().any(|grant| grant.access == Access::Read) {
            return Err(Denied::Sealed);
        }
        let grant = Grant { channel, to, access };
        segment.grants.push(grant);
        let narrowed = segment.file_for(access).map_err(|error| Denied::Memory(error.to_string()));
        let record = Record::Grant(Granted { offset, channel, to, access });
        if let Err(denied) = narrowed.and_then(|_| self.put(record)) {
            self.segments.get_mut(&offset).expect("it was there").grants.pop();
            return Err(denied);
        }
        self.tell_of_grant(offset, grant);
        Ok(Reply::Done)
    }

    /// Whoever was granted a segment gets its descriptor, as soon as it is here.
    pub(super) fn tell_of_grant(&mut self, offset: u64, grant: Grant) {
        let segment = &self.segments[&offset];
        let Ok(file) = segment.file_for(grant.access) else { return };
        if file.is_none() && segment.identity.is_some() {
            return;
        }
        let event = Event::Granted { channel: grant.channel, segment: segment.extent, access: grant.access };
        self.event(grant.to, event, file.into_iter().collect());
    }

    /// A segment has no owner any more; it is free when nobody has it mapped.
    pub(super) fn disown(&mut self, offset: u64) {
        let Some(segment) = self.segments.get_mut(&offset) else { return };
        if let Some(owner) = segment.owner.take().and_then(|owner| self.clients.get_mut(&owner)) {
            owner.segments -= 1;
        }
        if !segment.grants.is_empty() {
            let record = segment.record();
            self.put(record).expect("a record that is there can be changed");
        }
        self.free_unused(offset);
    }

    /// One side has unmapped what it was granted by a channel.
    pub(super) fn drop_grants(&mut self, channel: ChannelId, to: ClientId) {
        let mut fewer = Vec::new();
        for segment in self.segments.values_mut() {
            let before = segment.grants.len();
            segment.grants.retain(|grant| grant.channel != channel || grant.to != to);
            if segment.grants.len() < before {
                fewer.push(segment.extent.offset);
            }
        }
        for offset in fewer {
            self.ledger.remove(&Key::Grant(offset, channel, to));
            self.free_unused(offset);
        }
    }

    fn free_unused(&mut self, offset: u64) {
        let Some(segment) = self.segments.get(&offset) else { return };
        if segment.owner.is_none() && segment.grants.is_empty() {
            let extent = segment.extent;
            debug_assert!(extent.bytes.is_multiple_of(SECTION));
            self.segments.remove(&offset);
            self.store.backing.remove(extent);
            self.ledger.remove(&Key::Segment(offset));
            self.sections.give(extent);
        }
    }
}

impl Segment {
    fn record(&self) -> Record {
        Record::Segment { extent: self.extent, owner: self.owner, file: self.identity }
    }

    /// A descriptor that allows no more than `access`, whatever is done with it.
    fn file_for(&self, access: Access) -> rustix::io::Result<Option<Arc<OwnedFd>>> {
        match (&self.file, access) {
            (Some(file), Access::Read) => narrow(file).map(|narrowed| Some(Arc::new(narrowed))),
            (file, _) => Ok(file.clone()),
        }
    }
}

/// Which file it is, as long as somebody has it.
pub(super) fn identity(file: &OwnedFd) -> Identity {
    let stat = rustix::fs::fstat(file).expect("an open file is some file");
    Identity { device: stat.st_dev, inode: stat.st_ino }
}
