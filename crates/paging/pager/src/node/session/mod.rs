//! Session with a memory node over a stream: selects which requests to send next, and processes answers.
//!
//! Sans-IO: a driver obtains the bytes to send ([`NodeSession::outgoing`]) and the memory in which received bytes belong
//! ([`NodeSession::landing`]), and reports how many bytes were transferred ([`NodeSession::sent`], [`NodeSession::landed`]). The session
//! never copies pages: they are sent from, and received into, the slots that the caller named. This works for received pages because
//! replies come in order, so that the size and place of each page are known in advance; an unexpected reply ends the session.
//!
//! The session takes the three steps of DDC §5.1. *Batch*: stores wait until a batch is full or the caller calls [`NodeSession::flush`].
//! *Merge*: neighbouring ids are sent as one message. *Asynchronous*: up to a window of stores and a window of loads are in flight at once,
//! and each page completes separately. A window has room for several messages, so that one is in transit while another is processed; a much
//! larger window would only fill caches.
//!
//! Loads overtake stores that are not in the outbox yet. The exception is a load of a page with a waiting store: then that store and all
//! stores before it are sent first.

mod receiving;
mod sending;

use super::held::ById;
use super::request::{Owed, Rejected};
use super::settings::Tuning;
use alloc::collections::VecDeque;
use rapidhash::v3::rapidhash_v3;
use unrack_wire::{EndReason, HEADER, Header, Malformed, PAGE};

/// Reason why a session cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionError {
    Ended(EndReason),
    Garbage(&'static str),
    Corrupt { id: u32 },
}

impl From<Malformed> for SessionError {
    fn from(malformed: Malformed) -> SessionError {
        SessionError::Garbage(malformed.0)
    }
}

/// Request of the caller, in the order in which the caller made it.
#[derive(Debug, Clone, Copy)]
enum SessionRequest {
    Store { id: u32, at: usize },
    Load { id: u32, target: ReplyTarget },
    Forget { id: u32, count: u16 },
}

/// One contiguous part of the outgoing stream: a header or a page.
#[derive(Debug, Clone, Copy)]
struct StreamPiece {
    content: PageContent,
    /// True for the last part of a message that the node will answer.
    ends: bool,
}

#[derive(Debug, Clone, Copy)]
enum PageContent {
    Head([u8; HEADER]),
    Page(usize),
}

/// Request that the node will answer. The request is in the outbox or was sent.
#[derive(Debug, Clone, Copy)]
struct AwaitedReply {
    request: Header,
    reply: [u8; HEADER],
}

/// Address where a page from a reply belongs, and its expected checksum.
#[derive(Debug, Clone, Copy)]
struct ReplyTarget {
    at: usize,
    checksum: u64,
}

/// State of a page id in this session.
#[derive(Debug, Clone, Copy)]
struct PageIdState {
    checksum: u64,
    /// Number of stores of the page that are still in `lazy`.
    waiting: u16,
    /// True if the page may be loaded.
    held: bool,
}

/// Session with a memory node over a stream.
pub struct NodeSession {
    tuning: Tuning,
    known: ById<PageIdState>,
    /// Loads, and the stores that have to be sent before them.
    urgent: VecDeque<SessionRequest>,
    /// Stores that are not urgent, and forgets.
    lazy: VecDeque<SessionRequest>,
    /// Number of requests at the front of `lazy` that need not wait for a batch.
    due: usize,
    /// Number of loads that are not complete.
    loads: usize,
    /// Number of pages of stores that are in the outbox or in flight.
    in_flight: usize,
    number: u32,
    outbox: VecDeque<StreamPiece>,
    /// Number of bytes of the first piece of the outbox that were sent.
    sent: usize,
    awaited: VecDeque<AwaitedReply>,
    /// Number of requests at the front of `awaited` that were sent completely.
    asked: usize,
    targets: VecDeque<ReplyTarget>,
    /// Number of bytes of the first awaited reply that were received.
    landed: usize,
    /// Header of a message that arrives while no reply is awaited.
    unasked: [u8; HEADER],
    unasked_len: usize,
}

impl NodeSession {
    /// Makes a session without requests.
    pub fn new(tuning: Tuning) -> NodeSession {
        NodeSession {
            tuning,
            known: ById::new(PageIdState { checksum: 0, waiting: 0, held: false }),
            urgent: VecDeque::new(),
            lazy: VecDeque::new(),
            due: 0,
            loads: 0,
            in_flight: 0,
            number: 0,
            outbox: VecDeque::new(),
            sent: 0,
            awaited: VecDeque::new(),
            asked: 0,
            targets: VecDeque::new(),
            landed: 0,
            unasked: [0; HEADER],
            unasked_len: 0,
        }
    }

    /// Queues a store of the page at `at`.
    ///
    /// # Errors
    /// [`Rejected::BadId`] if the node does not support this id, [`Rejected::Full`] if the queue of stores is full.
    ///
    /// # Safety
    /// The page stays readable and unchanged until [`Stored`](super::PageCompletion::Stored) or
    /// [`Refused`](super::PageCompletion::Refused), or until [`NodeSession::withdraw`] returns true for it.
    pub unsafe fn store(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        self.check(id, self.lazy.len())?;
        // SAFETY: the caller guarantees that the page is readable and unchanged.
        let checksum = if self.tuning.checksums { unsafe { hash_of(at) } } else { 0 };
        let known = self.known.get_mut(id);
        *known = PageIdState { checksum, waiting: known.waiting + 1, held: true };
        self.lazy.push_back(SessionRequest::Store { id, at });
        self.flush_full_batch();
        Ok(())
    }

