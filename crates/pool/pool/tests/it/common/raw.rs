//! A client that speaks the manager's protocol without the library.

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::path::Path;
use unrack_pool::Wakeups;
use unrack_pool::wire::{
    self, Ask, ChannelId, ClientId, Denied, Event, Hello, ReceivedPacket, Reply, Request, Tell, Welcome,
};

/// A connection without the library.
pub(crate) struct Raw {
    /// Number that the manager gave this process.
    pub id: ClientId,
    pub socket: OwnedFd,
    number: u32,
    /// Events that came while a reply was awaited.
    heard: VecDeque<(Tell, Vec<OwnedFd>)>,
}

impl Raw {
    /// Connects as a new process.
    pub(crate) fn new(path: &Path) -> Raw {
        Raw::greet(path, None)
    }

    /// Connects as the process that had this number at the manager before.
    pub(crate) fn again(path: &Path, id: ClientId) -> Raw {
        Raw::greet(path, Some(id))
    }

    fn greet(path: &Path, again: Option<ClientId>) -> Raw {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).expect("a manager listens");
        let wakeups = Wakeups::make().unwrap();
        let hello = wire::first(&Hello { name: "raw".into(), again });
        wire::send(socket.as_fd(), &hello, &[wakeups.file()]).unwrap();
        let ReceivedPacket::Packet(bytes, _) = wire::receive(socket.as_fd()).unwrap() else {
            panic!("no welcome")
        };
        let welcome = wire::read_first::<Result<Welcome, Denied>>(&bytes).unwrap().expect("it is let in");
        Raw { id: welcome.you, socket, number: 0, heard: VecDeque::new() }
    }

    /// Asks, and returns the reply with the descriptors beside it.
    pub(crate) fn ask(&mut self, request: Request) -> (Result<Reply, Denied>, Vec<OwnedFd>) {
        self.number += 1;
        wire::send(self.socket.as_fd(), &wire::encode(&Ask { number: self.number, request }), &[]).unwrap();
        loop {
            match self.receive() {
                (Tell::Reply { number, outcome }, beside) if number == self.number => {
                    return (outcome, beside);
                }
                heard => self.heard.push_back(heard),
            }
        }
    }

    /// Returns the next event.
    pub(crate) fn hear(&mut self) -> (Tell, Vec<OwnedFd>) {
        self.heard.pop_front().unwrap_or_else(|| self.receive())
    }

    fn receive(&self) -> (Tell, Vec<OwnedFd>) {
        let ReceivedPacket::Packet(bytes, beside) = wire::receive(self.socket.as_fd()).unwrap() else {
            panic!("the end")
        };
        (wire::decode(&bytes).unwrap(), beside)
    }

    /// Accepts the next caller of a service, and returns the channel.
    pub(crate) fn accept(&mut self) -> ChannelId {
        loop {
            if let (Tell::Event(Event::Offered { offer, .. }), _) = self.hear() {
                let accepted = wire::Accepted { greeting: Vec::new(), wakeup: 0 };
                let verdict = Ok(accepted);
                self.ask(Request::Answer { channel: offer.channel, verdict }).0.unwrap();
                return offer.channel;
            }
        }
    }

    /// Returns the next segment that is granted to it.
    pub(crate) fn granted(&mut self) -> OwnedFd {
        loop {
            if let (Tell::Event(Event::Granted { .. }), mut beside) = self.hear() {
                return beside.remove(0);
            }
        }
    }
}
