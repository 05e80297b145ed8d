//! One session with a node that is sent its pages: what to send next, and what an answer means.
//!
//! Sans-IO: a driver asks for the bytes to send ([`Session::outgoing`]) and for the memory where bytes
//! that arrive belong ([`Session::landing`]), and says how many went ([`Session::sent`],
//! [`Session::landed`]). Pages are never copied here: they leave from, and land in, the slots that the
//! caller named. That works for arrivals because replies come in order, so that each one's size and
//! place are known before it comes; a reply that is not the expected one ends the session.
//!
//! DDC §5.1's three steps are here. *Batch*: stores wait until a batch is full or [`Session::flush`].
//! *Merge*: neighbouring ids travel as one message. *Asynchronous*: up to a window of stores and any
//! number of loads are on their way at once, and each page completes by itself.
//!
//! Loads overtake stores that are not in the outbox yet, unless one is for the same page: then that one
//! and all before it go first.

use super::held::ById;
use super::wire::{HEADER, Header, Malformed, PAGE, Reason, Verb};
use super::{Completion, Rejected, Tuning};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use xxhash_rust::xxh3::xxh3_64;

/// Why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Ended(Reason),
    Garbage(&'static str),
    Corrupt { id: u32 },
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        Fault::Garbage(malformed.0)
    }
}

/// What the caller wants, in its order.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Store { id: u32, at: usize },
    Load { id: u32, target: Target },
    Forget { id: u32, count: u16 },
}

/// A piece of the outgoing stream.
#[derive(Debug, Clone, Copy)]
struct Piece {
    content: Content,
    /// The last piece of a message that is answered.
    ends: bool,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    Head([u8; HEADER]),
    Page(usize),
}

/// A request that is answered, in the outbox or further.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    request: Header,
    reply: [u8; HEADER],
}

/// A page that a reply brings.
#[derive(Debug, Clone, Copy)]
struct Target {
    at: usize,
    checksum: u64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    checksum: u64,
    /// Stores still in `lazy`.
    waiting: u16,
    /// May be loaded.
    held: bool,
}

pub struct Session {
    tuning: Tuning,
    known: ById<Known>,
    /// Loads, and the stores that have to go before them.
    urgent: VecDeque<Wish>,
    /// Stores and forgets.
    lazy: VecDeque<Wish>,
    /// How many of `lazy`, from the front, need not wait for a batch.
    due: usize,
    /// Loads that are not complete.
    loads: usize,
    /// Pages of stores in the outbox or on the wire.
    in_flight: usize,
    number: u32,
    outbox: VecDeque<Piece>,
    /// Bytes of the first piece that are sent.
    sent: usize,
    awaited: VecDeque<Awaited>,
    /// How many of `awaited`, from the front, are sent completely.
    asked: usize,
    targets: VecDeque<Target>,
    /// Bytes of the first awaited reply that have landed.
    landed: usize,
    /// For what comes when nothing is awaited.
    unasked: [u8; HEADER],
    unasked_len: usize,
}

impl Session {
    pub fn new(tuning: Tuning) -> Session {
        Session {
            tuning,
            known: ById::new(Known { checksum: 0, waiting: 0, held: false }),
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
    /// # Safety
    /// The page stays readable and unchanged until [`Completion::Stored`] or [`Completion::Refused`], or
    /// [`Session::withdraw`] gives it back.
    pub unsafe fn store(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        self.check(id, self.lazy.len())?;
        // SAFETY: the caller's promise.
        let checksum = if self.tuning.checksums { unsafe { hash_of(at) } } else { 0 };
        let known = self.known.get_mut(id);
        *known = Known { checksum, waiting: known.waiting + 1, held: true };
        self.lazy.push_back(Wish::Store { id, at });
        if self.lazy.len() - self.due >= self.tuning.batch {
            self.flush();
        }
        Ok(())
    }

    /// Queues a load into the page at `at`.
    ///
    /// # Safety
    /// The page stays writable, and nobody else uses it, until [`Completion::Loaded`].
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
        self.urgent.push_back(Wish::Load { id, target: Target { at, checksum: known.checksum } });
        Ok(())
    }

    /// Has the node drop these pages, after what was asked for before. Returns how many were accepted.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        ids.iter().take_while(|id| self.forget_one(**id).is_ok()).count()
    }

