//! Protocol of one session without I/O: it converts bytes of requests into bytes of answers.

use crate::pages::NodePages;
use crate::statistics::{NodeCounters, count};
use std::sync::Arc;
use unrack_wire::{EndReason, HEADER, Header, Malformed, PAGE, Verb};

/// Bytes of pending answers above which no further request is handled. One more answer with its page may exceed this limit.
pub const MOST_REPLIES: usize = 128 << 10;

/// Reason why a session must end because of an error of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFault {
    Malformed(Malformed),
    /// A load of this page, although the page was never stored, was refused or was forgotten.
    NotHeld(u32),
}

impl SessionFault {
    /// Returns the reason that is sent to the client.
    pub fn reason(self) -> EndReason {
        match self {
            SessionFault::Malformed(_) => EndReason::Malformed,
            SessionFault::NotHeld(_) => EndReason::NotHeld,
        }
    }
}

/// Request whose pages are still arriving or being sent.
#[derive(Debug, Clone, Copy)]
enum Moving {
    Store {
        request: Header,
        seen: u32,
        stored: u32,
    },
    /// All pages of the request are stored, and `sent` of them are in the answer so far.
    Load {
        request: Header,
        sent: u32,
    },
}

/// The node's end of one session.
pub struct Session {
    pages: NodePages,
    counters: Arc<NodeCounters>,
    moving: Option<Moving>,
}

impl Session {
    /// Starts a session with no request in progress.
    pub fn new(pages: NodePages, counters: Arc<NodeCounters>) -> Session {
        Session { pages, counters, moving: None }
    }

    /// Returns the session's pages.
    pub fn pages(&self) -> &NodePages {
        &self.pages
    }

    /// Handles `input` from its start, and appends the answers to `replies`. Returns the number of bytes used. The remaining bytes are not
    /// a complete request yet, or must wait until `replies` have been sent.
    ///
    /// # Errors
    /// If the client violated the protocol. The session must then end after `replies` have been sent.
    pub fn receive(&mut self, input: &[u8], replies: &mut Vec<u8>) -> Result<usize, SessionFault> {
        let mut rest = input;
        while replies.len() < MOST_REPLIES {
            let used = match self.moving {
                Some(Moving::Store { request, seen, stored }) => {
                    self.receive_page(request, (seen, stored), rest, replies)
                }
                Some(Moving::Load { request, sent }) => {
                    self.send_page(request, sent, replies);
                    continue;
                }
                None => self.receive_request(rest, replies)?,
            };
            match used {
                0 => break,
                used => rest = &rest[used..],
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Receives one page of a store. Returns the bytes used: one page, or 0 if the page is not complete.
    fn receive_page(
        &mut self,
        request: Header,
        (mut seen, mut stored): (u32, u32),
        input: &[u8],
        replies: &mut Vec<u8>,
    ) -> usize {
        let Some(contents) = input.first_chunk::<PAGE>() else { return 0 };
        // After the first refused page, all further pages are refused too, so that a single number identifies the refused pages to the
        // client.
        let room = stored == seen;
        if let Some(page) = room.then(|| self.pages.get_or_insert(request.id + seen)).flatten() {
            *page = *contents;
            stored += 1;
        }
        seen += 1;
        let ended = seen == request.count as u32;
        if ended {
            replies.extend(request.answer(stored).encode());
            count(&self.counters.stored, stored as u64);
            count(&self.counters.refused, (seen - stored) as u64);
        }
        self.moving = (!ended).then_some(Moving::Store { request, seen, stored });
        PAGE
    }

    /// Appends the next page of a load to `replies`.
    fn send_page(&mut self, request: Header, sent: u32, replies: &mut Vec<u8>) {
        let page = self.pages.get(request.id + sent).expect("looked for when the load began");
        replies.extend_from_slice(page);
        let ended = sent + 1 == request.count as u32;
        self.moving = (!ended).then_some(Moving::Load { request, sent: sent + 1 });
    }

    /// Handles the header of a request. Returns the bytes used.
    fn receive_request(&mut self, input: &[u8], replies: &mut Vec<u8>) -> Result<usize, SessionFault> {
        let Some(head) = input.first_chunk::<HEADER>() else { return Ok(0) };
        let request = Header::decode(head).map_err(SessionFault::Malformed)?;
        request.check_request().map_err(SessionFault::Malformed)?;
        let ids = request.id..request.id.saturating_add(request.count as u32);
        match request.verb {
            Verb::Store => self.begin_store(request),
            Verb::Load => self.load(request, replies)?,
            Verb::Forget => {
                let dropped = ids.filter(|id| self.pages.remove(*id)).count();
                count(&self.counters.forgotten, dropped as u64);
            }
            Verb::Ping => replies.extend(request.answer(0).encode()),
            Verb::Grant | Verb::Bye => {
                return Err(SessionFault::Malformed(Malformed("a request out of place")));
            }
        }
        Ok(HEADER)
    }

    fn begin_store(&mut self, request: Header) {
        self.counters.store(request.count);
        self.moving = Some(Moving::Store { request, seen: 0, stored: 0 });
    }

    /// Begins the answer to a load. Fails if a page of the request is not stored.
    fn load(&mut self, request: Header, replies: &mut Vec<u8>) -> Result<(), SessionFault> {
        let mut ids = request.id..request.id + request.count as u32;
        if let Some(missing) = ids.find(|id| self.pages.get(*id).is_none()) {
            return Err(SessionFault::NotHeld(missing));
        }
        replies.extend(request.answer(0).encode());
        self.moving = Some(Moving::Load { request, sent: 0 });
        self.counters.load(request.count);
        Ok(())
    }
}