    /// Queues a load into the page at `at`.
    ///
    /// # Errors
    /// [`Rejected::BadId`] if the node does not support this id, [`Rejected::Full`] if the queue of loads is full, [`Rejected::NotHeld`] if
    /// the node does not have this page.
    ///
    /// # Safety
    /// The page stays writable and is not used otherwise until [`Loaded`](super::PageCompletion::Loaded).
    pub unsafe fn load(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        self.check(id, self.loads)?;
        let known = self.known.get(id);
        if !known.held {
            return Err(Rejected::NotHeld);
        }
        if known.waiting > 0 {
            self.hurry(id);
        }
        self.loads += 1;
        self.urgent
            .push_back(SessionRequest::Load { id, target: ReplyTarget { at, checksum: known.checksum } });
        Ok(())
    }

    /// Makes the node drop these pages after all earlier requests. Returns how many of them, from the first on, were accepted.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        ids.iter().take_while(|id| self.forget_one(**id).is_ok()).count()
    }

    fn forget_one(&mut self, id: u32) -> Result<(), Rejected> {
        if id >= self.tuning.most_ids {
            return Ok(());
        }
        match self.lazy.back_mut() {
            Some(SessionRequest::Forget { id: first, count })
                if *first + *count as u32 == id && *count < u16::MAX =>
            {
                *count += 1;
            }
            _ => {
                self.check(id, self.lazy.len())?;
                self.lazy.push_back(SessionRequest::Forget { id, count: 1 });
            }
        }
        self.known.get_mut(id).held = false;
        self.flush_full_batch();
        Ok(())
    }

    /// Withdraws a store that was not sent yet. The store will not complete, and its page cannot be loaded before the next store. Returns
    /// false if it is too late and the store will complete.
    pub fn withdraw(&mut self, id: u32) -> bool {
        let Some(place) = self.unsent(id) else { return false };
        self.lazy.remove(place);
        self.due -= (place < self.due) as usize;
        *self.known.get_mut(id) = PageIdState { checksum: 0, waiting: 0, held: false };
        true
    }

    /// Returns whether [`NodeSession::withdraw`] would succeed.
    pub fn is_unsent(&self, id: u32) -> bool {
        self.unsent(id).is_some()
    }

    /// Returns the place in the queue of the only store of `id` that waits there.
    fn unsent(&self, id: u32) -> Option<usize> {
        let is_it =
            |wish: &SessionRequest| matches!(wish, SessionRequest::Store { id: stored, .. } if *stored == id);
        (self.known.get(id).waiting == 1).then(|| self.lazy.iter().position(is_it)).flatten()
    }

    /// Makes all queued stores and forgets due, so that they are sent as soon as the window has room, whether a batch is full or not.
    pub fn flush(&mut self) {
        self.due = self.lazy.len();
    }

    fn flush_full_batch(&mut self) {
        if self.lazy.len() - self.due >= self.tuning.batch {
            self.flush();
        }
    }

    /// Sends a ping, unless the node owes an answer anyway. In both cases, each side learns that the other one is alive.
    pub fn ping(&mut self) {
        if !self.awaits() {
            self.post_ping();
        }
    }

    /// Returns whether the session has no request that is queued or in flight.
    pub fn is_idle(&self) -> bool {
        self.urgent.is_empty() && self.lazy.is_empty() && self.outbox.is_empty() && self.awaited.is_empty()
    }

    /// Returns whether the node owes any answer.
    pub fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Returns the kind of answer that the node owes, or `None` if no page is waited for.
    pub fn owed(&self) -> Option<Owed> {
        match (self.loads, self.in_flight) {
            (0, 0) => None,
            (0, _) => Some(Owed::Room),
            _ => Some(Owed::Pages),
        }
    }

    fn check(&self, id: u32, queued: usize) -> Result<(), Rejected> {
        match () {
            _ if id >= self.tuning.most_ids => Err(Rejected::BadId),
            _ if queued >= self.tuning.queue => Err(Rejected::Full),
            _ => Ok(()),
        }
    }

    /// Makes the last store of `id`, and all requests before it, as urgent as loads.
    fn hurry(&mut self, id: u32) {
        let is_it =
            |wish: &SessionRequest| matches!(wish, SessionRequest::Store { id: stored, .. } if *stored == id);
        let Some(last) = self.lazy.iter().rposition(is_it) else { return };
        self.urgent.extend(self.lazy.drain(..=last));
        self.due = self.due.saturating_sub(last + 1);
        for wish in self.urgent.range(self.urgent.len() - (last + 1)..) {
            if let SessionRequest::Store { id, .. } = wish {
                self.known.get_mut(*id).waiting -= 1;
            }
        }
    }
}

/// Returns the checksum of the page at `at`.
///
/// # Safety
/// There is a readable page at `at` that does not change meanwhile.
pub(super) unsafe fn hash_of(at: usize) -> u64 {
    // SAFETY: the caller guarantees that the page is readable and does not change.
    rapidhash_v3(unsafe { core::slice::from_raw_parts(at as *const u8, PAGE) })
}
