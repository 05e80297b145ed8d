//! Segments: leasing, granting and releasing them.

use super::holders::{Holder, Holding};
use super::{Segment, SegmentGrant, State};
use crate::SECTION;
use crate::manager::backing::{Store, Unfit, narrow};
use crate::manager::ledger::{FileIdentity, GrantRecord, Key, LedgerRecord};
use crate::wire::{Access, ChannelId, ClientId, Denied, Event, Extent, Limited, Reply};
use rustix::io::Errno;
use std::ops::RangeBounds;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl State {
    pub(super) fn lease(
        &mut self,
        by: ClientId,
        sections: u32,
    ) -> Result<(Extent, Option<Arc<OwnedFd>>), Denied> {
        let holder = self.clients.get(&by).ok_or(Denied::NotYours)?.holder;
        let thing = Holding::Segment { bytes: u64::from(sections) * SECTION };
        self.holders.take(holder, thing)?;
        self.make_segment(by, holder, sections).inspect_err(|_| self.holders.give(holder, thing))
    }

    fn make_segment(
        &mut self,
        by: ClientId,
        holder: Holder,
        sections: u32,
    ) -> Result<(Extent, Option<Arc<OwnedFd>>), Denied> {
        let Some(extent) = self.take_sections(sections) else { return Err(self.full(sections)) };
        let file = match self.store.make(extent) {
            Ok(file) => file.map(Arc::new),
            Err(error) => {
                self.give_sections(extent);
                return Err(Denied::Memory(error.to_string()));
            }
        };
        let identity = file.as_ref().map(|file| identity(file));
        let segment = Segment {
            extent,
            owner: Some(by),
            holder: Some(holder),
            file: file.clone(),
            read_only: None,
            identity,
            grants: Vec::new(),
        };
        if let Err(denied) = self.put(segment.record()) {
            self.store.backing.remove(extent);
            self.give_sections(extent);
            return Err(denied);
        }
        self.segments.insert(extent.offset, segment);
        Ok((extent, file))
    }

    /// Releases a segment on behalf of its owner.
    pub(super) fn release(&mut self, by: ClientId, offset: u64) -> Result<Reply, Denied> {
        let segment = self.segments.get(&offset).filter(|segment| segment.owner == Some(by));
        segment.ok_or(Denied::NotYours)?;
        self.take_back(offset);
        Ok(Reply::Done)
    }

    /// Removes the owner of a segment, and notifies the processes that the segment was granted to.
    pub(super) fn take_back(&mut self, offset: u64) {
        let Some(segment) = self.segments.get(&offset) else { return };
        for grant in segment.grants.clone() {
            // A process that is still reporting what it has receives this event at the end of its report.
            if self.clients.get(&grant.to).is_some_and(|client| client.kept.is_some()) {
                continue;
            }
            self.event(grant.to, Event::Withdrawn { channel: grant.channel, offset }, Vec::new());
        }
        self.disown(offset);
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
        // Released segments count as well, because the grantee has them mapped until it reports otherwise or closes the
        // channel.
        let most = self.holders.limits().grants;
        if self.segments.values().filter(|segment| granted(segment)).count() >= most as usize {
            return Err(Denied::Limit { what: Limited::Grants, most });
        }
        let segment = self.segments.get(&offset).filter(|segment| segment.owner == Some(by));
        let segment = segment.ok_or(Denied::NotYours)?;
        if granted(segment) {
            return Ok(Reply::Done);
        }
        if segment.grants.iter().any(|grant| grant.access != access) {
            return Err(Denied::Sealed);
        }
        self.add_grant(offset, SegmentGrant { channel, to, access })?;
        self.tell_of_grant(offset, SegmentGrant { channel, to, access });
        Ok(Reply::Done)
    }

    fn add_grant(&mut self, offset: u64, grant: SegmentGrant) -> Result<(), Denied> {
        let segment = self.segments.get_mut(&offset).expect("just found");
        segment.prepare(&self.store, grant.access)?;
        let holder = segment.holder;
        if let Some(holder) = holder {
            self.holders.take(holder, Holding::Grant)?;
        }
        let SegmentGrant { channel, to, access } = grant;
        if let Err(denied) = self.put(LedgerRecord::Grant(GrantRecord { offset, channel, to, access })) {
            holder.into_iter().for_each(|holder| self.holders.give(holder, Holding::Grant));
            return Err(denied);
        }
        self.segments.get_mut(&offset).expect("just found").grants.push(grant);
        Ok(())
    }

    /// Sends the descriptor of a granted segment to its grantee, if the manager has the descriptor already.
    pub(super) fn tell_of_grant(&mut self, offset: u64, grant: SegmentGrant) {
        let segment = self.segments.get_mut(&offset).expect("it is granted");
        if segment.file.is_none() && segment.identity.is_some() {
            return;
        }
        if segment.prepare(&self.store, grant.access).is_err() {
            return;
        }
        let file = segment.file_for(grant.access);
        let event = Event::Granted { channel: grant.channel, segment: segment.extent, access: grant.access };
        self.event(grant.to, event, file.into_iter().collect());
    }

    /// Records that a segment has no owner any more. The segment becomes free once no process has it mapped.
    pub(super) fn disown(&mut self, offset: u64) {
        let Some(segment) = self.segments.get_mut(&offset) else { return };
        segment.owner = None;
        if !segment.grants.is_empty() {
            let record = segment.record();
            self.put(record).expect("a record that is there can be changed");
        }
        self.free_unused(offset);
    }

    /// Removes all grants to one side of a channel, which has unmapped the segments.
    pub(super) fn drop_grants(&mut self, channel: ChannelId, to: ClientId) {
        self.drop_grants_in(.., channel, to);
    }

    /// Removes the grant of a released segment, which one side of a channel has unmapped.
    pub(super) fn unmapped(
        &mut self,
        by: ClientId,
        channel: ChannelId,
        offset: u64,
    ) -> Result<Reply, Denied> {
        if !self.segments.contains_key(&offset) && self.pass_unmapped(by, channel, offset) {
            return Ok(Reply::Done);
        }
        // If the segment still has its owner, the grant remains in force.
        self.segments.get(&offset).filter(|segment| segment.owner.is_none()).ok_or(Denied::NotYours)?;
        self.drop_grants_in(offset..=offset, channel, by);
        Ok(Reply::Done)
    }

    pub(super) fn drop_grants_in(
        &mut self,
        offsets: impl RangeBounds<u64>,
        channel: ChannelId,
        to: ClientId,
    ) {
        let mut fewer = Vec::new();
        for (_, segment) in self.segments.range_mut(offsets) {
            let before = segment.grants.len();
            segment.grants.retain(|grant| grant.channel != channel || grant.to != to);
            // A segment is granted at most once to each side of a channel, so at most one grant was removed.
            if segment.grants.len() < before {
                fewer.push((segment.extent.offset, segment.holder));
            }
        }
        for (offset, holder) in fewer {
            holder.into_iter().for_each(|holder| self.holders.give(holder, Holding::Grant));
            self.ledger.remove(&Key::Grant(offset, channel, to));
            self.free_unused(offset);
        }
    }

    fn free_unused(&mut self, offset: u64) {
        let Some(segment) = self.segments.get(&offset) else { return };
        if segment.owner.is_none() && segment.grants.is_empty() {
            let (extent, holder) = (segment.extent, segment.holder);
            debug_assert!(extent.bytes.is_multiple_of(SECTION));
            self.segments.remove(&offset);
            if let Some(holder) = holder {
                self.holders.give(holder, Holding::Segment { bytes: extent.bytes });
            }
            self.store.backing.remove(extent);
            self.ledger.remove(&Key::Segment(offset));
            self.give_sections(extent);
        }
    }
}

