//! Client of one memory node, over either transport, or of several nodes.

use super::address::Address;
use super::error::{Error, ErrorKind};
use super::request::{Owed, PageCompletion, Rejected};
use super::settings::{NodeLimits, NodeSettings};
use super::several::{NodeSet, Redundancy};
use super::{shared, tcp};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;

/// Session of a process with a memory node, over TCP or shared memory, or sessions with several nodes.
pub enum Client {
    Tcp(Box<tcp::NodeConnection>),
    Shared(Box<shared::MappedNode>),
    Several(Box<NodeSet>),
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

    /// Connects to one or more nodes; with one, the result is that of [`Client::connect`].
    ///
    /// # Errors
    /// The same as for [`Client::connect`]. In a mirror only if there is no connection to any of the nodes.
    ///
    /// # Panics
    /// If there is no node.
    pub fn connect_all(nodes: &[NodeSettings], redundancy: Redundancy) -> Result<Client, Error> {
        match nodes {
            [node] => Client::connect(node),
            nodes => NodeSet::connect(nodes, redundancy).map(|set| Client::Several(Box::new(set))),
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
            // SAFETY: the caller guarantees that the page stays readable and unchanged.
            Client::Several(set) => unsafe { set.store(id, slot) },
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
            // SAFETY: the caller guarantees that the page stays writable and unused otherwise.
            Client::Several(set) => unsafe { set.load(id, slot) },
        }
    }

    /// Makes the node drop these pages. Returns how many of them, from the first on, were accepted; the caller must retry the rest after
    /// some progress.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        match self {
            Client::Tcp(client) => client.session.forget(ids),
            Client::Shared(client) => client.forget(ids),
            Client::Several(set) => set.forget(ids),
        }
    }

    /// Withdraws a store that was not sent yet. Its slot belongs to the caller again at once, the store will not complete, and the node's
    /// older copy must not be loaded. Returns false if the store was sent already and will complete.
    pub fn withdraw(&mut self, id: u32) -> bool {
        match self {
            Client::Tcp(client) => client.session.withdraw(id),
            Client::Shared(client) => client.withdraw(id),
            Client::Several(set) => set.withdraw(id),
        }
    }

    /// Returns whether [`Client::withdraw`] would succeed.
    pub(super) fn is_unsent(&self, id: u32) -> bool {
        match self {
            Client::Tcp(client) => client.session.is_unsent(id),
            Client::Shared(client) => client.is_unsent(id),
            Client::Several(set) => set.is_unsent(id),
        }
    }

    /// Makes the next [`Client::progress`] send the queued stores even if no batch is full.
    pub fn flush(&mut self) {
        match self {
            Client::Tcp(client) => client.session.flush(),
            Client::Shared(_) => {}
            Client::Several(set) => set.flush(),
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
            Client::Several(set) => set.progress(done),
        }
    }

    /// Returns the limits that the node stated when the session began.
    pub fn limits(&self) -> NodeLimits {
        match self {
            Client::Tcp(client) => client.limits,
            Client::Shared(client) => client.limits,
            Client::Several(set) => set.limits(),
        }
    }

    /// Returns the descriptor that the caller must poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Tcp(client) => client.fd(),
            Client::Shared(client) => client.fd(),
            Client::Several(set) => set.fd(),
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
            Client::Several(set) => set.owed(),
        }
    }

    /// Returns how often data arrived from the node. While this number changes, the node is not silent.
    pub fn heard(&self) -> u64 {
        match self {
            Client::Tcp(client) => client.heard(),
            Client::Shared(client) => client.heard(),
            Client::Several(set) => set.heard(),
        }
    }

    /// Returns the index of the node that has owed an answer for longest; `None` if there is only one node, or none owes an answer.
    pub fn awaited_node(&self) -> Option<usize> {
        match self {
            Client::Tcp(_) | Client::Shared(_) => None,
            Client::Several(set) => set.most_silent().map(|(node, _)| node),
        }
    }

    /// Makes an error that names the node of a single session.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        match self {
            Client::Tcp(client) => client.link.error(kind),
            Client::Shared(client) => client.link.error(kind),
            Client::Several(_) => unreachable!("a set has no set among its nodes"),
        }
    }

    /// Returns whether the session has no request that is queued, in flight, or completed but not yet reported.
    pub fn is_idle(&self) -> bool {
        match self {
            Client::Tcp(client) => client.session.is_idle(),
            Client::Shared(client) => client.is_idle(),
            Client::Several(set) => set.is_idle(),
        }
    }
}
