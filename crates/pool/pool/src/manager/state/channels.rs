//! Services and channels: their names, greetings and sides, and how they end.

use super::holders::{Holder, Holding};
use super::{Channel, ChannelSide, Service, State, is_name};
use crate::WAKEUPS;
use crate::manager::ledger::{ChannelRecord, Key, LedgerRecord};
use crate::wire::{
    Accepted, Cause, ChannelId, ClientId, Denied, Event, Extent, MOST_GREETING, MOST_REASON, OpenedChannel,
    RefusedCaller, Reply, Tell,
};
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl State {
    pub(super) fn register(&mut self, by: ClientId, name: String) -> Result<Reply, Denied> {
        if !is_name(&name) {
            return Err(Denied::BadName);
        }
        if let Some(held) = self.services.get(&name) {
            if held.by == by {
                // The service registers its name again after the previous manager was killed.
                if let Some(kept) = self.clients.get_mut(&by).and_then(|client| client.kept.as_mut()) {
                    kept.services.insert(name);
                }
                return Ok(Reply::Done);
            }
            let by = self.clients[&held.by].peer.clone();
            return Err(Denied::NameTaken { name, by });
        }
        if let Some(by) = self.far_service(&name) {
            return Err(Denied::NameTaken { name, by });
        }
        let holder = self.clients.get(&by).ok_or(Denied::NotYours)?.holder;
        self.holders.take(holder, Holding::Service)?;
        if let Err(denied) = self.put(LedgerRecord::Service { name: name.clone(), by }) {
            self.holders.give(holder, Holding::Service);
            return Err(denied);
        }
        self.announce(&name, by);
        self.services.insert(name, Service { by });
        Ok(Reply::Done)
    }

    pub(super) fn withdraw(&mut self, by: ClientId, name: &str) -> Result<Reply, Denied> {
        if self.services.get(name).is_none_or(|service| service.by != by) {
            return Err(Denied::NotYours);
        }
        self.services.remove(name);
        self.unannounce(name);
        self.ledger.remove(&Key::Service(name.to_string()));
        if let Some(client) = self.clients.get(&by) {
            self.holders.give(client.holder, Holding::Service);
        }
        Ok(Reply::Done)
    }

    pub(super) fn open(
        &mut self,
        by: ClientId,
        number: u32,
        name: String,
        greeting: Vec<u8>,
        wakeup: u32,
        passed: Vec<OwnedFd>,
    ) -> Result<(), Denied> {
        if greeting.len() > MOST_GREETING {
            return Err(Denied::LongGreeting);
        }
        if wakeup >= WAKEUPS as u32 {
            return Err(Denied::NotYours);
        }
        let Some(service) = self.services.get(&name) else {
            return self.open_far(by, number, name, greeting, &passed);
        };
        let server = service.by;
        self.check_reads(server)?;
        let [client, served] = [by, server].map(|id| self.clients[&id].holder);
        let side = |id| ChannelSide { id, open: true, given_up: false };
        let (queues, file) = self.take_queues(client, served)?;
        let id = ChannelId(self.take_number());
        let channel = Channel {
            service: name.clone(),
            client: side(by),
            server: side(server),
            queues,
            holder: Some(client),
            served: Some(served),
            file: file.clone(),
            is_of_before: false,
            asked: Some(number),
            far: None,
        };
        if let Err(denied) = self.put(channel.record(id)) {
            self.give_queues(queues, Some(client));
            self.holders.give(served, Holding::Served);
            return Err(denied);
        }
        self.channels.insert(id, channel);
        let caller = &self.clients[&by];
        let offer =
            OpenedChannel { channel: id, peer: caller.peer.clone(), queues, wakeup, rings: true, greeting };
        let mut beside: Vec<_> = file.iter().cloned().collect();
        beside.extend(caller.wakeups.clone());
        beside.extend(passed.into_iter().map(Arc::new));
        self.event(server, Event::Offered { service: name, offer }, beside);
        Ok(())
    }

    /// Takes a queue area for a channel. The channel counts against the limits of both its client and its service.
    fn take_queues(
        &mut self,
        client: Holder,
        served: Holder,
    ) -> Result<(Extent, Option<Arc<OwnedFd>>), Denied> {
        self.holders.take(served, Holding::Served)?;
        self.take_queues_for(client).inspect_err(|_| self.holders.give(served, Holding::Served))
    }

    /// Takes a queue area, which counts against the quota of the client.
    pub(super) fn take_queues_for(
        &mut self,
        client: Holder,
    ) -> Result<(Extent, Option<Arc<OwnedFd>>), Denied> {
        let bytes = self.sections.queue_bytes();
        self.holders.take_all(&[(client, Holding::Channel), (client, Holding::Queues { bytes })])?;
        self.make_queues().inspect_err(|_| {
            self.holders.give(client, Holding::Channel);
            self.holders.give(client, Holding::Queues { bytes });
        })
    }

    fn make_queues(&mut self) -> Result<(Extent, Option<Arc<OwnedFd>>), Denied> {
        let Some(queues) = self.take_queue_area() else { return Err(self.full(1)) };
        match self.store.make_queues(queues) {
            Ok(file) => Ok((queues, file.map(Arc::new))),
            Err(error) => {
                self.give_queue_area(queues);
                Err(Denied::Memory(error.to_string()))
            }
        }
    }

    /// Frees the queue area of a channel that has ended. Until then, the area counts against the quota of the client
    /// that opened the channel, even if that client has left.
    pub(super) fn give_queues(&mut self, queues: Extent, holder: Option<Holder>) {
        self.give_queue_area(queues);
        if let Some(holder) = holder {
            self.holders.give(holder, Holding::Channel);
            self.holders.give(holder, Holding::Queues { bytes: queues.bytes });
        }
    }

    /// Cancels a request to open a channel, because the client no longer waits for the answer.
    pub(super) fn abandon(&mut self, by: ClientId, number: u32) -> Result<Reply, Denied> {
        let mut channels = self.channels.iter();
        let channel = channels
            .find(|(_, channel)| channel.client.id == by && channel.asked == Some(number))
            .map(|(id, _)| *id);
        // If the service has already answered, the client closes the channel that it received.
        if let Some(channel) = channel {
            self.channels.get_mut(&channel).expect("it was found").asked = None;
            self.end_side(channel, by, Cause::Closed);
        }
        Ok(Reply::Done)
    }

    pub(super) fn answer(
        &mut self,
        by: ClientId,
        id: ChannelId,
        verdict: Result<Accepted, RefusedCaller>,
        passed: Vec<OwnedFd>,
    ) -> Result<Reply, Denied> {
        let channel = self.channels.get(&id).filter(|channel| channel.server.id == by && channel.server.open);
        channel.ok_or(Denied::NotYours)?;
        if is_too_long(&verdict) {
            return Err(Denied::LongGreeting);
        }
        if self.host_of(self.channels[&id].client.id) != self.host() {
            return self.answer_far(id, verdict);
        }
        let channel = self.channels.get_mut(&id).expect("just found");
        let Some(number) = channel.asked.take() else {
            // Either the client left and the service was notified, or the service answers a second time.
            return Err(Denied::NotYours);
        };
        let (client, server, queues) = (channel.client, channel.server, channel.queues);
        let record = channel.record(id);
        let mut beside: Vec<_> = channel.file.iter().cloned().collect();
        self.put(record).expect("a record that is there can be changed");
        let outcome = match verdict {
            Ok(Accepted { greeting, wakeup }) => {
                let served = &self.clients[&server.id];
                beside.extend(served.wakeups.clone());
                beside.extend(passed.into_iter().map(Arc::new));
                Ok(Reply::Opened(OpenedChannel {
                    channel: id,
                    peer: served.peer.clone(),
                    queues,
                    wakeup,
                    rings: true,
                    greeting,
                }))
            }
            Err(refused) => {
                beside.clear();
                self.end_quietly(id, server.id);
                self.end_quietly(id, client.id);
                Err(Denied::Refused(refused))
            }
        };
        self.tell(client.id, Tell::Reply { number, outcome }, beside);
        Ok(Reply::Done)
    }

    pub(super) fn close(&mut self, by: ClientId, id: ChannelId) -> Result<Reply, Denied> {
        let channel = self.channels.get(&id).ok_or(Denied::NotYours)?;
        if !channel.sides().iter().any(|side| side.id == by && side.open) {
            return Err(Denied::NotYours);
        }
        self.end_side(id, by, Cause::Closed);
        Ok(Reply::Done)
    }

    /// Notifies the peer, only once, that this side cannot use the channel.
    pub(super) fn give_up(&mut self, by: ClientId, id: ChannelId) -> Result<Reply, Denied> {
        let other = self.other_side(by, id)?;
        let channel = self.channels.get_mut(&id).expect("it has an other side");
        let mine = if channel.client.id == by { &mut channel.client } else { &mut channel.server };
        if !std::mem::replace(&mut mine.given_up, true) {
            self.event(other, Event::Gone { channel: id, cause: Cause::CannotMap }, Vec::new());
        }
        Ok(Reply::Done)
    }

    /// Returns the client at the other side of an open channel.
    pub(super) fn other_side(&self, one: ClientId, id: ChannelId) -> Result<ClientId, Denied> {
        let channel = self.channels.get(&id).ok_or(Denied::NotYours)?;
        let (mine, other) = match channel.client.id == one && channel.client.open {
            true => (channel.client, channel.server),
            false => (channel.server, channel.client),
        };
        if mine.id != one || !mine.open {
            return Err(Denied::NotYours);
        }
        if channel.asked.is_some() {
            // The client does not know the channel until the service has answered.
            return Err(Denied::NotYours);
        }
        if let Some(far) = &channel.far {
            return match other.open && !far.is_lost {
                true => Ok(other.id),
                false => Err(Denied::Gone { peer: far.peer.clone(), cause: Cause::HostSilent }),
            };
        }
        match self.clients.get(&other.id) {
            Some(_) if other.open => Ok(other.id),
            Some(client) => Err(Denied::Gone { peer: client.peer.clone(), cause: Cause::Closed }),
            None => Err(Denied::NotYours),
        }
    }

    /// Ends one side of a channel and notifies the peer. The process of that side has unmapped everything, or has
    /// ended.
    pub(super) fn end_side(&mut self, id: ChannelId, one: ClientId, cause: Cause) {
        // One process may be both sides of a channel, so its two sides end one after the other.
        while let Some(channel) = self.channels.get_mut(&id) {
            let is_client = channel.client.id == one && channel.client.open;
            let (mine, other) = match is_client {
                true => (&mut channel.client, channel.server),
                false => (&mut channel.server, channel.client),
            };
            if mine.id != one || !mine.open {
                return;
            }
            mine.open = false;
            let asked = channel.asked.take();
            let service = channel.service.clone();
            self.after_end(id, one, is_client, cause);
            match asked {
                // The caller still waits for its answer, so the denial is that answer.
                Some(number) if !is_client => {
                    let outcome = Err(Denied::NoService(service));
                    self.tell(other.id, Tell::Reply { number, outcome }, Vec::new());
                    self.end_quietly(id, other.id);
                }
                _ if other.open => self.event(other.id, Event::Gone { channel: id, cause }, Vec::new()),
                _ => {}
            }
            if cause == Cause::Closed {
                return;
            }
        }
    }

    /// Ends one side of a channel without notifying the peer. That side has never mapped anything.
    pub(super) fn end_quietly(&mut self, id: ChannelId, one: ClientId) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let is_client = channel.client.id == one && channel.client.open;
        let side = if is_client { &mut channel.client } else { &mut channel.server };
        if side.id == one && side.open {
            side.open = false;
            self.after_end(id, one, is_client, Cause::Closed);
        }
    }

    fn after_end(&mut self, id: ChannelId, one: ClientId, is_client: bool, cause: Cause) {
        self.drop_grants(id, one);
        self.pass_end(id, one, cause);
        let channel = &self.channels[&id];
        if let Some(served) = channel.served.filter(|_| !is_client) {
            self.holders.give(served, Holding::Served);
        }
        if channel.sides().iter().all(|side| !side.open) {
            let (queues, holder) = (channel.queues, channel.holder);
            let of_client = self.host_of(channel.client.id);
            self.channels.remove(&id);
            self.ledger.remove(&Key::Channel(id));
            // The queue area belongs to the client's host.
            if of_client == self.host() {
                self.give_queues(queues, holder);
            }
        } else {
            let record = channel.record(id);
            self.put(record).expect("a record that is there can be changed");
        }
    }
}

/// Returns whether an answer to a caller exceeds the limits of the protocol.
fn is_too_long(verdict: &Result<Accepted, RefusedCaller>) -> bool {
    match verdict {
        Ok(accepted) => accepted.greeting.len() > MOST_GREETING || accepted.wakeup >= WAKEUPS as u32,
        Err(refused) => refused.text.len() > MOST_REASON,
    }
}

impl Channel {
    pub(super) fn record(&self, id: ChannelId) -> LedgerRecord {
        LedgerRecord::Channel(ChannelRecord {
            id,
            service: self.service.clone(),
            client: self.client.id,
            server: self.server.id,
            client_open: self.client.open,
            server_open: self.server.open,
            asked: self.asked.is_some(),
            queues: self.queues,
        })
    }

    pub(super) fn sides(&self) -> [ChannelSide; 2] {
        [self.client, self.server]
    }
}
