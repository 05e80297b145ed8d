//! Selection of the requests that a session sends next.

use super::{AwaitedReply, NodeSession, PageContent, SessionRequest, StreamPiece};
use alloc::collections::VecDeque;
use rustix::io::IoSlice;
use unrack_wire::{HEADER, Header, PAGE, Verb};

impl NodeSession {
    /// Moves requests into the outbox as far as the windows allow. Urgent requests go before all others, so that a load is sent before a
    /// later store or forget of its page. Returns whether any request was moved.
    pub fn fill(&mut self) -> bool {
        let before = self.outbox.len();
        while !self.urgent.is_empty() && self.targets.len() < self.tuning.window {
            self.post_urgent();
        }
        while self.urgent.is_empty() && self.due > 0 && self.in_flight < self.tuning.window {
            self.post_lazy();
        }
        self.outbox.len() > before
    }

    fn post_urgent(&mut self) {
        let run = run_length(&self.urgent, self.tuning.merge);
        let answered = self.post_head(self.urgent.front().copied(), run);
        for _ in 0..run {
            let wish = self.urgent.pop_front();
            self.post_body(wish);
        }
        self.finish_message(answered);
    }

    fn post_lazy(&mut self) {
        let most = self.tuning.merge.min(self.tuning.window - self.in_flight).min(self.due);
        let run = run_length(&self.lazy, most);
        let answered = self.post_head(self.lazy.front().copied(), run);
        for _ in 0..run {
            let wish = self.lazy.pop_front();
            if let Some(SessionRequest::Store { id, .. }) = wish {
                self.known.get_mut(id).waiting -= 1;
            }
            self.post_body(wish);
        }
        self.due -= run;
        self.finish_message(answered);
    }

    /// Adds the header of a message to the outbox. Returns whether the node will answer the message.
    fn post_head(&mut self, first: Option<SessionRequest>, run: usize) -> bool {
        let (verb, id, count) = match first {
            Some(SessionRequest::Store { id, .. }) => (Verb::Store, id, run as u16),
            Some(SessionRequest::Load { id, .. }) => (Verb::Load, id, run as u16),
            Some(SessionRequest::Forget { id, count }) => (Verb::Forget, id, count),
            None => return false,
        };
        let request = Header::request(verb, id, count, self.number);
        self.number = self.number.wrapping_add(1);
        self.outbox.push_back(StreamPiece { content: PageContent::Head(request.encode()), ends: false });
        if verb != Verb::Forget {
            self.awaited.push_back(AwaitedReply { request, reply: [0; HEADER] });
        }
        verb != Verb::Forget
    }

    pub(super) fn post_ping(&mut self) {
        let request = Header::request(Verb::Ping, 0, 0, self.number);
        self.number = self.number.wrapping_add(1);
        self.outbox.push_back(StreamPiece { content: PageContent::Head(request.encode()), ends: true });
        self.awaited.push_back(AwaitedReply { request, reply: [0; HEADER] });
    }

    fn post_body(&mut self, wish: Option<SessionRequest>) {
        match wish {
            Some(SessionRequest::Store { at, .. }) => {
                self.in_flight += 1;
                self.outbox.push_back(StreamPiece { content: PageContent::Page(at), ends: false });
            }
            Some(SessionRequest::Load { target, .. }) => self.targets.push_back(target),
            Some(SessionRequest::Forget { .. }) | None => {}
        }
    }

    /// Marks the last piece in the outbox as the end of its message.
    fn finish_message(&mut self, answered: bool) {
        if let Some(last) = self.outbox.back_mut() {
            last.ends = answered;
        }
    }

    /// Fills `parts` with the bytes to send next. Returns the number of parts used, and the number of bytes in them.
    pub fn outgoing<'a>(&'a self, parts: &mut [IoSlice<'a>]) -> (usize, usize) {
        let (mut used, mut bytes, mut skip) = (0, 0, self.sent);
        for (part, piece) in parts.iter_mut().zip(&self.outbox) {
            let rest = &piece.content.bytes()[skip..];
            *part = IoSlice::new(rest);
            (used, bytes, skip) = (used + 1, bytes + rest.len(), 0);
        }
        (used, bytes)
    }

    /// Notes that `bytes` bytes from [`NodeSession::outgoing`] were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(piece) = self.outbox.front()
            && self.sent >= piece.content.len()
        {
            self.sent -= piece.content.len();
            self.asked += piece.ends as usize;
            self.outbox.pop_front();
        }
    }
}

impl PageContent {
    fn len(&self) -> usize {
        match self {
            PageContent::Head(_) => HEADER,
            PageContent::Page(_) => PAGE,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            PageContent::Head(bytes) => bytes,
            // SAFETY: a page that its owner leaves unchanged until the store completes.
            PageContent::Page(at) => unsafe { core::slice::from_raw_parts(*at as *const u8, PAGE) },
        }
    }
}

/// Returns how many requests at the front of `queue` one message can contain: they have the same verb and consecutive ids.
fn run_length(queue: &VecDeque<SessionRequest>, most: usize) -> usize {
    let follows = |(a, b): &(&SessionRequest, &SessionRequest)| match (a, b) {
        (SessionRequest::Store { id: a, .. }, SessionRequest::Store { id: b, .. }) => *b == a + 1,
        (SessionRequest::Load { id: a, .. }, SessionRequest::Load { id: b, .. }) => *b == a + 1,
        _ => false,
    };
    let most = most.min(queue.len()).max(1);
    1 + queue.iter().zip(queue.iter().skip(1)).take(most - 1).take_while(follows).count()
}
