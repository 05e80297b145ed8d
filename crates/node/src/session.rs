//! What a session's bytes ask for, and the bytes to answer: without input and output.

use crate::pages::Pages;
use crate::statistics::{Counters, count};
use std::sync::Arc;
use unrack_pager::node::wire::{HEADER, Header, Malformed, PAGE, Reason, Verb};

/// Answers that may be waiting to be sent before more is done; a page more is the most that there ever is.
pub const MOST_REPLIES: usize = 128 << 10;

/// The session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Malformed(Malformed),
    /// A load of this page, which was never stored, or was refused or forgotten.
    NotHeld(u32),
}

impl Fault {
    pub fn reason(self) -> Reason {
        match self {
            Fault::Malformed(_) => Reason::Malformed,
            Fault::NotHeld(_) => Reason::NotHeld,
        }
    }
}

/// A request whose pages are still coming or going.
#[derive(Debug, Clone, Copy)]
enum Moving {
    Store {
        request: Header,
        seen: u32,
        stored: u32,
    },
    /// All of these are held; `sent` of them are in the answer.
    Load {
        request: Header,
        sent: u32,
    },
}

pub struct Session {
    pages: Pages,
    counters: Arc<Counters>,
    moving: Option<Moving>,
}

impl Session {
    pub fn new(pages: Pages, counters: Arc<Counters>) -> Session {
        Session { pages, counters, moving: None }
    }

    /// Its pages.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Handles `input` from its start and appends the answers to `replies`. Returns how much it used: the
    /// rest is not complete yet, or has to wait until `replies` are gone.
    ///
    /// # Errors
    /// The session has to end; `replies` are still due.
    pub fn receive(&mut self, input: &[u8], replies: &mut Vec<u8>) -> Result<usize, Fault> {
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

    /// Returns the bytes used: those of a page, or none.
    fn receive_page(
        &mut self,
        request: Header,
        (mut seen, mut stored): (u32, u32),
        input: &[u8],
        replies: &mut Vec<u8>,
    ) -> usize {
        let Some(contents) = input.first_chunk::<PAGE>() else { return 0 };
        // All from the first one on that finds no room are refused: one number says which.
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

    fn send_page(&mut self, request: Header, sent: u32, replies: &mut Vec<u8>) {
        let page = self.pages.get(request.id + sent).expect("looked for when the load began");
        replies.extend_from_slice(page);
        let ended = sent + 1 == request.count as u32;
        self.moving = (!ended).then_some(Moving::Load { request, sent: sent + 1 });
    }

    fn receive_request(&mut self, input: &[u8], replies: &mut Vec<u8>) -> Result<usize, Fault> {
        let Some(head) = input.first_chunk::<HEADER>() else { return Ok(0) };
        let request = Header::decode(head).map_err(Fault::Malformed)?;
        request.check_request().map_err(Fault::Malformed)?;
        let ids = request.id..request.id.saturating_add(request.count as u32);
        match request.verb {
            Verb::Store => self.begin_store(request),
            Verb::Load => self.load(request, replies)?,
            Verb::Forget => {
                let dropped = ids.filter(|id| self.pages.remove(*id)).count();
                count(&self.counters.forgotten, dropped as u64);
            }
            Verb::Ping => replies.extend(request.answer(0).encode()),
            Verb::Grant | Verb::Bye => return Err(Fault::Malformed(Malformed("a request out of place"))),
        }
        Ok(HEADER)
    }

    fn begin_store(&mut self, request: Header) {
        self.counters.store(request.count);
        self.moving = Some(Moving::Store { request, seen: 0, stored: 0 });
    }

    fn load(&mut self, request: Header, replies: &mut Vec<u8>) -> Result<(), Fault> {
        let mut ids = request.id..request.id + request.count as u32;
        if let Some(missing) = ids.find(|id| self.pages.get(*id).is_none()) {
            return Err(Fault::NotHeld(missing));
        }
        replies.extend(request.answer(0).encode());
        self.moving = Some(Moving::Load { request, sent: 0 });
        self.counters.load(request.count);
        Ok(())
    }
}