    fn forget_one(&mut self, id: u32) -> Result<(), Rejected> {
        match self.lazy.back_mut() {
            Some(Wish::Forget { id: first, count }) if *first as u64 + *count as u64 == id as u64 => {
                *count = count.checked_add(1).ok_or(Rejected::Full)?;
            }
            _ => {
                self.check(id, self.lazy.len())?;
                self.lazy.push_back(Wish::Forget { id, count: 1 });
            }
        }
        self.known.get_mut(id).held = false;
        Ok(())
    }

    /// Takes back a store that has not left yet; it will not complete, and its page cannot be loaded
    /// before the next store. `false`: too late, the completion will come.
    pub fn withdraw(&mut self, id: u32) -> bool {
        if self.known.get(id).waiting != 1 {
            return false;
        }
        let is_it = |wish: &Wish| matches!(wish, Wish::Store { id: stored, .. } if *stored == id);
        let Some(place) = self.lazy.iter().position(is_it) else { return false };
        self.lazy.remove(place);
        self.due -= (place < self.due) as usize;
        *self.known.get_mut(id) = Known { checksum: 0, waiting: 0, held: false };
        true
    }

    /// What is queued now goes as soon as there is room, full batch or not.
    pub fn flush(&mut self) {
        self.due = self.lazy.len();
    }

    /// Nothing is queued or on its way.
    pub fn is_idle(&self) -> bool {
        self.urgent.is_empty() && self.lazy.is_empty() && self.outbox.is_empty() && self.awaited.is_empty()
    }

    pub fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn check(&self, id: u32, queued: usize) -> Result<(), Rejected> {
        match () {
            _ if id >= self.tuning.most_ids => Err(Rejected::BadId),
            _ if queued >= self.tuning.queue => Err(Rejected::Full),
            _ => Ok(()),
        }
    }

    /// Makes the stores of `id`, and what is before them, as urgent as loads.
    fn hurry(&mut self, id: u32) {
        let is_it = |wish: &Wish| matches!(wish, Wish::Store { id: stored, .. } if *stored == id);
        let Some(last) = self.lazy.iter().rposition(is_it) else { return };
        self.urgent.extend(self.lazy.drain(..=last));
        self.due = self.due.saturating_sub(last + 1);
        for wish in self.urgent.range(self.urgent.len() - (last + 1)..) {
            if let Wish::Store { id, .. } = wish {
                self.known.get_mut(*id).waiting -= 1;
            }
        }
    }
}


/// Sending.
impl Session {
    /// Moves wishes into the outbox, as far as the window allows. Returns whether any moved.
    pub fn fill(&mut self) -> bool {
        let before = self.outbox.len();
        while !self.urgent.is_empty() {
            self.post_urgent();
        }
        while self.due > 0 && self.in_flight < self.tuning.window {
            self.post_lazy();
        }
        self.outbox.len() > before
    }

    fn post_urgent(&mut self) {
        let run = run_length(&self.urgent, self.tuning.merge);
        self.post_head(self.urgent.front().copied(), run);
        for _ in 0..run {
            let wish = self.urgent.pop_front();
            self.post_body(wish);
        }
        self.finish_message();
    }

    fn post_lazy(&mut self) {
        let most = self.tuning.merge.min(self.tuning.window - self.in_flight).min(self.due);
        let run = run_length(&self.lazy, most);
        self.post_head(self.lazy.front().copied(), run);
        for _ in 0..run {
            let wish = self.lazy.pop_front();
            if let Some(Wish::Store { id, .. }) = wish {
                self.known.get_mut(id).waiting -= 1;
            }
            self.post_body(wish);
        }
        self.due -= run;
        self.finish_message();
    }

