//! Client of a memory node, over either transport.

use super::address::Address;
use super::error::Error;
use super::request::{Owed, PageCompletion, Rejected};
use super::settings::{NodeLimits, Settings};
use super::{shared, tcp};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;

/// Session of a process with a memory node.
pub enum Client {
    Tcp(Box<tcp::NodeConnection>),
    Shared(Box<shared::Mapped>),
}

impl Client {
    /// Connects to the node and greets it. Blocks, for at most `timeout_ns`.
    ///
    /// # Errors
    /// If no node listens there, not in this protocol, or it refuses: the error says which.
    pub fn connect(settings: &Settings) -> Result<Client, Error> {
        match settings.address {
            Address::Tcp { .. } | Address::Encrypted { .. } => {
                tcp::NodeConnection::open(settings).map(|c| Client::Tcp(Box::new(c)))
            }
            Address::Shared(_) => shared::Mapped::open(settings).map(|c| Client::Shared(Box::new(c))),
        }
    }

    /// Queues a store of the page at `slot`.
    ///
    /// # Errors
    /// See [`Rejected`]; nothing changed then.
    ///
    /// # Safety
    /// The page at `slot` stays readable and unchanged until the store completes, or [`Client::withdraw`] gives
    /// it back.
    pub unsafe fn store(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: as the caller says.
            Client::Tcp(client) => unsafe { client.session.store(id, slot) },
            // SAFETY: as the caller says.
            Client::Shared(client) => unsafe { client.store(id, slot) },
        }
    }

    /// Queues a load into the page at `slot`. It is sent at the next [`Client::progress`], before stores.
    ///
    /// # Errors
    /// See [`Rejected`]; nothing changed then.
    ///
    /// # Safety
    /// The page at `slot` stays writable, and nothing else uses it, until the load completes.
    pub unsafe fn load(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: as the caller says.
            Client::Tcp(client) => unsafe { client.session.load(id, slot) },
            // SAFETY: as the caller says.
            Client::Shared(client) => unsafe { client.load(id, slot) },
        }
    }

    /// Has the node drop these pages. Returns how many, from the first on, were accepted; the caller tries the
    /// rest again after some progress.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        match self {
            Client::Tcp(client) => client.session.forget(ids),
            Client::Shared(client) => client.forget(ids),
        }
    }

    /// Withdraws a store that was not sent yet: its slot belongs to the caller again at once, it will not complete, and
    /// the node's older copy must not be loaded. Returns false if it was sent, and will complete.
    pub fn withdraw(&mut self, id: u32) -> bool {
        match self {
            Client::Tcp(client) => client.session.withdraw(id),
            Client::Shared(client) => client.withdraw(id),
        }
    }

    /// Sends the queued stores even though no batch is full, at the next [`Client::progress`].
    pub fn flush(&mut self) {
        if let Client::Tcp(client) = self {
            client.session.flush();
        }
    }

    /// Sends and receives as much as possible without blocking, and appends completed requests to `done`.
    ///
    /// # Errors
    /// If the session is over; `done` has what was completed before.
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

    /// Returns the descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Tcp(client) => client.fd(),
            Client::Shared(client) => client.fd(),
        }
    }

    /// Returns the events to poll for: the node's death always shows.
    pub fn interest(&self) -> PollFlags {
        match self {
            Client::Tcp(client) if client.is_blocked() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Returns what the node still owes.
    pub fn owed(&self) -> Option<Owed> {
        match self {
            Client::Tcp(client) => client.session.owed(),
            Client::Shared(client) => client.owed(),
        }
    }

    /// Returns how often something arrived from the node: if this number changes, it is not silent.
    pub fn heard(&self) -> u64 {
        match self {
            Client::Tcp(client) => client.heard(),
            Client::Shared(client) => client.heard(),
        }
    }

    /// Returns whether nothing is queued, under way, or completed and not reported yet.
    pub fn is_idle(&self) -> bool {
        match self {
            Client::Tcp(client) => client.session.is_idle(),
            Client::Shared(client) => client.is_idle(),
        }
    }
}
