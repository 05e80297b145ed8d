//! What the manager knows, and what it does about each message: no sockets, processes or time.
//!
//! [`State::join`], [`State::handle`] and [`State::leave`] are told what happened; what is to be sent is then in
//! [`Client::waiting`], which whoever has the sockets empties. The only thing it does to the outside is that it
//! makes and drops the files of segments ([`Store`]).

mod channels;
mod holders;
mod listing;
mod resume;
mod segments;

pub use holders::{Holder, Holders};

use super::backing::Store;
use super::ledger::{Identity, Key, Ledger, Process, Record};
use super::sections::Sections;
use crate::wire::{
    Access, Ask, Cause, ChannelId, ClientId, Denied, Event, Extent, Limited, MOST_NAME, Peer, Reply, Request,
    Tell,
};
use holders::Thing;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What one [`Holder`] may have at most, so that no other has to do without.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of all together.
    pub clients: u32,
    pub channels: u32,
    pub services: u32,
    pub segments: u32,
    /// Segments that one side of a channel is granted.
    pub grants: u32,
    /// Messages that wait for a process which does not read; more only of channels that end.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { clients: 4096, channels: 1024, services: 64, segments: 4096, grants: 256, waiting: 256 }
    }
}

/// A message to a process, and what goes beside it.
pub struct Outgoing {
    pub tell: Tell,
    pub beside: Vec<Arc<OwnedFd>>,
}

/// A process: connected, or known from before and not back yet.
pub struct Client {
    pub peer: Peer,
    /// What it has not been sent yet, in order.
    pub waiting: VecDeque<Outgoing>,
    started: u64,
    /// `None` while it is not back.
    bells: Option<Arc<OwnedFd>>,
    /// What it says it still has, until it has said all.
    kept: Option<resume::Kept>,
    /// As it says.
    used_bytes: Option<u64>,
    holder: Holder,
}

struct Segment {
    extent: Extent,
    owner: Option<ClientId>,
    /// Whose quota it counts against until it is free; `None` if its owner was gone before this manager came.
    holder: Option<Holder>,
    /// `None` until its owner is back that has it.
    file: Option<Arc<OwnedFd>>,
    /// The same, to be read only: for those who are granted that.
    read_only: Option<Arc<OwnedFd>>,
    identity: Option<Identity>,
    grants: Vec<Grant>,
}

#[derive(Clone, Copy)]
struct Grant {
    channel: ChannelId,
    to: ClientId,
    access: Access,
}

struct Service {
    by: ClientId,
}

/// A pair, from the request of the client to when both sides have closed it.
struct Channel {
    service: String,
    client: Side,
    server: Side,
    queues: Extent,
    /// The client's, until both sides have closed it; `None` if the client was gone before this manager came.
    holder: Option<Holder>,
    /// The service's, while its side is open.
    served: Option<Holder>,
    file: Option<Arc<OwnedFd>>,
    /// True if a manager before this one made it: processes that come back say whether they have it.
    is_of_before: bool,
    /// The number of the request that waits for the service's answer.
    asked: Option<u32>,
}

#[derive(Clone, Copy)]
struct Side {
    id: ClientId,
    /// It may have something mapped that came by the channel.
    open: bool,
    /// It has no use for the channel, and the other side was told.
    given_up: bool,
}

pub struct State {
    store: Store,
    holders: Holders,
    sections: Sections,
    clients: BTreeMap<ClientId, Client>,
    segments: BTreeMap<u64, Segment>,
    services: BTreeMap<String, Service>,
    channels: BTreeMap<ChannelId, Channel>,
    /// Those for whom something waits that nobody was told of.
    told: Vec<ClientId>,
    ledger: Ledger,
}

impl State {
    pub fn new(store: Store, sections: Sections, holders: Holders, ledger: Ledger) -> State {
        State {
            store,
            holders,
            sections,
            clients: BTreeMap::new(),
            segments: BTreeMap::new(),
            services: BTreeMap::new(),
            channels: BTreeMap::new(),
            told: Vec::new(),
            ledger,
        }
    }

    /// A process connected, and the kernel says who it is.
    ///
    /// # Errors
    /// If there are too many, or its name is none.
    pub fn join(&mut self, mut peer: Peer, started: u64, bells: OwnedFd) -> Result<ClientId, Denied> {
        let most = self.holders.limits().clients;
        if self.clients.len() >= most as usize {
            return Err(Denied::Limit { what: Limited::Connections, most });
        }
        if !is_name(&peer.name) {
            return Err(Denied::BadName);
        }
        let holder = self.holders.holder_of(&peer, started);
        self.holders.take(holder, Thing::Connection)?;
        peer.id = ClientId(self.ledger.take_number());
        let id = peer.id;
        if let Err(denied) = self.put(Record::Client(Process { peer: peer.clone(), started })) {
            self.holders.give(holder, Thing::Connection);
            return Err(denied);
        }
        let client = Client { bells: Some(Arc::new(bells)), ..Client::absent(peer, started, holder) };
        self.clients.insert(id, client);
        Ok(id)
    }