impl Segment {
    fn record(&self) -> LedgerRecord {
        LedgerRecord::Segment { extent: self.extent, owner: self.owner, file: self.identity }
    }

    /// Seals the file for an access, and opens it a second time for peers that may only read.
    fn prepare(&mut self, store: &Store, access: Access) -> Result<(), Denied> {
        let Some(file) = &self.file else { return Ok(()) };
        let failed = |error: Errno| Denied::Memory(error.to_string());
        store.seal(file, access).map_err(|unfit| match unfit {
            Unfit::Sealed => Denied::Sealed,
            Unfit::Failed(error) => failed(error),
        })?;
        if access == Access::Read && self.read_only.is_none() {
            self.read_only = Some(Arc::new(narrow(file).map_err(failed)?));
        }
        Ok(())
    }

    /// Returns a descriptor that allows no more than this access. The file must have been prepared for the access.
    fn file_for(&self, access: Access) -> Option<Arc<OwnedFd>> {
        match access {
            Access::Read => self.read_only.clone(),
            Access::Write => self.file.clone(),
        }
    }
}

/// Returns the identity of a file, which is valid as long as some process has the file open.
pub(super) fn identity(file: &OwnedFd) -> FileIdentity {
    let stat = rustix::fs::fstat(file).expect("an open file is some file");
    FileIdentity { device: stat.st_dev, inode: stat.st_ino }
}
