//! State of the manager, and its reaction to each message, without sockets, processes or time.
//!
//! [`State::join`], [`State::handle`] and [`State::leave`] take in events. Messages to send then wait in
//! [`Client::waiting`], from which the server takes them. The only effect on the outside is that it makes and
//! drops the files of segments ([`Store`]).

mod channels;
mod far;
mod holders;
mod listing;
mod resume;
mod segments;

pub(super) use far::Hosts;
pub use holders::HolderLimits;
pub(super) use holders::{Holder, Holders};

use super::backing::Store;
use super::ledger::{Identity, Key, Ledger, Process, Record};
use super::sections::Sections;
use crate::wire::{
    Access, Ask, Cause, ChannelId, ClientId, Denied, Event, Extent, Limited, MOST_NAME, PeerProcess, Reply,
    Request, Tell,
};
use holders::Thing;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A message to a process, and the descriptors that go with it.
pub(super) struct Outgoing {
    pub tell: Tell,
    pub beside: Vec<Arc<OwnedFd>>,
}

/// A process: connected, or known from the manager before and not back yet.
pub(super) struct Client {
    pub peer: PeerProcess,
    /// Messages not sent yet, in order.
    pub waiting: VecDeque<Outgoing>,
    started: u64,
    /// Descriptor of the client's bells; `None` while it is not back.
    bells: Option<Arc<OwnedFd>>,
    /// Things that a returning client has confirmed so far; `None` once it has confirmed all.
    kept: Option<Kept>,
    /// Bytes of buffers in use, as the client reports them.
    used_bytes: Option<u64>,
    holder: Holder,
}

/// Things that a returning process has confirmed it still has.
#[derive(Default)]
struct Kept {
    segments: BTreeSet<u64>,
    channels: BTreeSet<ChannelId>,
    services: BTreeSet<String>,
}

struct Segment {
    extent: Extent,
    owner: Option<ClientId>,
    /// Holder whose quota the segment counts against until it is free; `None` if its owner was gone before this
    /// manager started.
    holder: Option<Holder>,
    /// File of the segment; `None` in a device, and until the owner that has it is back.
    file: Option<Arc<OwnedFd>>,
    /// Descriptor of the same file for reading only, for peers that may only read.
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

/// Channel, from the client's request until both sides have closed it.
struct Channel {
    service: String,
    client: Side,
    server: Side,
    queues: Extent,
    /// Holder that the channel counts for until both sides have closed it: the client's. `None` if the client was
    /// gone before this manager started.
    holder: Option<Holder>,
    /// Holder of the service, which the channel counts for while the service's side is open.
    served: Option<Holder>,
    file: Option<Arc<OwnedFd>>,
    /// True if an earlier manager made the channel: processes that return confirm that they have it.
    is_of_before: bool,
    /// Number of the client's request that waits for the service's answer.
    asked: Option<u32>,
    /// Other side, if it is on another host.
    far: Option<far::FarSide>,
}

#[derive(Clone, Copy)]
struct Side {
    id: ClientId,
    /// True while this side may have something mapped that came by the channel.
    open: bool,
    /// True if this side has no use for the channel, and the other side was told.
    given_up: bool,
}

/// All of the manager's state.
pub(super) struct State {
    store: Store,
    holders: Holders,
    sections: Sections,
    clients: BTreeMap<ClientId, Client>,
    segments: BTreeMap<u64, Segment>,
    services: BTreeMap<String, Service>,
    channels: BTreeMap<ChannelId, Channel>,
    /// Clients with new messages, not yet reported by `take_told`.
    told: Vec<ClientId>,
    ledger: Ledger,
    /// Other hosts of the device, if it has any.
    hosts: Option<Hosts>,
}

impl State {
    /// Makes the state of a manager without clients.
    pub(super) fn new(
        store: Store,
        sections: Sections,
        holders: Holders,
        ledger: Ledger,
        hosts: Option<Hosts>,
    ) -> State {
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
            hosts,
        }
    }

