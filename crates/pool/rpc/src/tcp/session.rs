//! A server's memory of a client, so that a call runs once, whatever happens to connections.

use super::limits::{Charge, Full, SMALL};
use super::memory::Block;
use super::{LARGE, Notice};
use crate::ends::{IncomingCall, is_newer};
use crate::queue::entry::{Answer, Request};
use crate::server::Desk;
use crate::server::methods::Methods;
use std::sync::Arc;
use unrack_keys::shares::Account;

/// Calls of a client. One connection at a time holds it.
pub(super) struct Session {
    desk: Desk,
    account: Account,
    /// State of each slot.
    seen: Vec<Seen>,
    /// Memory into which the next request is read.
    spare: Option<Room>,
    /// Number of answers so far.
    answers: u64,
    /// Slot whose answer is there but not charged: only while its connection writes it.
    unpaid: Option<u16>,
    _charge: Charge,
}

/// A block and its charge.
pub(super) struct Room {
    pub block: Arc<Block>,
    charge: Charge,
}

/// Most bytes of a block that is kept for the next request: larger ones of many connections could take all
/// memory.
const MOST_SPARE: usize = 1 << 20;

#[derive(Default)]
struct Seen {
    generation: u32,
    /// Answer and its bytes, until it is known to have arrived, or its memory is needed.
    answered: Option<Kept>,
}

struct Kept {
    answer: Answer,
    room: Room,
    /// Sequence number of the answer in the session.
    number: u64,
}

/// Error that ends the session: the client breaks the protocol, or the machine has no memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Returns the bytes that a session takes by itself.
pub(super) fn bytes_of_session(lines: usize) -> usize {
    lines * size_of::<Seen>() + 4096
}

impl Session {
    /// Makes a session for a client with `lines` slots.
    ///
    /// # Errors
    /// If the account has no room for it.
    pub(super) fn new(desk: Desk, lines: usize, account: &Account) -> Result<Session, Full> {
        let mut charge = Charge::new(account);
        charge.set(bytes_of_session(lines))?;
        let seen = (0..lines).map(|_| Seen::default()).collect();
        let account = account.clone();
        Ok(Session { desk, account, seen, spare: None, answers: 0, unpaid: None, _charge: charge })
    }

    /// Returns the client's number.
    pub(super) fn client(&self) -> u64 {
        self.desk.client()
    }

    /// Returns the account that is charged.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns memory for a request's bytes, and its answer's, which is not shared. [`Room::pay`] charges it.
    pub(super) fn room(&mut self, request: &Request) -> Result<Room, Broken> {
        let bytes = request.length.max(request.capacity) as usize;
        match self.spare.take() {
            Some(spare) if spare.block.capacity() >= bytes && Arc::strong_count(&spare.block) == 1 => {
                Ok(spare)
            }
            _ => {
                let block = Block::new(bytes).map(Arc::new).ok_or(Broken)?;
                Ok(Room { block, charge: Charge::new(&self.account) })
            }
        }
    }

    /// Takes back memory that is not needed now.
    pub(super) fn put_back(&mut self, room: Room) {
        if room.block.capacity() <= MOST_SPARE {
            self.spare.get_or_insert(room);
        }
    }

    /// Runs a call that was not run before, and returns its answer; or returns the earlier answer.
    pub(super) fn call(
        &mut self,
        request: Request,
        room: Room,
        methods: &Methods,
    ) -> Result<(Answer, &[u8]), Broken> {
        let seen = self.seen.get_mut(usize::from(request.slot)).ok_or(Broken)?;
        if request.generation != seen.generation {
            if !is_newer(request.generation, seen.generation) {
                return Err(Broken);
            }
            seen.generation = request.generation;
            let incoming = IncomingCall { request, base: room.block.base() };
            // SAFETY: the block is ours, and as long as request and answer may be.
            let outcome = unsafe { self.desk.run(&incoming, &room.block, methods) };
            let Request { slot, generation, .. } = request;
            let (status, length) = (outcome.status(), outcome.length());
            self.keep(Answer { status, slot, generation, offset: 0, length }, room)?;
        } else {
            self.put_back(room);
        }
        match &self.seen[usize::from(request.slot)].answered {
            Some(Kept { answer, room, .. }) => Ok((*answer, room.block.bytes(body_of(answer)))),
            // The client announced that it has the answer, or its memory was needed.
            None => Err(Broken),
        }
    }

    /// Keeps an answer, in no more memory than it needs. If there is no room for it, it is kept until it is
    /// written.
    fn keep(&mut self, answer: Answer, mut room: Room) -> Result<(), Broken> {
        let length = body_of(&answer);
        if length < LARGE && room.block.capacity() > LARGE {
            let mut small = Block::new(length).ok_or(Broken)?;
            small.bytes_mut(length).copy_from_slice(room.block.bytes(length));
            let small = Room { block: Arc::new(small), charge: Charge::new(&self.account) };
            self.put_back(std::mem::replace(&mut room, small));
        }
        self.drop_unpaid();
        self.forget(answer.slot);
        let bytes = room.block.capacity();
        let paid = loop {
            match room.charge.set(bytes) {
                Ok(()) => break true,
                Err(Full(_)) if self.forget_oldest() => {}
                Err(Full(_)) => break false,
            }
        };
        self.unpaid = (!paid).then_some(answer.slot);
        self.answers += 1;
        let kept = Kept { answer, room, number: self.answers };
        self.seen[usize::from(answer.slot)].answered = Some(kept);
        Ok(())
    }

    /// Drops an answer that was not charged, as the connection ends or the next answer is there.
    pub(super) fn drop_unpaid(&mut self) {
        if let Some(slot) = self.unpaid.take() {
            self.forget(slot);
        }
    }

    /// Drops the answer that was kept longest: a client that asks for it again is told that its session is over.
    /// Returns false if there was neither an answer nor spare memory to drop.
    pub(super) fn forget_oldest(&mut self) -> bool {
        let kept = |seen: &Seen| seen.answered.as_ref().map(|kept| (kept.number, kept.answer.slot));
        let oldest = self.seen.iter().filter_map(kept).min();
        if let Some((_, slot)) = oldest {
            self.seen[usize::from(slot)].answered = None;
        }
        oldest.is_some() || self.spare.take().is_some()
    }

    fn forget(&mut self, slot: u16) {
        if let Some(kept) = self.seen[usize::from(slot)].answered.take() {
            self.put_back(kept.room);
        }
    }

    /// Drops an answer that has arrived, and is not asked for again.
    pub(super) fn received(&mut self, slot: u16, generation: u32) -> Result<(), Broken> {
        let seen = self.seen.get(usize::from(slot)).ok_or(Broken)?;
        if seen.generation == generation {
            self.forget(slot);
        }
        Ok(())
    }

    /// Handles a notice. Returns whether more messages follow.
    pub(super) fn notice(&mut self, notice: Notice) -> Result<bool, Broken> {
        match notice {
            Notice::Received { slot, generation } => self.received(slot, generation).map(|()| true),
            Notice::End => Ok(false),
        }
    }
}

impl Room {
    /// Charges this many of its bytes, unless they are few.
    ///
    /// # Errors
    /// If there is no room in the account.
    pub(super) fn pay(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes as u64 <= self.charge.bytes() || bytes <= SMALL {
            true => Ok(()),
            false => self.charge.set(bytes),
        }
    }
}

/// Returns the number of bytes that follow an answer's entries.
pub(super) fn body_of(answer: &Answer) -> usize {
    if crate::ends::has_bytes(answer.status) { answer.length as usize } else { 0 }
}
