//! Reconnecting to the next manager, and reporting to it what this process has.

use super::{Link, PATIENCE, PAUSES, Standing, send};
use crate::client::connect::{ConnectLimit, connect, greet};
use crate::client::error::Error;
use crate::wire::{self, ChannelId, Denied, ReceivedPacket, Request, Tell};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Link {
    /// Waits for the next manager, and reports to it the segments, channels and services of this process. Returns
    /// `None` if that manager does not know this process, or if this process disconnects.
    pub(super) fn reconnect(&self) -> Option<Arc<OwnedFd>> {
        let mut pause = PAUSES[0];
        loop {
            if self.books().standing == Standing::Over {
                return None;
            }
            match self.try_reconnect() {
                Ok(socket) => {
                    self.changed.notify_all();
                    return Some(socket);
                }
                Err(Error::Denied(_) | Error::NotAPool(_)) => return None,
                Err(_) => {
                    let books = self.books();
                    if books.standing == Standing::Away {
                        drop(self.changed.wait_timeout(books, pause));
                    }
                    pause = PAUSES[1].min(pause * 2);
                }
            }
        }
    }

    fn try_reconnect(&self) -> Result<Arc<OwnedFd>, Error> {
        let limit = ConnectLimit::new(PATIENCE);
        let socket = Arc::new(connect(&self.connecting.path, limit)?);
        let (welcome, _) = greet(&socket, &self.connecting, Some(self.welcome.you), limit)?;
        if welcome != self.welcome {
            return Err(Denied::Stranger.into());
        }
        {
            let mut books = self.books();
            if books.standing == Standing::Over {
                return Err(Error::ManagerGone);
            }
            // The socket is stored before the requests below, so that closing the connection also ends them.
            books.socket = socket.clone();
        }
        let offsets: Vec<u64> = self.books().segments.keys().copied().collect();
        for offset in offsets {
            let file = self.books().segments.get(&offset).and_then(|file| file.as_ref()?.try_clone().ok());
            let beside: Vec<BorrowedFd> = file.iter().map(|file| file.as_fd()).collect();
            self.ask_here(&socket, &Request::HandBack { offset }, &beside)?;
        }
        let channels: Vec<ChannelId> = self.books().channels.keys().copied().collect();
        for some in channels.chunks(1000) {
            self.ask_here(&socket, &Request::Keep { channels: some.to_vec() }, &[])?;
        }
        let services: Vec<String> = self.books().services.keys().cloned().collect();
        for service in services {
            self.ask_here(&socket, &Request::Register { service }, &[])?;
        }
        self.ask_here(&socket, &Request::Resumed, &[])?;
        // Sends the requests that gave something up while no manager was connected, some of them after this process had
        // reported the item. Other threads may send no requests until all of these are sent; otherwise an offset that
        // is released here could already have been leased again.
        while let Some(request) = self.next_late() {
            self.ask_here(&socket, &request, &[])?;
        }
        Ok(socket)
    }

    /// Returns the next delayed request. If none is left, allows all threads to send requests to the manager again.
    fn next_late(&self) -> Option<Request> {
        let mut books = self.books();
        let late = books.late.pop();
        if late.is_none() && books.standing == Standing::Away {
            books.standing = Standing::Connected;
        }
        match late {
            // The service was registered again meanwhile, so its name must not be withdrawn.
            Some(Request::Withdraw { service }) if books.services.contains_key(&service) => {
                Some(Request::Sync)
            }
            late => late,
        }
    }

    /// Sends a request and waits for its reply on the reading thread itself, which handles other messages while it
    /// waits. A denial is ignored because it only means that the item no longer exists.
    fn ask_here(&self, socket: &OwnedFd, request: &Request, beside: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let asked = self.number.fetch_add(1, Ordering::Relaxed);
        send(socket, asked, request, beside)?;
        loop {
            let received = wire::receive(socket.as_fd()).map_err(|_| Error::ManagerGone)?;
            let ReceivedPacket::Packet(bytes, beside) = received else { return Err(Error::ManagerGone) };
            match wire::decode::<Tell>(&bytes) {
                Ok(Tell::Reply { number, .. }) if number == asked => return Ok(()),
                Ok(Tell::Reply { number, outcome }) => self.replied(number, outcome, beside),
                Ok(Tell::Event(event)) => self.happened(event, beside),
                Err(wire::Malformed) => return Err(Error::NotAPool(self.connecting.path.clone())),
            }
        }
    }
}
