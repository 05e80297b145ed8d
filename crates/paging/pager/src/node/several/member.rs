//! One node of a set: its session, and the requests that wait for room in the session's queues.

use super::super::client::Client;
use super::super::error::Error;
use super::super::request::{Owed, PageCompletion, Rejected};
use crate::control::NodeCounts;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rustix::event::{PollFlags, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Request that waits for room in the session's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitingRequest {
    Store { id: u32, at: usize },
    Load { id: u32, at: usize },
    Forget { id: u32 },
}

/// A node of the set, and the session with it.
pub(super) struct Member {
    pub client: Client,
    pub counts: Option<&'static NodeCounts>,
    /// True if the node refused a page, and none was forgotten there since.
    pub is_full: bool,
    waiting: VecDeque<WaitingRequest>,
    interest: PollFlags,
    /// Number of arrivals, as of the latest check.
    heard: u64,
    /// Time when something arrived last, or when the node last owed no answer, as of the latest check (monotonic ns).
    since_ns: u64,
}

impl Member {
    pub(super) fn new(client: Client, counts: Option<&'static NodeCounts>, now_ns: u64) -> Member {
        Member {
            client,
            counts,
            is_full: false,
            waiting: VecDeque::new(),
            interest: PollFlags::IN,
            heard: 0,
            since_ns: now_ns,
        }
    }

    /// Returns whether the session can take no further request.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Stores a page, now or when there is room in the session's queue.
    ///
    /// # Errors
    /// [`Rejected::BadId`] if the node does not support this id.
    ///
    /// # Safety
    /// The same as for [`Client::store`].
    pub(super) unsafe fn store(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        // SAFETY: the caller guarantees this.
        self.queue(WaitingRequest::Store { id, at }, |client| unsafe { client.store(id, at) })
    }

    /// Loads a page, now or when there is room in the session's queue.
    ///
    /// # Errors
    /// [`Rejected::NotHeld`] if the node does not have the page, [`Rejected::BadId`] if it does not support this id.
    ///
    /// # Safety
    /// The same as for [`Client::load`].
    pub(super) unsafe fn load(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        // SAFETY: the caller guarantees this.
        self.queue(WaitingRequest::Load { id, at }, |client| unsafe { client.load(id, at) })
    }

    /// Makes the node drop a page, now or when there is room in the session's queue.
    pub(super) fn forget(&mut self, id: u32) {
        self.is_full = false;
        // Cannot fail: a session takes any id, or has no room.
        let _ = self.queue(WaitingRequest::Forget { id }, |client| match client.forget(&[id]) {
            0 => Err(Rejected::Full),
            _ => Ok(()),
        });
    }

    fn queue(
        &mut self,
        request: WaitingRequest,
        ask: impl FnOnce(&mut Client) -> Result<(), Rejected>,
    ) -> Result<(), Rejected> {
        let asked = if self.is_busy() { Err(Rejected::Full) } else { ask(&mut self.client) };
        match asked {
            Err(Rejected::Full) => self.waiting.push_back(request),
            other => return other,
        }
        Ok(())
    }

    /// Returns whether the store of a page can still be withdrawn.
    pub(super) fn is_unsent(&self, id: u32) -> bool {
        self.place(id).is_some() || self.client.is_unsent(id)
    }

    /// Withdraws a store for which [`Member::is_unsent`] is true.
    pub(super) fn withdraw(&mut self, id: u32) {
        match self.place(id) {
            Some(place) => _ = self.waiting.remove(place),
            None => _ = self.client.withdraw(id),
        }
    }

    fn place(&self, id: u32) -> Option<usize> {
        let is_it = |request: &WaitingRequest| matches!(request, WaitingRequest::Store { id: stored, .. } if *stored == id);
        self.waiting.iter().position(is_it)
    }

    /// Exchanges bytes with the node, and hands over waiting requests as far as there is room.
    pub(super) fn progress(&mut self, done: &mut Vec<PageCompletion>) -> Result<(), Error> {
        self.client.progress(done)?;
        let mut any = false;
        while let Some(request) = self.waiting.pop_front() {
            let asked = match request {
                // SAFETY: the caller of `Member::store` guarantees this until the store completes.
                WaitingRequest::Store { id, at } => unsafe { self.client.store(id, at) },
                // SAFETY: the caller of `Member::load` guarantees this until the load completes.
                WaitingRequest::Load { id, at } => unsafe { self.client.load(id, at) },
                WaitingRequest::Forget { id } if self.client.forget(&[id]) == 0 => Err(Rejected::Full),
                WaitingRequest::Forget { .. } => Ok(()),
            };
            match asked {
                Ok(()) => any = true,
                Err(Rejected::Full) => {
                    self.waiting.push_front(request);
                    break;
                }
                Err(rejected) => unreachable!("{request:?} was {rejected:?} although the set had checked it"),
            }
        }
        if any { self.client.progress(done) } else { Ok(()) }
    }

    /// Notes arrivals from the node, and makes `ready` report what the session waits for.
    pub(super) fn look(&mut self, ready: &OwnedFd, now_ns: u64) -> Result<(), Errno> {
        let heard = self.client.heard();
        if heard != self.heard || self.client.owed().is_none() {
            (self.heard, self.since_ns) = (heard, now_ns);
        }
        let interest = self.client.interest();
        if interest != self.interest {
            epoll::modify(ready, self.client.fd(), epoll::EventData::new_u64(0), flags(interest))?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Makes `ready` report when the session's socket has data.
    pub(super) fn watch(&self, ready: &OwnedFd) -> Result<(), Errno> {
        epoll::add(ready, self.client.fd(), epoll::EventData::new_u64(0), flags(self.interest))
    }

    /// Returns for how many ns the node has owed an answer without sending any data.
    pub(super) fn silent_ns(&self, now_ns: u64) -> u64 {
        match self.client.owed() {
            Some(Owed::Pages | Owed::Room) => now_ns.saturating_sub(self.since_ns),
            None => 0,
        }
    }
}

fn flags(interest: PollFlags) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::IN;
    flags.set(epoll::EventFlags::OUT, interest.contains(PollFlags::OUT));
    flags
}