    /// Adds a process that connected, identified by the kernel.
    ///
    /// # Errors
    /// If there are too many, or its name is invalid.
    pub(super) fn join(
        &mut self,
        mut peer: PeerProcess,
        started: u64,
        bells: OwnedFd,
    ) -> Result<ClientId, Denied> {
        let most = self.holders.limits().clients;
        if self.clients.len() >= most as usize {
            return Err(Denied::Limit { what: Limited::Connections, most });
        }
        if !is_name(&peer.name) {
            return Err(Denied::BadName);
        }
        let holder = self.holders.holder_of(&peer, started);
        self.holders.take(holder, Thing::Connection)?;
        peer.id = ClientId(self.take_number());
        let id = peer.id;
        if let Err(denied) = self.put(Record::Client(Process { peer: peer.clone(), started })) {
            self.holders.give(holder, Thing::Connection);
            return Err(denied);
        }
        let client = Client { bells: Some(Arc::new(bells)), ..Client::absent(peer, started, holder) };
        self.clients.insert(id, client);
        Ok(id)
    }

    /// Handles a request with descriptors. The reply is among the client's waiting messages when this returns,
    /// unless it depends on another process.
    pub(super) fn handle(&mut self, from: ClientId, ask: Ask, beside: Vec<OwnedFd>) {
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
            Request::Grant { channel, offset, access } => match self.grant(from, channel, offset, access) {
                // The other host's manager answers later.
                Ok(Reply::Done) if self.awaits_pass(from, number, channel, offset) => return,
                granted => granted,
            },
            Request::Register { service } => self.register(from, service),
            Request::Withdraw { service } => self.withdraw(from, &service),
            Request::Open { service, greeting, bell } => {
                match self.open(from, number, service, greeting, bell, beside) {
                    // The service answers later.
                    Ok(()) => return,
                    Err(denied) => Err(denied),
                }
            }
            Request::Abandon { number } => self.abandon(from, number),
            Request::Answer { channel, verdict } => self.answer(from, channel, verdict, beside),
            Request::Close { channel } => self.close(from, channel),
            Request::GiveUp { channel } => self.give_up(from, channel),
            Request::Unmapped { channel, offset } => self.unmapped(from, channel, offset),
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
            Request::DeclareEnded { host, force } => self.declare_ended(host, force),
            Request::Ring { channel } => return self.ring_far(from, channel),
            Request::Sync | Request::Leave => Ok(Reply::Done),
        };
        self.tell(from, Tell::Reply { number, outcome }, Vec::new());
    }

    /// Removes a process that ended, or whose connection did: takes back what it held, and tells its peers.
    pub(super) fn leave(&mut self, id: ClientId) {
        let Some(Client { holder, .. }) = self.clients.remove(&id) else { return };
        // The process stays in the ledger until all else is done: a manager that recovers it starts over.
        let names =
            self.services.iter().filter(|(_, service)| service.by == id).map(|(name, _)| name.clone());
        for name in names.collect::<Vec<_>>() {
            self.services.remove(&name);
            self.unannounce(&name);
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

    /// Returns a client, to send its waiting messages.
    pub(super) fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id)
    }

    /// Returns the clients that got new messages since the last call.
    pub(super) fn take_told(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, to: ClientId, tell: Tell, beside: Vec<Arc<OwnedFd>>) {
        if let Some(client) = self.clients.get_mut(&to) {
            client.waiting.push_back(Outgoing { tell, beside });
            self.told.push(to);
        }
    }

    fn event(&mut self, to: ClientId, event: Event, beside: Vec<Arc<OwnedFd>>) {
        if self.host_of(to) != self.host() {
            return self.pass_event(to, event);
        }
        self.tell(to, Tell::Event(event), beside);
    }

    /// Checks that a process reads its messages; requests that make work for one that does not are refused.
    fn check_reads(&self, id: ClientId) -> Result<(), Denied> {
        if self.host_of(id) != self.host() {
            return self.check_link(id);
        }
        match self.clients.get(&id) {
            Some(client) if client.waiting.len() >= self.holders.limits().waiting => {
                Err(Denied::Slow(client.peer.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether there is no process that the next manager would have to know.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    fn put(&mut self, record: Record) -> Result<(), Denied> {
        self.ledger.put(&record).map_err(|error| Denied::Memory(format!("no room in the ledger: {error}")))
    }
}

impl Client {
    fn absent(peer: PeerProcess, started: u64, holder: Holder) -> Client {
        Client { peer, waiting: VecDeque::new(), started, bells: None, kept: None, used_bytes: None, holder }
    }
}

/// Returns whether a name has 1 to [`MOST_NAME`] bytes of visible characters, or blanks between them.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MOST_NAME
        && name.trim() == name
        && !name.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' '))
}