    /// A process sent a request, with descriptors. The reply is among what waits for it when this returns, unless
    /// it depends on another process.
    pub fn handle(&mut self, from: ClientId, ask: Ask, beside: Vec<OwnedFd>) {
        let Ask { number, request } = ask;
        let outcome = match request {
            Request::Lease { sections } => {
                let leased = self.lease(from, sections);
                let (outcome, file) = match leased {
                    Ok((extent, file)) => (Ok(Reply::Leased(extent)), file),
                    Err(denied) => (Err(denied), None),
                };
                return self.tell(from, Tell::Reply { number, outcome }, file.into_iter().collect());
            }
            Request::Release { offset } => self.release(from, offset),
            Request::Grant { channel, offset, access } => self.grant(from, channel, offset, access),
            Request::Register { service } => self.register(from, service),
            Request::Withdraw { service } => self.withdraw(from, &service),
            Request::Open { service, greeting, bell } => {
                match self.open(from, number, service, greeting, bell, beside) {
                    // The service answers.
                    Ok(()) => return,
                    Err(denied) => Err(denied),
                }
            }
            Request::Abandon { number } => self.abandon(from, number),
            Request::Answer { channel, verdict } => self.answer(from, channel, verdict, beside),
            Request::Close { channel } => self.close(from, channel),
            Request::GiveUp { channel } => self.give_up(from, channel),
            Request::HandBack { offset } => self.hand_back(from, offset, beside),
            Request::Keep { channels } => self.keep(from, channels),
            Request::Resumed => self.resumed(from),
            Request::List { from: cursor } => Ok(self.list(cursor)),
            Request::Count => self.count(),
            Request::Counted { used_bytes } => {
                if let Some(client) = self.clients.get_mut(&from) {
                    client.used_bytes = Some(used_bytes);
                }
                Ok(Reply::Done)
            }
            Request::Sync | Request::Leave => Ok(Reply::Done),
        };
        self.tell(from, Tell::Reply { number, outcome }, Vec::new());
    }

    /// A process ended, or its connection did: what it held is taken back, and its peers are told.
    pub fn leave(&mut self, id: ClientId) {
        let Some(Client { holder, .. }) = self.clients.remove(&id) else { return };
        // The process stays in the ledger until all else is done: whoever recovers it starts over.
        let names =
            self.services.iter().filter(|(_, service)| service.by == id).map(|(name, _)| name.clone());
        for name in names.collect::<Vec<_>>() {
            self.services.remove(&name);
            self.holders.give(holder, Thing::Service);
            self.ledger.remove(&Key::Service(name));
        }
        let channels: Vec<_> = self.channels.keys().copied().collect();
        for channel in channels {
            self.end_side(channel, id, Cause::Died);
        }
        let owned: Vec<_> = self
            .segments
            .values()
            .filter(|segment| segment.owner == Some(id))
            .map(|s| s.extent.offset)
            .collect();
        for offset in owned {
            self.disown(offset);
        }
        self.holders.give(holder, Thing::Connection);
        self.ledger.remove(&Key::Client(id));
    }

    /// A connected process, to send what waits for it.
    pub fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id)
    }

    /// Those for whom something waits since this was last asked.
    pub fn take_told(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, to: ClientId, tell: Tell, beside: Vec<Arc<OwnedFd>>) {
        if let Some(client) = self.clients.get_mut(&to) {
            client.waiting.push_back(Outgoing { tell, beside });
            self.told.push(to);
        }
    }

    fn event(&mut self, to: ClientId, event: Event, beside: Vec<Arc<OwnedFd>>) {
        self.tell(to, Tell::Event(event), beside);
    }

    /// Whether a process reads what it is told; whoever makes work for one that does not is refused.
    fn check_reads(&self, id: ClientId) -> Result<(), Denied> {
        match self.clients.get(&id) {
            Some(client) if client.waiting.len() >= self.holders.limits().waiting => {
                Err(Denied::Slow(client.peer.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is nobody whom a next manager would have to know.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    fn put(&mut self, record: Record) -> Result<(), Denied> {
        self.ledger.put(&record).map_err(|error| Denied::Memory(format!("no room in the ledger: {error}")))
    }
}

impl Client {
    fn absent(peer: Peer, started: u64, holder: Holder) -> Client {
        Client { peer, waiting: VecDeque::new(), started, bells: None, kept: None, used_bytes: None, holder }
    }
}

/// 1 to [`MOST_NAME`] visible characters, or blanks between them.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MOST_NAME
        && name.trim() == name
        && !name.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' '))
}
