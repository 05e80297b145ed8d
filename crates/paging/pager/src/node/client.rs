//! Client of a memory node, over either transport.

use super::address::Address;
use super::error::Error;
use super::request::{Owed, PageCompletion, Rejected};
use super::settings::{NodeLimits, NodeSettings};
use super::{shared, tcp};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;

/// Session of a process with a memory node, over TCP or shared memory.
pub enum Client {
    Tcp(Box<tcp::NodeConnection>),
    Shared(Box<shared::MappedNode>),
}

impl Client {
    /// Connects to the node and greets it. Blocks for at most `timeout_ns`.
    ///
    /// # Errors
    /// If no node listens at the address, if it speaks another protocol, or if it refuses the session. The error states which of these
    /// happened.
    pub fn connect(settings: &NodeSettings) -> Result<Client, Error> {
        match settings.address {
            Address::Tcp { .. } | Address::Encrypted { .. } => {
                tcp::NodeConnection::open(settings).map(|c| Client::Tcp(Box::new(c)))
            }
            Address::Shared(_) => shared::MappedNode::open(settings).map(|c| Client::Shared(Box::new(c))),
        }
    }

    /// Queues a store of the page at `slot`.
    ///
    /// # Errors
    /// See [`Rejected`]; after an error, the session is unchanged.
    ///
    /// # Safety
    /// The page at `slot` stays readable and unchanged until the store completes, or until [`Client::withdraw`] returns true for it.
    pub unsafe fn store(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: the caller guarantees that the page stays readable and unchanged.
            Client::Tcp(client) => unsafe { client.session.store(id, slot) },
            // SAFETY: the caller guarantees that the page stays readable and unchanged.
            Client::Shared(client) => unsafe { client.store(id, slot) },
        }
    }

    /// Queues a load into the page at `slot`. The load is sent at the next [`Client::progress`], before stores.
    ///
    /// # Errors
    /// See [`Rejected`]; after an error, the session is unchanged.
    ///
    /// # Safety
    /// The page at `slot` stays writable and is not used otherwise until the load completes.
    pub unsafe fn load(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: the caller guarantees that the page stays writable and unused otherwise.
            Client::Tcp(client) => unsafe { client.session.load(id, slot) },
            // SAFETY: the caller guarantees that the page stays writable and unused otherwise.
            Client::Shared(client) => unsafe { client.load(id, slot) },
        }
    }

    /// Makes the node drop these pages. Returns how many of them, from the first on, were accepted; the caller must retry the rest after
    /// some progress.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        match self {
            Client::Tcp(client) => client.session.forget(ids),
            Client::Shared(client) => client.forget(ids),
        }
    }

    /// Withdraws a store that was not sent yet. Its slot belongs to the caller again at once, the store will not complete, and the node's
    /// older copy must not be loaded. Returns false if the store was sent already and will complete.
    pub fn withdraw(&mut self, id: u32) -> bool {
        match self {
            Client::Tcp(client) => client.session.withdraw(id),
            Client::Shared(client) => client.withdraw(id),
        }
    }

    /// Makes the next [`Client::progress`] send the queued stores even if no batch is full.
    pub fn flush(&mut self) {
        if let Client::Tcp(client) = self {
            client.session.flush();
        }
    }

    /// Sends and receives as much as possible without blocking, and appends completed requests to `done`.
    ///
    /// # Errors
    /// If the session is over. Requests that completed before are in `done` nevertheless.
    pub fn progress(&mut self, done: &mut Vec<PageCompletion>) -> Result<(), Error> {
        match self {
            Client::Tcp(client) => client.progress(done),
            Client::Shared(client) => client.progress(done),
        }
    }

    /// Returns the limits that the node stated when the session began.
    pub fn limits(&self) -> NodeLimits {
        match self {
            Client::Tcp(client) => client.limits,
            Client::Shared(client) => client.limits,
        }
    }

    /// Returns the descriptor that the caller must poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Tcp(client) => client.fd(),
            Client::Shared(client) => client.fd(),
        }
    }

    /// Returns the events to poll for. The end of the node is reported in any case.
    pub fn interest(&self) -> PollFlags {
        match self {
            Client::Tcp(client) if client.is_blocked() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Returns the kind of answer that the node still owes, if any.
    pub fn owed(&self) -> Option<Owed> {
        match self {
            Client::Tcp(client) => client.session.owed(),
            Client::Shared(client) => client.owed(),
        }
    }

    /// Returns how often data arrived from the node. While this number changes, the node is not silent.
    pub fn heard(&self) -> u64 {
        match self {
            Client::Tcp(client) => client.heard(),
            Client::Shared(client) => client.heard(),
        }
    }

    /// Returns whether the session has no request that is queued, in flight, or completed but not yet reported.
    pub fn is_idle(&self) -> bool {
        match self {
            Client::Tcp(client) => client.session.is_idle(),
            Client::Shared(client) => client.is_idle(),
        }
    }
}
