//! Requests and their replies, and the thread that reads the manager's messages. If the manager is killed, [`next`]
//! connects to the manager that replaces it.

mod next;

use super::channel_link::{ChannelGreeting, ChannelLink};
use super::connect::{Connecting, PATIENCE};
use super::error::Error;
use super::offers::WaitingOffers;
use crate::process::Maker;
use crate::space::MappedSpace;
use crate::wakeups::Wakeups;
use crate::wire::{
    self, Access, Ask, Cause, ChannelId, Denied, Event, Extent, OpenedChannel, ReceivedPacket, RefusedCaller,
    Reply, Request, Tell, Welcome,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Source of the number of bytes that an arena's buffers use. The thread that reads the manager's messages calls it. An
/// implementation must therefore not keep anything alive that sends a request to the manager when it is dropped.
pub(crate) trait Counter: Send + Sync {
    /// Returns the bytes of buffers in use.
    fn used_bytes(&self) -> u64;
}

/// A reply whose descriptors have already been mapped or stored.
pub(super) enum Replied {
    Plain(Reply),
    /// A leased segment, which is mapped and recorded among the segments of this process.
    Leased(Extent),
    Opened(Arc<ChannelLink>, ChannelGreeting),
}

type LinkOutcome = Result<Replied, Denied>;

/// Shortest and longest pause between attempts to reach the next manager.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(500)];
/// Time in which a running manager answers a request that does nothing.
const SOON: Duration = Duration::from_millis(200);

pub(super) struct Link {
    maker: Maker,
    connecting: Connecting,
    welcome: Welcome,
    space: MappedSpace,
    /// True if the manager did not answer a request in time and has sent no message since; it may be stopped.
    silent: AtomicBool,
    number: AtomicU32,
    books: Mutex<Books>,
    /// Signals a change of `Books::standing`.
    changed: Condvar,
}

/// State shared by the thread that reads the manager's messages and the threads that send requests.
struct Books {
    socket: Arc<OwnedFd>,
    standing: Standing,
    asked: HashMap<u32, SyncSender<LinkOutcome>>,
    channels: HashMap<ChannelId, Arc<ChannelLink>>,
    services: HashMap<String, Arc<WaitingOffers>>,
    counters: Vec<Weak<dyn Counter>>,
    /// Requests that give up a segment, channel or service, made while no manager was connected.
    late: Vec<Request>,
    /// Segments of this process by offset, which it hands back to the next manager.
    segments: BTreeMap<u64, Option<OwnedFd>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Connected,
    /// The manager is gone, and the reading thread looks for the next one.
    Away,
    /// No manager knows this process any more, or this process disconnects.
    Over,
}

impl Link {
    /// Makes the state of a new connection.
    pub(super) fn new(connecting: Connecting, welcome: Welcome, socket: OwnedFd, space: MappedSpace) -> Link {
        let books = Books {
            socket: Arc::new(socket),
            standing: Standing::Connected,
            asked: HashMap::new(),
            channels: HashMap::new(),
            services: HashMap::new(),
            counters: Vec::new(),
            late: Vec::new(),
            segments: BTreeMap::new(),
        };
        Link {
            maker: Maker::this_process(),
            connecting,
            welcome,
            space,
            silent: AtomicBool::new(false),
            number: AtomicU32::new(0),
            books: Mutex::new(books),
            changed: Condvar::new(),
        }
    }

    /// Returns the process that connected. In any other process, such as a child by `fork`, no thread reads the
    /// manager's messages, locks may be held for ever, and messages would be sent in the name of the process that
    /// connected. Therefore all functions here do nothing in such a process.
    pub(super) fn maker(&self) -> &Maker {
        &self.maker
    }

    /// Returns the manager's description of the pool.
    pub(super) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns the address space.
    pub(super) fn space(&self) -> &MappedSpace {
        &self.space
    }

    /// Returns the wakeups of this process.
    pub(super) fn wakeups(&self) -> &Wakeups {
        &self.connecting.wakeups
    }

    /// Sends a request to the manager, and waits for its reply. If the manager is killed meanwhile, the request is sent
    /// again to the next manager, except a request that opens a channel or answers an offer; the caller must start
    /// those again.
    ///
    /// # Errors
    /// The manager's denial, or an error if the manager is gone or does not answer in time.
    pub(super) fn ask(
        &self,
        request: &Request,
        beside: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> Result<Replied, Error> {
        self.maker.check()?;
        let deadline = Instant::now() + patience;
        let once = matches!(request, Request::Open { .. } | Request::Answer { .. });
        loop {
            let socket = self.connected(deadline)?;
            match self.ask_once(&socket, request, beside, deadline) {
                Err(Error::ManagerGone) if !once => self.note_broken(&socket),
                Err(Error::TimedOut(_)) => return Err(self.late(request, patience)),
                outcome => return outcome,
            }
        }
    }

    /// Returns the error for a request that was not answered in time. If the request opens a channel, the service may
    /// be slow instead of the manager. The function therefore checks whether the manager answers an empty request, and
    /// if so returns [`Error::TimedOut`]. In all other cases it returns [`Error::Silent`].
    #[cold]
    fn late(&self, request: &Request, after: Duration) -> Error {
        let waits_for_service = matches!(request, Request::Open { .. }) && {
            let socket = self.books().socket.clone();
            self.ask_once(&socket, &Request::Sync, &[], Instant::now() + SOON).is_ok()
        };
        match waits_for_service {
            true => Error::TimedOut(after),
            false => Error::Silent { path: self.connecting.path.clone(), after },
        }
    }

    /// Sends a request that gives something up. If a manager is connected, waits until it has answered. Otherwise the
    /// next manager finds out by itself because this process no longer reports the item, or it receives the request
    /// after that report.
    pub(super) fn give_up(&self, request: Request) {
        if !self.maker.is_here() {
            return;
        }
        let mut books = self.books();
        let socket = books.socket.clone();
        match books.standing {
            // A stopped manager reads the request when it continues. A process that exits must not wait for the full
            // timeout once for each item that it gives up.
            Standing::Connected if self.silent.load(Ordering::Relaxed) => {
                drop(books);
                self.say(request);
            }
            Standing::Connected => {
                drop(books);
                let _ = self.ask_once(&socket, &request, &[], Instant::now() + PATIENCE);
            }
            Standing::Away => books.late.push(request),
            Standing::Over => {}
        }
    }

    /// Sends a request without waiting for its reply.
    pub(super) fn say(&self, request: Request) {
        if !self.maker.is_here() {
            return;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let socket = self.books().socket.clone();
        // Errors can be ignored: this process reports what it has to the next manager, and the report lacks the item
        // that this request gives up.
        let _ = send(&socket, number, &request, &[]);
    }

    /// Asks the manager to wake the peer of a channel on another host, and never waits. Returns false if the manager
    /// accepts no messages at the moment.
    pub(super) fn ring_far(&self, channel: ChannelId) -> bool {
        if !self.maker.is_here() {
            return true;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let socket = self.books().socket.clone();
        let ask = Ask { number, request: Request::Ring { channel } };
        wire::try_send(socket.as_fd(), &wire::encode(&ask)).is_ok()
    }

    /// Reports to the current or the next manager that this process has unmapped a withdrawn segment.
    pub(super) fn tell_unmapped(&self, channel: ChannelId, offset: u64) {
        if !self.maker.is_here() {
            return;
        }
        let request = Request::Unmapped { channel, offset };
        let mut books = self.books();
        match books.standing {
            Standing::Connected => {
                drop(books);
                self.say(request);
            }
            Standing::Away => books.late.push(request),
            Standing::Over => {}
        }
    }

    fn ask_once(
        &self,
        socket: &OwnedFd,
        request: &Request,
        beside: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<Replied, Error> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (reply, replied) = sync_channel(1);
        self.books().asked.insert(number, reply);
        if let Err(error) = send(socket, number, request, beside) {
            self.books().asked.remove(&number);
            return Err(error);
        }
        match wait(&replied, deadline) {
            // Removing the entry keeps the reading thread from delivering a reply that no thread expects. If the entry
            // is already gone, the reading thread is delivering the reply now.
            Err(Error::TimedOut(_)) if self.books().asked.remove(&number).is_some() => {
                if matches!(request, Request::Open { .. }) {
                    self.say(Request::Abandon { number });
                } else {
                    self.silent.store(true, Ordering::Relaxed);
                }
                Err(Error::TimedOut(Duration::ZERO))
            }
            Err(Error::TimedOut(_)) => wait(&replied, Instant::now() + PAUSES[1]),
            outcome => outcome,
        }
    }

    /// Waits until a manager is connected, and returns its socket.
    fn connected(&self, deadline: Instant) -> Result<Arc<OwnedFd>, Error> {
        let mut books = self.books();
        loop {
            match books.standing {
                Standing::Connected => return Ok(books.socket.clone()),
                Standing::Over => return Err(Error::ManagerGone),
                Standing::Away => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::ManagerGone);
            }
            books = self.changed.wait_timeout(books, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records that a socket is broken, before the reading thread notices it.
    fn note_broken(&self, socket: &Arc<OwnedFd>) {
        let mut books = self.books();
        if Arc::ptr_eq(&books.socket, socket) && books.standing == Standing::Connected {
            books.standing = Standing::Away;
        }
    }

    /// Reads the manager's messages until the connection is closed or no manager knows this process any more. If the
    /// manager is killed, connects to the next one and continues.
    pub(super) fn read(&self) {
        let mut socket = self.books().socket.clone();
        loop {
            self.read_until_broken(&socket);
            match self.reconnect() {
                Some(next) => socket = next,
                None => break,
            }
        }
        let mut books = self.books();
        books.standing = Standing::Over;
        books.services.values().for_each(|service| service.end());
        self.changed.notify_all();
    }

    fn read_until_broken(&self, socket: &OwnedFd) {
        while let Ok(ReceivedPacket::Packet(bytes, beside)) = wire::receive(socket.as_fd()) {
            self.silent.store(false, Ordering::Relaxed);
            match wire::decode::<Tell>(&bytes) {
                Ok(Tell::Reply { number, outcome }) => self.replied(number, outcome, beside),
                Ok(Tell::Event(event)) => self.happened(event, beside),
                Err(wire::Malformed) => break,
            }
        }
        let mut books = self.books();
        if books.standing == Standing::Connected {
            books.standing = Standing::Away;
        }
        // Dropping the senders wakes the threads that wait for replies, because no reply will come.
        books.asked.clear();
    }

    /// Ends the reading thread.
    pub(super) fn close(&self) {
        let mut books = self.books();
        books.standing = Standing::Over;
        let _ = rustix::net::shutdown(&books.socket, rustix::net::Shutdown::Both);
        self.changed.notify_all();
    }

    /// Adds a service. Returns false if this process already has a service of that name.
    pub(super) fn add_service(&self, name: &str, waiting: Arc<WaitingOffers>) -> bool {
        let mut books = self.books();
        if books.standing == Standing::Over {
            waiting.end();
        }
        if books.services.contains_key(name) {
            return false;
        }
        books.services.insert(name.to_string(), waiting);
        true
    }

    /// Adds a counter of bytes in use.
    pub(super) fn add_counter(&self, counter: Weak<dyn Counter>) {
        if !self.maker.is_here() {
            return;
        }
        let mut books = self.books();
        books.counters.retain(|counter| counter.strong_count() > 0);
        books.counters.push(counter);
    }

    /// Removes a service from the records of this process.
    pub(super) fn remove_service(&self, name: &str) {
        self.books().services.remove(name);
    }

    /// Unmaps everything that was received by a channel, and only then removes the channel from the records. The order
    /// matters because the next manager leases out again any memory that this process does not report, and may have it
    /// mapped here a second time.
    pub(super) fn remove_channel(&self, link: &ChannelLink) {
        if !self.maker.is_here() {
            return;
        }
        link.unmap(&self.space);
        self.books().channels.remove(&link.id());
    }

    /// Maps a segment of this process, and keeps its descriptor for the next manager. Only the reading thread calls
    /// this. The same thread reports the segments to the next manager, so a lease that it has read is always recorded
    /// before such a report.
    fn add_segment(&self, segment: Extent, mut beside: Vec<OwnedFd>) -> rustix::io::Result<()> {
        let file = beside.pop();
        self.space.map(segment, file.as_ref(), Access::Write)?;
        self.books().segments.insert(segment.offset, file);
        Ok(())
    }

    /// Unmaps a segment of this process, and only then removes it from the records, for the reason given at
    /// [`remove_channel`](Link::remove_channel).
    ///
    /// # Safety
    /// The segment is no longer in use.
    pub(super) unsafe fn remove_segment(&self, segment: Extent) {
        if !self.maker.is_here() {
            return;
        }
        // SAFETY: the caller guarantees that the segment is no longer in use.
        unsafe { self.space.unmap(segment) };
        self.books().segments.remove(&segment.offset);
    }

    /// Returns a duplicate of the descriptor of a segment of this process.
    pub(super) fn segment(&self, offset: u64) -> Option<OwnedFd> {
        self.maker.check().ok()?;
        self.books().segments.get(&offset)?.as_ref()?.try_clone().ok()
    }

    fn replied(&self, number: u32, outcome: Result<Reply, Denied>, beside: Vec<OwnedFd>) {
        let asked = self.books().asked.remove(&number);
        let outcome = match outcome {
            Ok(Reply::Opened(opened)) => {
                let id = opened.channel;
                match self.opened(opened, beside) {
                    Ok((link, greeting)) => Ok(Replied::Opened(link, greeting)),
                    Err(error) => {
                        self.say(Request::Close { channel: id });
                        Err(Denied::Memory(error.to_string()))
                    }
                }
            }
            Ok(Reply::Leased(segment)) => match self.add_segment(segment, beside) {
                Ok(()) => Ok(Replied::Leased(segment)),
                Err(error) => {
                    self.say(Request::Release { offset: segment.offset });
                    Err(Denied::Memory(error.to_string()))
                }
            },
            Ok(reply) => Ok(Replied::Plain(reply)),
            Err(denied) => Err(denied),
        };
        // The queue of each request has room for its one reply, so this does not block. It fails if the thread that
        // sent the request no longer waits.
        let unheard = match asked {
            Some(asked) => asked.send(outcome).err().map(|error| error.0),
            None => Some(outcome),
        };
        match unheard {
            Some(Ok(Replied::Opened(link, _))) => self.abandon(&link),
            Some(Ok(Replied::Leased(segment))) => {
                // SAFETY: no other thread knows the segment.
                unsafe { self.remove_segment(segment) };
                self.say(Request::Release { offset: segment.offset });
            }
            _ => {}
        }
    }

    /// Closes a channel that no thread waits for any more.
    fn abandon(&self, link: &ChannelLink) {
        self.remove_channel(link);
        self.say(Request::Close { channel: link.id() });
    }

    fn happened(&self, event: Event, beside: Vec<OwnedFd>) {
        match event {
            Event::Offered { service, offer } => {
                let id = offer.channel;
                let waiting = self.books().services.get(&service).cloned();
                match (self.opened(offer, beside), waiting) {
                    (Ok((link, greeting)), Some(waiting)) => waiting.push(link, greeting),
                    (Ok((link, _)), None) => self.abandon(&link),
                    (Err(error), _) => {
                        let refused =
                            RefusedCaller { code: 0, text: format!("it cannot map queues: {error}") };
                        self.say(Request::Answer { channel: id, verdict: Err(refused) });
                        self.say(Request::Close { channel: id });
                    }
                }
            }
            Event::Granted { channel, segment, access } => {
                let Some(link) = self.channel(channel) else { return };
                if link.map(&self.space, segment, beside.first(), access).is_err() {
                    // The manager does not repeat a grant, so this channel would lack the segment for ever. Therefore
                    // each side must open a new channel. Segments that were granted before stay mapped until the
                    // channel is dropped.
                    self.say(Request::GiveUp { channel });
                    self.ended(&link, Cause::CannotMap);
                }
            }
            Event::Count => {
                let counters: Vec<_> = self.books().counters.iter().filter_map(Weak::upgrade).collect();
                let used_bytes = counters.iter().map(|counter| counter.used_bytes()).sum();
                self.say(Request::Counted { used_bytes });
            }
            Event::Withdrawn { channel, offset } => {
                let Some(link) = self.channel(channel) else { return };
                if link.withdrawn(&self.space, offset) {
                    self.say(Request::Unmapped { channel, offset });
                }
            }
            Event::Rung { channel } => {
                if let Some(link) = self.channel(channel) {
                    self.wakeups().get(link.own_wakeup()).wake();
                }
            }
            Event::Gone { channel, cause } => {
                self.channel(channel).inspect(|link| self.ended(link, cause));
            }
        }
    }

    /// Records that a channel's peer is gone, and wakes the user of the channel.
    fn ended(&self, link: &ChannelLink, cause: Cause) {
        link.note_gone(cause);
        self.wakeups().get(link.own_wakeup()).wake();
    }

    /// Makes and records this process's side of a channel.
    fn opened(
        &self,
        opened: OpenedChannel,
        beside: Vec<OwnedFd>,
    ) -> rustix::io::Result<(Arc<ChannelLink>, ChannelGreeting)> {
        let (link, greeting) = ChannelLink::new(&self.space, opened, beside)?;
        let link = Arc::new(link);
        self.books().channels.insert(link.id(), link.clone());
        Ok((link, greeting))
    }

    fn channel(&self, id: ChannelId) -> Option<Arc<ChannelLink>> {
        self.books().channels.get(&id).cloned()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send(socket: &OwnedFd, number: u32, request: &Request, beside: &[BorrowedFd<'_>]) -> Result<(), Error> {
    let bytes = wire::encode(&Ask { number, request: request.clone() });
    if bytes.len() > wire::MOST_BYTES {
        return Err(Denied::LongGreeting.into());
    }
    wire::send(socket.as_fd(), &bytes, beside).map_err(|error| match error {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Error::ManagerGone,
        // The manager has read no message during the whole send timeout.
        Errno::AGAIN => Error::TimedOut(PATIENCE),
        error => Error::Send(error.into()),
    })
}

fn wait(replied: &Receiver<LinkOutcome>, deadline: Instant) -> Result<Replied, Error> {
    match replied.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(outcome) => outcome.map_err(Error::Denied),
        Err(RecvTimeoutError::Timeout) => Err(Error::TimedOut(Duration::ZERO)),
        Err(RecvTimeoutError::Disconnected) => Err(Error::ManagerGone),
    }
}
