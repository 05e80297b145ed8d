//! A session with a memory node over TCP.

use super::connect::{self, Link};
use super::error::{Error, ErrorKind};
use super::meter::Meter;
use super::pulse::Pulse;
use super::request::PageCompletion;
use super::session::NodeSession;
use super::settings::{NodeLimits, NodeSettings};
use crate::sys::now_ns;
use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use unrack_wire::PageTransport;

/// Maximum number of buffers that one system call sends or receives.
const PARTS: usize = 64;

/// Connection to a node over TCP.
pub struct NodeConnection {
    pub(super) link: Link,
    pub(super) session: NodeSession,
    pub(super) pulse: Pulse,
    pub(super) limits: NodeLimits,
    meter: Meter,
    blocked: bool,
    /// True if data was sent in the current exchange.
    has_said: bool,
    heard: u64,
}

impl NodeConnection {
    pub(super) fn open(settings: &NodeSettings) -> Result<NodeConnection, Error> {
        let (link, welcome) = connect::greet(settings, PageTransport::Stream)?;
        Ok(NodeConnection {
            link,
            session: NodeSession::new(settings.tuning.within(&welcome)),
            pulse: Pulse::new(welcome.silence_ms, settings.patience_ns, now_ns()),
            limits: NodeLimits::new(&welcome),
            meter: Meter::new(settings.counts),
            blocked: false,
            has_said: false,
            heard: 0,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.link.socket.as_fd()
    }

    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Returns whether bytes wait for room in the kernel's buffer.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub(super) fn progress(&mut self, done: &mut Vec<PageCompletion>) -> Result<(), Error> {
        let now_ns = now_ns();
        if self.pulse.is_due(now_ns) {
            self.session.ping();
            // This counts even if an answer is owed already, because no ping is needed then.
            self.pulse.said(now_ns);
        }
        self.has_said = false;
        let before = done.len();
        let came = self.exchange(done)?;
        self.meter.read(&done[before..], self.session.owed(), now_ns);
        if self.has_said {
            self.pulse.said(now_ns);
        }
        self.pulse.heard(came, self.session.awaits(), now_ns);
        match self.pulse.given_up_ns(now_ns) {
            Some(silent_ns) => Err(self.link.error(ErrorKind::Silent { seconds: silent_ns / 1_000_000_000 })),
            None => Ok(()),
        }
    }

    /// Sends and receives as much as possible without blocking. Returns whether data arrived.
    fn exchange(&mut self, done: &mut Vec<PageCompletion>) -> Result<bool, Error> {
        let mut came = false;
        let mut awaited_before = self.session.awaits();
        loop {
            let added = self.session.fill();
            let sent = self.send();
            // After the first request, the answer cannot have arrived yet. Therefore a read would be useless.
            if awaited_before || !added || sent.is_err() {
                came |= self.receive(done)?;
            }
            sent.map_err(|errno| self.link.broken(errno))?;
            awaited_before = true;
            if !self.session.fill() {
                return Ok(came);
            }
        }
    }

    fn send(&mut self) -> Result<(), Errno> {
        self.blocked = false;
        loop {
            let mut parts = [IoSlice::new(&[]); PARTS];
            let (used, bytes) = self.session.outgoing(&mut parts);
            if used == 0 {
                return Ok(());
            }
            let (flags, mut nothing) = (SendFlags::NOSIGNAL, SendAncillaryBuffer::default());
            match rustix::net::sendmsg(&self.link.socket, &parts[..used], &mut nothing, flags) {
                Ok(sent) => {
                    self.session.sent(sent);
                    self.has_said = true;
                    self.blocked = sent < bytes;
                }
                Err(Errno::AGAIN) => self.blocked = true,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            if self.blocked {
                return Ok(());
            }
        }
    }

    /// Receives the data that has arrived. Returns whether there was any.
    fn receive(&mut self, done: &mut Vec<PageCompletion>) -> Result<bool, Error> {
        let mut came = false;
        loop {
            let mut parts: [IoSliceMut; PARTS] = core::array::from_fn(|_| IoSliceMut::new(&mut []));
            let (used, bytes) = self.session.landing(&mut parts);
            let landed = match rustix::io::readv(&self.link.socket, &mut parts[..used]) {
                Ok(0) => return Err(self.link.error(ErrorKind::Closed)),
                Ok(landed) => landed,
                Err(Errno::AGAIN) => return Ok(came),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.link.broken(errno)),
            };
            came = true;
            self.heard += 1;
            self.session.landed(landed, done).map_err(|fault| self.link.error(fault.into()))?;
            if landed < bytes || !self.session.awaits() {
                return Ok(came);
            }
        }
    }
}
