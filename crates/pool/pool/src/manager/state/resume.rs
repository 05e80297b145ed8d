//! State of the previous manager: read from the ledger, and confirmed by the processes that still run.

use super::far::local_number;
use super::holders::Holding;
use super::segments::identity;
use super::{Channel, ChannelSide, Client, ConfirmedHoldings, Segment, SegmentGrant, Service, State};
use crate::manager::ledger::{LedgerRecord, Process};
use crate::wire::{Cause, ChannelId, ClientId, Denied, Event, PeerProcess, Reply};
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl State {
    /// Takes over the records of a ledger, and returns the processes among them. The caller must find out which of
    /// these processes have ended, and call [`leave`](State::leave) for them. A record that contradicts the other
    /// records is dropped.
    pub(crate) fn recover(&mut self, records: Vec<LedgerRecord>) -> Vec<Process> {
        let (processes, others): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| matches!(record, LedgerRecord::Client(_)));
        let (grants, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|record| matches!(record, LedgerRecord::Grant(_)));
        // The order is such that each record follows those that it refers to.
        for record in processes.into_iter().chain(others).chain(grants) {
            let key = record.key();
            if !self.recover_one(record) {
                self.ledger.remove(&key);
            }
        }
        let asked: Vec<_> = self.channels.iter().filter(|(_, channel)| channel.asked.is_some()).collect();
        for (channel, client) in
            asked.into_iter().map(|(id, channel)| (*id, channel.client.id)).collect::<Vec<_>>()
        {
            // The client's request failed when the previous manager was killed, so the client starts a new one.
            self.channels.get_mut(&channel).expect("it is there").asked = None;
            self.end_side(channel, client, Cause::Closed);
        }
        let unowned: Vec<_> =
            self.segments.values().filter(|s| s.owner.is_none()).map(|s| s.extent.offset).collect();
        unowned.into_iter().for_each(|offset| self.disown(offset));
        self.store.backing.sweep(|offset| self.segments.contains_key(&offset));
        self.clients
            .values()
            .map(|client| Process { peer: client.peer.clone(), started: client.started })
            .collect()
    }

    fn recover_one(&mut self, record: LedgerRecord) -> bool {
        match record {
            LedgerRecord::Client(Process { peer, started }) => {
                self.ledger.given(local_number(peer.id.0));
                let holder = self.holders.holder_of(&peer, started);
                self.holders.note(holder, Holding::Connection);
                self.clients.insert(peer.id, Client::absent(peer, started, holder));
            }
            LedgerRecord::Service { name, by } => {
                let Some(client) = self.clients.get(&by) else { return false };
                self.holders.note(client.holder, Holding::Service);
                self.services.insert(name, Service { by });
            }
            LedgerRecord::Channel(pair) => {
                let is_ours = self.host_of(pair.client) == self.host();
                if is_ours {
                    self.ledger.given(local_number(pair.id.0));
                }
                let far = self.far_of_before(&pair);
                let open = [(pair.client, pair.client_open), (pair.server, pair.server_open)];
                let is_known = |id| self.clients.contains_key(id) || self.host_of(*id) != self.host();
                let known = open.iter().all(|(id, open)| !open || is_known(id));
                let any = open.iter().any(|(_, open)| *open);
                if !known || !any || is_ours && !self.take_queue_area_at(pair.queues) {
                    return false;
                }
                let holder_of = |id| self.clients.get(&id).map(|client| client.holder);
                let holder = holder_of(pair.client);
                let served = holder_of(pair.server).filter(|_| pair.server_open);
                for thing in [Holding::Channel, Holding::Queues { bytes: pair.queues.bytes }] {
                    holder.into_iter().for_each(|holder| self.holders.note(holder, thing));
                }
                served.into_iter().for_each(|served| self.holders.note(served, Holding::Served));
                let channel = Channel {
                    service: pair.service,
                    client: ChannelSide { id: pair.client, open: pair.client_open, given_up: false },
                    server: ChannelSide { id: pair.server, open: pair.server_open, given_up: false },
                    holder,
                    served,
                    queues: pair.queues,
                    // No file is needed because both sides already have the queue area mapped.
                    file: None,
                    is_of_before: true,
                    // A channel between hosts ended with the previous manager. Each side is notified of that end, so
                    // the request needs no separate answer.
                    asked: (pair.asked && far.is_none()).then_some(0),
                    far,
                };
                self.channels.insert(pair.id, channel);
            }
            LedgerRecord::Segment { extent, owner, file } => {
                let owner = owner.filter(|owner| self.clients.contains_key(owner));
                if !self.take_sections_at(extent) {
                    return false;
                }
                let holder = owner.map(|owner| self.clients[&owner].holder);
                if let Some(holder) = holder {
                    self.holders.note(holder, Holding::Segment { bytes: extent.bytes });
                }
                // A file with a name still exists. The descriptors of files without a name are held by the segments'
                // owners.
                let found = self
                    .store
                    .backing
                    .find(extent)
                    .filter(|found| Some(identity(found)) == file)
                    .map(Arc::new);
                let segment = Segment {
                    extent,
                    owner,
                    holder,
                    file: found,
                    read_only: None,
                    identity: file,
                    grants: Vec::new(),
                };
                self.segments.insert(extent.offset, segment);
            }
            LedgerRecord::Grant(granted) => {
                let Some(segment) = self.segments.get_mut(&granted.offset) else { return false };
                let channel = self.channels.get(&granted.channel);
                let open =
                    |channel: &Channel| channel.sides().iter().any(|side| side.id == granted.to && side.open);
                if !channel.is_some_and(open) {
                    return false;
                }
                segment.holder.into_iter().for_each(|holder| self.holders.note(holder, Holding::Grant));
                segment.grants.push(SegmentGrant {
                    channel: granted.channel,
                    to: granted.to,
                    access: granted.access,
                });
            }
        }
        true
    }

    /// Takes back a process that was connected to the previous manager.
    ///
    /// # Errors
    /// If the process is not the one that had this number, or is already connected.
    pub(crate) fn rejoin(
        &mut self,
        id: ClientId,
        peer: &PeerProcess,
        started: u64,
        wakeups: OwnedFd,
    ) -> Result<(), Denied> {
        let client = self.clients.get_mut(&id).ok_or(Denied::Stranger)?;
        let same = (client.peer.pid, client.peer.uid, client.started) == (peer.pid, peer.uid, started);
        if !same || client.wakeups.is_some() {
            return Err(Denied::Stranger);
        }
        client.wakeups = Some(Arc::new(wakeups));
        client.kept = Some(ConfirmedHoldings::default());
        self.told.push(id);
        Ok(())
    }

    pub(super) fn hand_back(
        &mut self,
        by: ClientId,
        offset: u64,
        mut beside: Vec<OwnedFd>,
    ) -> Result<Reply, Denied> {
        let kept =
            self.clients.get_mut(&by).and_then(|client| client.kept.as_mut()).ok_or(Denied::NotYours)?;
        let segment = self.segments.get_mut(&offset).filter(|segment| segment.owner == Some(by));
        let segment = segment.ok_or(Denied::NotYours)?;
        if segment.file.is_none() && segment.identity.is_some() {
            let file = beside.pop().filter(|file| Some(identity(file)) == segment.identity);
            segment.file = Some(Arc::new(file.ok_or(Denied::NotYours)?));
        }
        kept.segments.insert(offset);
        let grants = segment.grants.clone();
        grants.into_iter().for_each(|grant| self.tell_of_grant(offset, grant));
        Ok(Reply::Done)
    }

    pub(super) fn keep(&mut self, by: ClientId, channels: Vec<ChannelId>) -> Result<Reply, Denied> {
        let kept =
            self.clients.get_mut(&by).and_then(|client| client.kept.as_mut()).ok_or(Denied::NotYours)?;
        kept.channels.extend(channels);
        Ok(Reply::Done)
    }

    /// Ends the report of a reconnected process. Objects of the previous manager that the process has not confirmed are
    /// removed. A channel that was opened to it since the restart is new, so its offer remains valid.
    pub(super) fn resumed(&mut self, by: ClientId) -> Result<Reply, Denied> {
        let kept = self.clients.get_mut(&by).and_then(|client| client.kept.take()).ok_or(Denied::NotYours)?;
        let owned = self.segments.values().filter(|segment| segment.owner == Some(by));
        let lost: Vec<_> =
            owned.map(|s| s.extent.offset).filter(|offset| !kept.segments.contains(offset)).collect();
        lost.into_iter().for_each(|offset| self.take_back(offset));

        let names = self.services.iter();
        let names = names.filter(|(name, service)| service.by == by && !kept.services.contains(*name));
        for name in names.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let _ = self.withdraw(by, &name);
        }

        for (id, sides) in
            self.channels.iter().map(|(id, channel)| (*id, channel.sides())).collect::<Vec<_>>()
        {
            let Some(mine) = sides.iter().position(|side| side.id == by && side.open) else { continue };
            if self.channels[&id].is_of_before && !kept.channels.contains(&id) {
                self.end_side(id, by, Cause::Closed);
            } else if !sides[1 - mine].open || self.channels[&id].is_lost() {
                // The client may have received this event before, but that is not known.
                self.event(by, Event::Gone { channel: id, cause: Cause::Died }, Vec::new());
            }
        }
        let granted = self.segments.iter().flat_map(|(offset, segment)| {
            let mine = segment.grants.iter().filter(|grant| grant.to == by);
            mine.map(|grant| (*offset, *grant, segment.owner.is_some()))
        });
        for (offset, grant, is_owned) in granted.collect::<Vec<_>>() {
            match is_owned {
                true => self.tell_of_grant(offset, grant),
                // Either the process missed the event, or the previous manager missed the report that the segment is
                // unmapped.
                false => {
                    self.event(by, Event::Withdrawn { channel: grant.channel, offset }, Vec::new());
                }
            }
        }
        Ok(Reply::Done)
    }
}
