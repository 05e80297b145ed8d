//! What a session's bytes ask for, and the bytes to answer: without input and output.

use crate::pages::Pages;
use crate::statistics::{Counters, count};
use std::sync::Arc;
use unrack_pager::node::wire::{HEADER, Header, Malformed, PAGE, Reason, Verb};

/// Answers that may be waiting to be sent before more requests are looked at.
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

/// A store whose pages are still coming.
#[derive(Debug, Clone, Copy)]
struct Storing {
    request: Header,
    seen: u32,
    stored: u32,
}

pub struct Session {
    pages: Pages,
    counters: Arc<Counters>,
    storing: Option<Storing>,
}

impl Session {
    pub fn new(pages: Pages, counters: Arc<Counters>) -> Session {
        Session { pages, counters, storing: None }
    }

    pub fn held(&self) -> u64 {
        self.pages.held()
    }

    /// Handles `input` from its start and appends the answers to `replies`. Returns how much it used: the
    /// rest is not complete yet, or has to wait until `replies` are gone.
    ///
    /// # Errors
    /// The session has to end; `replies` are still due.
    pub fn receive(&mut self, input: &[u8], replies: &mut Vec<u8>) -> Result<usize, Fault> {
        let mut rest = input;
        while replies.len() < MOST_REPLIES {
            let used = match self.storing {
                Some(storing) => self.receive_page(storing, rest, replies),
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
    fn receive_page(&mut self, mut storing: Storing, input: &[u8], replies: &mut Vec<u8>) -> usize {
        let Some(contents) = input.first_chunk::<PAGE>() else { return 0 };
        // All from the first one on that finds no room are refused: one number says which.
        let room = storing.stored == storing.seen;
        let id = storing.request.id + storing.seen;
        if let Some(page) = room.then(|| self.pages.get_or_insert(id)).flatten() {
            *page = *contents;
            storing.stored += 1;
        }
        storing.seen += 1;
        let ended = storing.seen == storing.request.count as u32;
        if ended {
            replies.extend(storing.request.answer(storing.stored).encode());
            count(&self.counters.stored, storing.stored as u64);
            count(&self.counters.refused, (storing.seen - storing.stored) as u64);
        }
        self.storing = (!ended).then_some(storing);
        PAGE
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
            Verb::Grant | Verb::Bye => return Err(Fault::Malformed(Malformed("a request out of place"))),
        }
        Ok(HEADER)
    }

    fn begin_store(&mut self, request: Header) {
        self.counters.store(request.count);
        self.storing = Some(Storing { request, seen: 0, stored: 0 });
    }

    fn load(&mut self, request: Header, replies: &mut Vec<u8>) -> Result<(), Fault> {
        let ids = request.id..request.id + request.count as u32;
        let missing = ids.clone().find(|id| self.pages.get(*id).is_none());
        if let Some(missing) = missing {
            return Err(Fault::NotHeld(missing));
        }
        replies.extend(request.answer(0).encode());
        ids.filter_map(|id| self.pages.get(id)).for_each(|page| replies.extend_from_slice(page));
        self.counters.load(request.count);
        Ok(())
    }
}
