//! State of the manager, and its reaction to each message. The sockets, and the detection of processes that end, are in
//! the module `serve`.
//!
//! [`State::join`], [`State::handle`] and [`State::leave`] take in events. Messages to processes then wait in
//! [`Client::waiting`], from which the server takes them. The state also makes and removes the files of segments
//! ([`Store`]), and writes the ledger and the area that hosts share.

mod channels;
mod far;
mod holders;
mod listing;
mod resume;
mod segments;

pub(super) use far::FarHosts;
pub use holders::HolderLimits;
pub(super) use holders::{Holder, Holders};

use super::backing::Store;
use super::ledger::{FileIdentity, Key, Ledger, LedgerRecord, Process};
use super::sections::Sections;
use crate::wire::{
    Access, Ask, Cause, ChannelId, ClientId, Denied, Event, Extent, Limited, MOST_NAME, PeerProcess, Reply,
    Request, Tell,
};
use holders::Holding;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A message to a process, and the descriptors that go with it.
pub(super) struct OutgoingMessage {
    pub tell: Tell,
    pub beside: Vec<Arc<OwnedFd>>,
}

/// A process that is connected, or that was connected to the previous manager and has not reconnected yet.
pub(super) struct Client {
    pub peer: PeerProcess,
    /// Messages that were not sent yet, in order.
    pub waiting: VecDeque<OutgoingMessage>,
    started: u64,
    /// Descriptor of the client's wakeups; `None` until a client of the previous manager has reconnected.
    wakeups: Option<Arc<OwnedFd>>,
    /// Objects that a reconnected client has confirmed so far; `None` before it reconnects and after it has confirmed
    /// all.
    kept: Option<ConfirmedHoldings>,
    /// Bytes of buffers in use, as last reported by the client.
    used_bytes: Option<u64>,
    holder: Holder,
}

/// Objects that a reconnected process has confirmed it still has.
#[derive(Default)]
struct ConfirmedHoldings {
    segments: BTreeSet<u64>,
    channels: BTreeSet<ChannelId>,
    services: BTreeSet<String>,
}

struct Segment {
    extent: Extent,
    owner: Option<ClientId>,
    /// Holder whose quota the segment counts against until it is free. `None` if the segment's owner was gone before
    /// this manager started.
    holder: Option<Holder>,
    /// File of the segment. `None` in a device, and after a restart until the owner, which has the descriptor, hands it
    /// back.
    file: Option<Arc<OwnedFd>>,
    /// Descriptor of the same file that allows only reading, for peers that may only read.
    read_only: Option<Arc<OwnedFd>>,
    identity: Option<FileIdentity>,
    grants: Vec<SegmentGrant>,
}

#[derive(Clone, Copy)]
struct SegmentGrant {
    channel: ChannelId,
    to: ClientId,
    access: Access,
}

struct Service {
    by: ClientId,
}

/// Channel, from the client's request until each side has closed it.
struct Channel {
    service: String,
    client: ChannelSide,
    server: ChannelSide,
    queues: Extent,
    /// The client's holder, which the channel counts for until each side has closed it. `None` if the client was gone
    /// before this manager started.
    holder: Option<Holder>,
    /// Holder of the service, which the channel counts for while the service's side is open.
    served: Option<Holder>,
    file: Option<Arc<OwnedFd>>,
    /// True if a previous manager made the channel, so that reconnecting processes must confirm that they still have
    /// it.
    is_of_before: bool,
    /// Number of the client's request that waits for the service's answer.
    asked: Option<u32>,
    /// The far side, if one side of the channel is on another host.
    far: Option<far::FarSide>,
}

#[derive(Clone, Copy)]
struct ChannelSide {
    id: ClientId,
    /// True while this side may have memory mapped that it received by the channel.
    open: bool,
    /// True if this side cannot use the channel and the peer was notified of that.
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
    /// Clients with new messages that `take_told` has not returned yet.
    told: Vec<ClientId>,
    ledger: Ledger,
    /// The group of hosts that share the device, if there are several.
    hosts: Option<FarHosts>,
}