    fn post_head(&mut self, first: Option<Wish>, run: usize) {
        let (verb, id, count) = match first {
            Some(Wish::Store { id, .. }) => (Verb::Store, id, run as u16),
            Some(Wish::Load { id, .. }) => (Verb::Load, id, run as u16),
            Some(Wish::Forget { id, count }) => (Verb::Forget, id, count),
            None => return,
        };
        let request = Header::request(verb, id, count, self.number);
        self.number = self.number.wrapping_add(1);
        self.outbox.push_back(Piece { content: Content::Head(request.encode()), ends: false });
        if verb != Verb::Forget {
            self.awaited.push_back(Awaited { request, reply: [0; HEADER] });
        }
    }

    fn post_body(&mut self, wish: Option<Wish>) {
        match wish {
            Some(Wish::Store { at, .. }) => {
                self.in_flight += 1;
                self.outbox.push_back(Piece { content: Content::Page(at), ends: false });
            }
            Some(Wish::Load { target, .. }) => self.targets.push_back(target),
            Some(Wish::Forget { .. }) | None => {}
        }
    }

    /// The last piece posted ends its message, which is answered unless it forgets.
    fn finish_message(&mut self) {
        let answered = self.awaited.len() > self.asked + self.outbox.iter().filter(|piece| piece.ends).count();
        if let Some(last) = self.outbox.back_mut() {
            last.ends = answered;
        }
    }

    /// Fills `parts` with what to send next. Returns how many it used, and the bytes in them.
    pub fn outgoing<'a>(&'a self, parts: &mut [IoSlice<'a>]) -> (usize, usize) {
        let (mut used, mut bytes, mut skip) = (0, 0, self.sent);
        for (part, piece) in parts.iter_mut().zip(&self.outbox) {
            let rest = &piece.content.bytes()[skip..];
            *part = IoSlice::new(rest);
            (used, bytes, skip) = (used + 1, bytes + rest.len(), 0);
        }
        (used, bytes)
    }

    /// So many bytes of [`Session::outgoing`] are sent.
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

impl Content {
    fn len(&self) -> usize {
        match self {
            Content::Head(_) => HEADER,
            Content::Page(_) => PAGE,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Content::Head(bytes) => bytes,
            // SAFETY: a page that its owner leaves alone until the store completes.
            Content::Page(at) => unsafe { std::slice::from_raw_parts(*at as *const u8, PAGE) },
        }
    }
}

/// How many wishes, from the front of `queue`, one message can carry: the same verb, ids in a row.
fn run_length(queue: &VecDeque<Wish>, most: usize) -> usize {
    let follows = |(a, b): &(&Wish, &Wish)| match (a, b) {
        (Wish::Store { id: a, .. }, Wish::Store { id: b, .. }) => *b == a + 1,
        (Wish::Load { id: a, .. }, Wish::Load { id: b, .. }) => *b == a + 1,
        _ => false,
    };
    let most = most.min(queue.len()).max(1);
    1 + queue.iter().zip(queue.iter().skip(1)).take(most - 1).take_while(follows).count()
}

/// Receiving.
impl Session {
    /// Fills `parts` with where the next bytes belong. Returns how many it used, and their bytes.
    pub fn landing<'a>(&'a mut self, parts: &mut [IoSliceMut<'a>]) -> (usize, usize) {
        let mut parts = parts.iter_mut();
        let mut targets = self.targets.iter();
        let (mut used, mut bytes, mut skip) = (0, 0, self.landed);
        let mut put = |memory: &'a mut [u8]| {
            let rest = memory.len().saturating_sub(skip);
            skip = skip.saturating_sub(memory.len());
            let from = memory.len() - rest;
            if rest > 0 && let Some(part) = parts.next() {
                *part = IoSliceMut::new(&mut memory[from..]);
                (used, bytes) = (used + 1, bytes + rest);
            }
        };
        for awaited in self.awaited.iter_mut().take(self.asked) {
            put(&mut awaited.reply);
            for _ in 0..awaited.request.pages_back() {
                let Some(target) = targets.next() else { break };
                // SAFETY: a page that its owner left to us until the load completes.
                put(unsafe { std::slice::from_raw_parts_mut(target.at as *mut u8, PAGE) });
            }
        }
        if self.asked == 0 {
            skip = self.unasked_len;
            put(&mut self.unasked);
        }
        (used, bytes)
    }
}
