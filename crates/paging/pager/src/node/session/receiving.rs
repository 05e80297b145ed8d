//! Processing of the answers that a session receives.

use super::{AwaitedReply, NodeSession, SessionError, hash_of};
use crate::node::request::PageCompletion;
use alloc::vec::Vec;
use rustix::io::IoSliceMut;
use unrack_wire::{EndReason, HEADER, Header, PAGE, Verb};

impl NodeSession {
    /// Fills `parts` with the places where the next received bytes belong. Returns the number of parts used, and the number of bytes in
    /// them.
    pub fn landing<'a>(&'a mut self, parts: &mut [IoSliceMut<'a>]) -> (usize, usize) {
        if self.asked == 0 {
            let mut scatter = Scatter { parts, used: 0, bytes: 0, skip: self.unasked_len };
            scatter.put(&mut self.unasked);
            return (scatter.used, scatter.bytes);
        }
        let mut scatter = Scatter { parts, used: 0, bytes: 0, skip: self.landed };
        let mut targets = self.targets.iter();
        for awaited in self.awaited.iter_mut().take(self.asked) {
            let pages = pages_back(&awaited.request);
            scatter.put(&mut awaited.reply);
            for target in targets.by_ref().take(pages) {
                // SAFETY: a page that its owner lends us until the load completes.
                scatter.put(unsafe { core::slice::from_raw_parts_mut(target.at as *mut u8, PAGE) });
            }
            if scatter.used == scatter.parts.len() {
                break;
            }
        }
        (scatter.used, scatter.bytes)
    }

    /// Processes `bytes` bytes that were received into the places from [`NodeSession::landing`].
    ///
    /// # Errors
    /// [`SessionError::Ended`] if the node ended the session, [`SessionError::Garbage`] if it sent a message that does not answer the
    /// oldest request, [`SessionError::Corrupt`] if the checksum of a page shows that it is not the one that was stored. The session is
    /// unusable after any of these errors.
    pub fn landed(&mut self, bytes: usize, done: &mut Vec<PageCompletion>) -> Result<(), SessionError> {
        if self.asked == 0 {
            return self.landed_unasked(bytes);
        }
        let mut rest = bytes;
        while rest > 0 {
            let Some(awaited) = self.awaited.front().copied().filter(|_| self.asked > 0) else {
                return Err(SessionError::Garbage("more than it was asked for"));
            };
            let total = HEADER + pages_back(&awaited.request) * PAGE;
            let before = self.landed;
            self.landed = total.min(before + rest);
            rest -= self.landed - before;
            if before < HEADER && self.landed >= HEADER {
                self.check_reply(&awaited, done)?;
            }
            self.complete_loads(&awaited, before, self.landed, done)?;
            if self.landed == total {
                self.retire(&awaited);
            }
        }
        Ok(())
    }

    fn landed_unasked(&mut self, bytes: usize) -> Result<(), SessionError> {
        self.unasked_len = (self.unasked_len + bytes).min(HEADER);
        if self.unasked_len < HEADER {
            return Ok(());
        }
        self.unasked_len = 0;
        match Header::decode(&self.unasked)? {
            bye @ Header { verb: Verb::Bye, .. } => Err(ended(bye)),
            _ => Err(SessionError::Garbage("an answer to nothing")),
        }
    }

    /// Checks the header of a reply, which has arrived completely.
    fn check_reply(
        &mut self,
        awaited: &AwaitedReply,
        done: &mut Vec<PageCompletion>,
    ) -> Result<(), SessionError> {
        let reply = Header::decode(&awaited.reply)?;
        if reply.verb == Verb::Bye {
            return Err(ended(reply));
        }
        let request = awaited.request;
        if reply != request.answer(reply.detail) {
            return Err(SessionError::Garbage("an answer to another request"));
        }
        let stored = reply.detail;
        match request.verb {
            Verb::Store if stored <= request.count as u32 => self.complete_stores(&request, stored, done),
            Verb::Load | Verb::Ping if reply.detail == 0 => {}
            _ => return Err(SessionError::Garbage("an answer that makes no sense")),
        }
        Ok(())
    }

    fn complete_stores(&mut self, request: &Header, stored: u32, done: &mut Vec<PageCompletion>) {
        self.in_flight -= request.count as usize;
        let refused_from = request.id + stored;
        done.extend((request.id..refused_from).map(|id| PageCompletion::Stored { id }));
        for id in refused_from..request.id + request.count as u32 {
            let known = self.known.get_mut(id);
            known.held &= known.waiting > 0;
            done.push(PageCompletion::Refused { id });
        }
    }

    /// Completes the loads whose pages became complete with bytes `[before, now)` of a reply.
    fn complete_loads(
        &mut self,
        awaited: &AwaitedReply,
        before: usize,
        now: usize,
        done: &mut Vec<PageCompletion>,
    ) -> Result<(), SessionError> {
        let pages = |bytes: usize| bytes.saturating_sub(HEADER) / PAGE;
        for (page, target) in (pages(before)..pages(now)).zip(self.targets.range(pages(before)..)) {
            let id = awaited.request.id + page as u32;
            // SAFETY: a page that its owner lent us until now.
            if self.tuning.checksums && unsafe { hash_of(target.at) } != target.checksum {
                return Err(SessionError::Corrupt { id });
            }
            self.loads -= 1;
            done.push(PageCompletion::Loaded { id });
        }
        Ok(())
    }

    fn retire(&mut self, awaited: &AwaitedReply) {
        self.targets.drain(..pages_back(&awaited.request));
        self.awaited.pop_front();
        self.asked -= 1;
        self.landed = 0;
    }
}

/// List of places for received bytes.
struct Scatter<'a, 'b> {
    parts: &'b mut [IoSliceMut<'a>],
    used: usize,
    bytes: usize,
    /// Number of bytes to skip, because they have been received already.
    skip: usize,
}

impl<'a> Scatter<'a, '_> {
    fn put(&mut self, memory: &'a mut [u8]) {
        let skipped = self.skip.min(memory.len());
        self.skip -= skipped;
        let rest = &mut memory[skipped..];
        if !rest.is_empty() && self.used < self.parts.len() {
            self.bytes += rest.len();
            self.parts[self.used] = IoSliceMut::new(rest);
            self.used += 1;
        }
    }
}

/// Returns the number of pages in the reply to this request.
fn pages_back(request: &Header) -> usize {
    if request.verb == Verb::Load { request.count as usize } else { 0 }
}

fn ended(bye: Header) -> SessionError {
    EndReason::decode(bye.detail)
        .map_or(SessionError::Garbage("a farewell for no known reason"), SessionError::Ended)
}
