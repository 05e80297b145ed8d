//! Requests and their replies, and the thread that reads what the manager tells.

use super::channel::ChannelLink;
use super::service::Waiting;
use super::{Error, Greeting};
use crate::bells::Bells;
use crate::space::Space;
use crate::wire::{self, Ask, Cause, ChannelId, Denied, Event, Incoming, Opened, Reply, Request, Tell};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A reply, with what came beside it.
pub enum Replied {
    Plain(Reply, Vec<OwnedFd>),
    Opened(Arc<ChannelLink>, Greeting),
}

type Outcome = Result<Replied, Denied>;

pub struct Link {
    socket: OwnedFd,
    space: Space,
    bells: Bells,
    number: AtomicU32,
    books: Mutex<Books>,
}

/// What the reader and the others share.
#[derive(Default)]
struct Books {
    /// The manager is gone: nobody reads any more.
    ended: bool,
    asked: HashMap<u32, SyncSender<Outcome>>,
    channels: HashMap<ChannelId, Arc<ChannelLink>>,
    services: HashMap<String, Arc<Waiting>>,
}

impl Link {
    pub fn new(socket: OwnedFd, space: Space, bells: Bells) -> Link {
        Link { socket, space, bells, number: AtomicU32::new(0), books: Mutex::default() }
    }

    pub fn space(&self) -> &Space {
        &self.space
    }

    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Asks the manager, and waits for its reply.
    ///
    /// # Errors
    /// What it denies; that it is gone, or does not answer in time.
    pub fn ask(
        &self,
        request: Request,
        beside: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> Result<Replied, Error> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (reply, replied) = sync_channel(1);
        {
            let mut books = self.books();
            if books.ended {
                return Err(Error::ManagerGone);
            }
            books.asked.insert(number, reply);
        }
        let opens = matches!(request, Request::Open { .. });
        if let Err(error) = self.send(number, request, beside) {
            self.books().asked.remove(&number);
            return Err(error);
        }
        match wait(&replied, patience) {
            Err(Error::TimedOut(_)) => self.give_up(number, &replied, opens, patience),
            outcome => outcome,
        }
    }

    /// Asks for something whose reply nobody needs.
    pub fn say(&self, request: Request) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // If the manager is gone, it knows already.
        let _ = self.send(number, request, &[]);
    }

    fn send(&self, number: u32, request: Request, beside: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let bytes = wire::encode(&Ask { number, request });
        if bytes.len() > wire::MOST_BYTES {
            return Err(Denied::LongGreeting.into());
        }
        wire::send(self.socket.as_fd(), &bytes, beside).map_err(|_| Error::ManagerGone)
    }

    /// The time is over: the reader is not to hand anything to us any more, unless it just did.
    fn give_up(
        &self,
        number: u32,
        replied: &Receiver<Outcome>,
        opens: bool,
        patience: Duration,
    ) -> Result<Replied, Error> {
        if self.books().asked.remove(&number).is_none() {
            return wait(replied, patience);
        }
        if opens {
            self.say(Request::Abandon { number });
        }
        Err(Error::TimedOut(patience))
    }

    /// Reads until the manager is gone, or the connection closed.
    pub fn read(&self) {
        while let Ok(Incoming::Packet(bytes, beside)) = wire::receive(self.socket.as_fd()) {
            match wire::decode::<Tell>(&bytes) {
                Ok(Tell::Reply { number, outcome }) => self.replied(number, outcome, beside),
                Ok(Tell::Event(event)) => self.happened(event, beside),
                Err(wire::Malformed) => break,
            }
        }
        let mut books = self.books();
        books.ended = true;
        // Who waits finds that nobody will answer.
        books.asked.clear();
        books.services.values().for_each(|service| service.end());
    }

    /// Ends the reader.
    pub fn close(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// False: this process has the name already.
    pub fn add_service(&self, name: &str, waiting: Arc<Waiting>) -> bool {
        let mut books = self.books();
        if books.ended {
            waiting.end();
        }
        if books.services.contains_key(name) {
            return false;
        }
        books.services.insert(name.to_string(), waiting);
        true
    }

    pub fn remove_service(&self, name: &str) {
        self.books().services.remove(name);
    }

    pub fn remove_channel(&self, id: ChannelId) {
        self.books().channels.remove(&id);
    }

    fn replied(&self, number: u32, outcome: Result<Reply, Denied>, beside: Vec<OwnedFd>) {
        let asked = self.books().asked.remove(&number);
        let outcome = match outcome {
            Ok(Reply::Opened(opened)) => {
                let id = opened.channel;
                match (self.opened(opened, beside), &asked) {
                    (Ok((link, greeting)), Some(_)) => Ok(Replied::Opened(link, greeting)),
                    (Ok((link, _)), None) => return self.abandon(&link),
                    (Err(error), _) => {
                        self.say(Request::Close { channel: id });
                        Err(Denied::Memory(error.to_string()))
                    }
                }
            }
            Ok(reply) => Ok(Replied::Plain(reply, beside)),
            Err(denied) => Err(denied),
        };
        if let Some(asked) = asked {
            // There is room for the one reply; nobody may be there any more to hear it.
            if let Err(error) = asked.send(outcome)
                && let Ok(Replied::Opened(link, _)) = &error.0
            {
                self.abandon(link);
            }
        }
    }

    /// A channel that nobody waits for any more.
    fn abandon(&self, link: &ChannelLink) {
        self.remove_channel(link.id());
        link.unmap(&self.space);
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
                    (Err(_), _) => self.say(Request::Close { channel: id }),
                }
            }
            Event::Granted { channel, segment, access } => {
                let Some(link) = self.channel(channel) else { return };
                // What cannot be mapped was not granted: naming it is an error then.
                if let Some(file) = beside.first()
                    && link.has_room()
                    && self.space.map(segment, file.as_fd(), access).is_ok()
                {
                    link.granted(segment, access);
                }
            }
            Event::Withdrawn { channel, offset } => {
                self.channel(channel).inspect(|link| link.withdrawn(offset));
            }
            Event::Gone { channel, cause } => {
                let Some(link) = self.channel(channel) else { return };
                link.note_gone(cause);
                self.bells.get(link.own_bell()).ring(None);
            }
        }
    }

    /// Makes a channel's near end.
    fn opened(
        &self,
        opened: Opened,
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

fn wait(replied: &Receiver<Outcome>, patience: Duration) -> Result<Replied, Error> {
    match replied.recv_timeout(patience) {
        Ok(outcome) => outcome.map_err(Error::Denied),
        Err(RecvTimeoutError::Timeout) => Err(Error::TimedOut(patience)),
        Err(RecvTimeoutError::Disconnected) => Err(Error::ManagerGone),
    }
}

/// What a channel's word of its peer's end means; zero while it lives.
pub fn cause_of(word: u32) -> Option<Cause> {
    match word {
        0 => None,
        1 => Some(Cause::Closed),
        _ => Some(Cause::Died),
    }
}

pub fn word_of(cause: Cause) -> u32 {
    match cause {
        Cause::Closed => 1,
        Cause::Died => 2,
    }
}
