//! Requests and their replies, and the thread that reads the manager's messages. [`next`] connects to the manager
//! that follows one which was killed.

mod next;

use super::channel_link::{ChannelLink, Greeting};
use super::connect::{Connecting, PATIENCE};
use super::error::Error;
use super::offers::Waiting;
use crate::bells::Bells;
use crate::process::Maker;
use crate::space::Space;
use crate::wire::{
    self, Access, Ask, Cause, ChannelId, Denied, Event, Extent, Incoming, OpenedChannel, RefusedCaller,
    Reply, Request, Tell, Welcome,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Source of the number of bytes of an arena's buffers in use. The thread that reads the manager's messages calls
/// it, so an implementation must not keep alive anything that asks the manager when it is dropped.
pub(crate) trait Counter: Send + Sync {
    /// Returns the bytes of buffers in use.
    fn used_bytes(&self) -> u64;
}

/// A reply, with the descriptors that came with it already taken in.
pub(super) enum Replied {
    Plain(Reply),
    /// A leased segment: mapped, and among this process's segments.
    Leased(Extent),
    Opened(Arc<ChannelLink>, Greeting),
}

type Outcome = Result<Replied, Denied>;

/// Pauses between attempts to reach the next manager: the first one, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(500)];
/// Time in which a manager that runs answers a request that asks for nothing.
const SOON: Duration = Duration::from_millis(200);

pub(super) struct Link {
    maker: Maker,
    connecting: Connecting,
    welcome: Welcome,
    space: Space,
    /// True if the manager did not answer in time, and has said nothing since: it is stopped, perhaps.
    silent: AtomicBool,
    number: AtomicU32,
    books: Mutex<Books>,
    /// Signals a change of `Books::standing`.
    changed: Condvar,
}

/// State that the reading thread and the others share.
struct Books {
    socket: Arc<OwnedFd>,
    standing: Standing,
    asked: HashMap<u32, SyncSender<Outcome>>,
    channels: HashMap<ChannelId, Arc<ChannelLink>>,
    services: HashMap<String, Arc<Waiting>>,
    counters: Vec<Weak<dyn Counter>>,
    /// Requests that give something up, made while no manager was there.
    late: Vec<Request>,
    /// Segments of this process by offset, to hand back to the next manager.
    segments: BTreeMap<u64, Option<OwnedFd>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Connected,
    /// The manager is gone; the reading thread looks for the next one.
    Away,
    /// No manager knows us any more, or we leave.
    Over,
}

impl Link {
    /// Makes the state of a new connection.
    pub(super) fn new(connecting: Connecting, welcome: Welcome, socket: OwnedFd, space: Space) -> Link {
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

    /// Returns the process that connected. In another, no thread reads what the manager says, locks may be held for ever,
    /// and whatever is sent is sent in the name of that process: so all functions here do nothing there.
    pub(super) fn maker(&self) -> &Maker {
        &self.maker
    }

    /// Returns the manager's description of the pool.
    pub(super) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns the address space.
    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the bells of this process.
    pub(super) fn bells(&self) -> &Bells {
        &self.connecting.bells
    }

    /// Asks the manager, and waits for its reply. If the manager goes meanwhile, the next one is asked, except to
    /// open a channel or answer an offer: the caller starts those over.
    ///
    /// # Errors
    /// The manager's denial; or that it is gone, or does not answer in time.
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

    /// Returns the error of a request that was not answered in time: only to one that opens a channel, the service may be
    /// what is slow.
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

    /// Gives something up. Waits until the manager knows, if one is connected: otherwise the next one finds out
    /// by itself, or is told after all else.
    pub(super) fn give_up(&self, request: Request) {
        if !self.maker.is_here() {
            return;
        }
        let mut books = self.books();
        let socket = books.socket.clone();
        match books.standing {
            // It hears of it when it goes on; who ends here does not wait once more for each thing that it has.
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

    /// Sends a request whose reply is not needed.
    pub(super) fn say(&self, request: Request) {
        if !self.maker.is_here() {
            return;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let socket = self.books().socket.clone();
        // Errors are ignored: the next manager asks what we have, and does not find what this one would have been
        // told.
        let _ = send(&socket, number, &request, &[]);
    }

    /// Has the manager wake the other side of a channel, on another host. Returns false if the manager takes no messages
    /// now. Never waits.
    pub(super) fn ring_far(&self, channel: ChannelId) -> bool {
        if !self.maker.is_here() {
            return true;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let socket = self.books().socket.clone();
        let ask = Ask { number, request: Request::Ring { channel } };
        wire::try_send(socket.as_fd(), &wire::encode(&ask)).is_ok()
    }

    /// Tells the manager, or the next one, that a segment that was withdrawn is unmapped.
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
            // Unless the reading thread has taken it just now, it must not hand us anything any more.
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

    /// Returns the manager's socket, once one is connected.
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

    /// Records that a socket is broken, without waiting for the reading thread to find out.
    fn note_broken(&self, socket: &Arc<OwnedFd>) {
        let mut books = self.books();
        if Arc::ptr_eq(&books.socket, socket) && books.standing == Standing::Connected {
            books.standing = Standing::Away;
        }
    }

    /// Reads messages until the connection is closed or no manager knows us; connects to the next manager if need
    /// be.
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
        while let Ok(Incoming::Packet(bytes, beside)) = wire::receive(socket.as_fd()) {
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
        // Wakes the threads that wait for replies: none will come.
        books.asked.clear();
    }

    /// Ends the reading thread.
    pub(super) fn close(&self) {
        let mut books = self.books();
        books.standing = Standing::Over;
        let _ = rustix::net::shutdown(&books.socket, rustix::net::Shutdown::Both);
        self.changed.notify_all();
    }

    /// Adds a service; returns false if this process has that name already.
    pub(super) fn add_service(&self, name: &str, waiting: Arc<Waiting>) -> bool {
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

    /// Forgets a service.
    pub(super) fn remove_service(&self, name: &str) {
        self.books().services.remove(name);
    }

    /// Unmaps all that came by a channel, and then forgets it. Not the other way round: what the next manager is
    /// not told of it leases to others, perhaps to be mapped here again.
    pub(super) fn remove_channel(&self, link: &ChannelLink) {
        if !self.maker.is_here() {
            return;
        }
        link.unmap(&self.space);
        self.books().channels.remove(&link.id());
    }

    /// Maps a segment of this process, and keeps its descriptor for the next manager. Done by the reading thread,
    /// so that the next manager cannot ask what we have between the message that leased it and its record here.
    fn add_segment(&self, segment: Extent, mut beside: Vec<OwnedFd>) -> rustix::io::Result<()> {
        let file = beside.pop();
        self.space.map(segment, file.as_ref(), Access::Write)?;
        self.books().segments.insert(segment.offset, file);
        Ok(())
    }

    /// Unmaps a segment of this process, and then forgets it, as [`remove_channel`](Link::remove_channel) does.
    ///
    /// # Safety
    /// The segment is not in use any more.
    pub(super) unsafe fn remove_segment(&self, segment: Extent) {
        if !self.maker.is_here() {
            return;
        }
        // SAFETY: as the caller says.
        unsafe { self.space.unmap(segment) };
        self.books().segments.remove(&segment.offset);
    }

    /// Returns a descriptor of a segment of this process.
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
        // There is room for the one reply; the thread that asked may be gone.
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
                    // The grant is not repeated, so this channel would lack the segment for ever: both sides start over.
                    // Segments granted before stay mapped until the channel is dropped.
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
                    self.bells().get(link.own_bell()).ring();
                }
            }
            Event::Gone { channel, cause } => {
                self.channel(channel).inspect(|link| self.ended(link, cause));
            }
        }
    }

    /// Notes that a channel's peer is gone, and wakes its user.
    fn ended(&self, link: &ChannelLink, cause: Cause) {
        link.note_gone(cause);
        self.bells().get(link.own_bell()).ring();
    }

    /// Makes the near side of a channel.
    fn opened(
        &self,
        opened: OpenedChannel,
        beside: Vec<OwnedFd>,
    ) -> rustix::io::Result<(Arc<ChannelLink>, Greeting)> {
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
        // The manager has not read for as long as a send may take.
        Errno::AGAIN => Error::TimedOut(PATIENCE),
        error => Error::Send(error.into()),
    })
}

fn wait(replied: &Receiver<Outcome>, deadline: Instant) -> Result<Replied, Error> {
    match replied.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(outcome) => outcome.map_err(Error::Denied),
        Err(RecvTimeoutError::Timeout) => Err(Error::TimedOut(Duration::ZERO)),
        Err(RecvTimeoutError::Disconnected) => Err(Error::ManagerGone),
    }
}