impl State {
    /// Makes the state of a manager without clients.
    pub(super) fn new(
        store: Store,
        sections: Sections,
        holders: Holders,
        ledger: Ledger,
        hosts: Option<FarHosts>,
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

    /// Adds a process that connected. The kernel has identified the process.
    ///
    /// # Errors
    /// If there are too many processes, or the name of this one is invalid.
    pub(super) fn join(
        &mut self,
        mut peer: PeerProcess,
        started: u64,
        wakeups: OwnedFd,
    ) -> Result<ClientId, Denied> {
        let most = self.holders.limits().clients;
        if self.clients.len() >= most as usize {
            return Err(Denied::Limit { what: Limited::Connections, most });
        }
        if !is_name(&peer.name) {
            return Err(Denied::BadName);
        }
        let holder = self.holders.holder_of(&peer, started);
        self.holders.take(holder, Holding::Connection)?;
        peer.id = ClientId(self.take_number());
        let id = peer.id;
        if let Err(denied) = self.put(LedgerRecord::Client(Process { peer: peer.clone(), started })) {
            self.holders.give(holder, Holding::Connection);
            return Err(denied);
        }
        let client = Client { wakeups: Some(Arc::new(wakeups)), ..Client::absent(peer, started, holder) };
        self.clients.insert(id, client);
        Ok(id)
    }

    /// Handles a request with descriptors. When this returns, the reply is among the client's waiting messages, unless
    /// the reply depends on another process. A [`Request::Ring`] has no reply.
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
                // The manager of the other host must confirm the grant before the reply.
                Ok(Reply::Done) if self.awaits_pass(from, number, channel, offset) => return,
                granted => granted,
            },
            Request::Register { service } => self.register(from, service),
            Request::Withdraw { service } => self.withdraw(from, &service),
            Request::Open { service, greeting, wakeup } => {
                match self.open(from, number, service, greeting, wakeup, beside) {
                    // The reply is sent when the service has answered.
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

    /// Removes a process that ended, or whose connection broke: reclaims its objects, and notifies its peers.
    pub(super) fn leave(&mut self, id: ClientId) {
        let Some(Client { holder, .. }) = self.clients.remove(&id) else { return };
        // The record of the process is removed last, so that a manager that recovers the ledger after a crash repeats
        // the whole removal.
        let names =
            self.services.iter().filter(|(_, service)| service.by == id).map(|(name, _)| name.clone());
        for name in names.collect::<Vec<_>>() {
            self.services.remove(&name);
            self.unannounce(&name);
            self.holders.give(holder, Holding::Service);
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
        self.holders.give(holder, Holding::Connection);
        self.ledger.remove(&Key::Client(id));
    }

    /// Returns a client, so that the server can send its waiting messages.
    pub(super) fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id)
    }

    /// Returns the clients that received new messages since the last call.
    pub(super) fn take_told(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, to: ClientId, tell: Tell, beside: Vec<Arc<OwnedFd>>) {
        if let Some(client) = self.clients.get_mut(&to) {
            client.waiting.push_back(OutgoingMessage { tell, beside });
            self.told.push(to);
        }
    }

    fn event(&mut self, to: ClientId, event: Event, beside: Vec<Arc<OwnedFd>>) {
        if self.host_of(to) != self.host() {
            return self.pass_event(to, event);
        }
        self.tell(to, Tell::Event(event), beside);
    }

    /// Checks that a process reads its messages. Requests that would send messages to a process that does not read are
    /// refused.
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

    fn put(&mut self, record: LedgerRecord) -> Result<(), Denied> {
        self.ledger.put(&record).map_err(|error| Denied::Memory(format!("no room in the ledger: {error}")))
    }
}

impl Client {
    fn absent(peer: PeerProcess, started: u64, holder: Holder) -> Client {
        Client {
            peer,
            waiting: VecDeque::new(),
            started,
            wakeups: None,
            kept: None,
            used_bytes: None,
            holder,
        }
    }
}

/// Returns whether a name has 1 to [`MOST_NAME`] bytes that are visible characters, or spaces between them.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MOST_NAME
        && name.trim() == name
        && !name.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' '))
}
