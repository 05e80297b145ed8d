//! A server's record of one client, by which each call runs only once, even if connections break.

use super::limits::{Charge, LimitReached, SMALL};
use super::memory::Block;
use super::{LARGE, Notice};
use crate::ends::{IncomingCall, is_newer};
use crate::queue::entry::{Answer, Request};
use crate::server::ClientContext;
use crate::server::methods::Methods;
use std::sync::Arc;
use unrack_keys::shares::ShareAccount;

/// Record of a client's calls. At most one connection holds it at a time.
pub(super) struct Session {
    desk: ClientContext,
    account: ShareAccount,
    /// State of the last call of each slot.
    seen: Vec<SeenRequests>,
    /// Memory for the bytes of the next request.
    spare: Option<ChargedBlock>,
    /// Number of answers so far.
    answers: u64,
    /// Slot whose answer exists but is not charged. Such an answer exists only while the connection writes it.
    unpaid: Option<u16>,
    _charge: Charge,
}

/// A block of memory and its charge.
pub(super) struct ChargedBlock {
    pub block: Arc<Block>,
    charge: Charge,
}

/// Largest block, in bytes, that is kept for the next request. Larger blocks of many connections could together take
/// all memory.
const MOST_SPARE: usize = 1 << 20;

#[derive(Default)]
struct SeenRequests {
    generation: u32,
    /// Answer and its bytes. They are kept until the server knows that they have arrived, or until it needs their
    /// memory.
    answered: Option<KeptBlocks>,
}

struct KeptBlocks {
    answer: Answer,
    room: ChargedBlock,
    /// Sequence number of the answer in the session.
    number: u64,
}

/// Error that ends the session, because the client broke the protocol or the machine has no memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TcpSessionError;

/// Returns the number of bytes that a session with `lines` slots takes apart from its messages.
pub(super) fn bytes_of_session(lines: usize) -> usize {
    lines * size_of::<SeenRequests>() + 4096
}

impl Session {
    /// Makes a session for a client with `lines` slots.
    ///
    /// # Errors
    /// If the account has no room for the session.
    pub(super) fn new(
        desk: ClientContext,
        lines: usize,
        account: &ShareAccount,
    ) -> Result<Session, LimitReached> {
        let mut charge = Charge::new(account);
        charge.set(bytes_of_session(lines))?;
        let seen = (0..lines).map(|_| SeenRequests::default()).collect();
        let account = account.clone();
        Ok(Session { desk, account, seen, spare: None, answers: 0, unpaid: None, _charge: charge })
    }

    /// Returns the client's number.
    pub(super) fn client(&self) -> u64 {
        self.desk.client()
    }

    /// Returns the account to which the session's memory is charged.
    pub(super) fn account(&self) -> &ShareAccount {
        &self.account
    }

    /// Returns unshared memory for the bytes of a request and of its answer. It is not charged yet; [`ChargedBlock::pay`] does
    /// that.
    pub(super) fn room(&mut self, request: &Request) -> Result<ChargedBlock, TcpSessionError> {
        let bytes = request.length.max(request.capacity) as usize;
        match self.spare.take() {
            Some(spare) if spare.block.capacity() >= bytes && Arc::strong_count(&spare.block) == 1 => {
                Ok(spare)
            }
            _ => {
                let block = Block::new(bytes).map(Arc::new).ok_or(TcpSessionError)?;
                Ok(ChargedBlock { block, charge: Charge::new(&self.account) })
            }
        }
    }

    /// Keeps memory that is no longer needed for the next request, unless it is too large.
    pub(super) fn put_back(&mut self, room: ChargedBlock) {
        if room.block.capacity() <= MOST_SPARE {
            self.spare.get_or_insert(room);
        }
    }

    /// Returns the answer to a call. Runs the call if it has not run before, and otherwise returns the earlier answer.
    pub(super) fn call(
        &mut self,
        request: Request,
        room: ChargedBlock,
        methods: &Methods,
    ) -> Result<(Answer, &[u8]), TcpSessionError> {
        let seen = self.seen.get_mut(usize::from(request.slot)).ok_or(TcpSessionError)?;
        if request.generation != seen.generation {
            if !is_newer(request.generation, seen.generation) {
                return Err(TcpSessionError);
            }
            seen.generation = request.generation;
            let incoming = IncomingCall { request, base: room.block.base() };
            // SAFETY: the session owns the block, which is long enough for the request and the answer.
            let outcome = unsafe { self.desk.run(&incoming, &room.block, methods) };
            let Request { slot, generation, .. } = request;
            let (status, length) = (outcome.status(), outcome.length());
            self.keep(Answer { status, slot, generation, offset: 0, length }, room)?;
        } else {
            self.put_back(room);
        }
        match &self.seen[usize::from(request.slot)].answered {
            Some(KeptBlocks { answer, room, .. }) => Ok((*answer, room.block.bytes(body_of(answer)))),
            // The client announced that it has received the answer, or the answer was dropped because its memory was
            // needed.
            None => Err(TcpSessionError),
        }
    }

    /// Keeps an answer in no more memory than it needs. If the account has no room for it, the answer is kept only
    /// until it is written.
    fn keep(&mut self, answer: Answer, mut room: ChargedBlock) -> Result<(), TcpSessionError> {
        let length = body_of(&answer);
        if length < LARGE && room.block.capacity() > LARGE {
            let mut small = Block::new(length).ok_or(TcpSessionError)?;
            small.bytes_mut(length).copy_from_slice(room.block.bytes(length));
            let small = ChargedBlock { block: Arc::new(small), charge: Charge::new(&self.account) };
            self.put_back(std::mem::replace(&mut room, small));
        }
        self.drop_unpaid();
        self.forget(answer.slot);
        let bytes = room.block.capacity();
        let paid = loop {
            match room.charge.set(bytes) {
                Ok(()) => break true,
                Err(LimitReached(_)) if self.forget_oldest() => {}
                Err(LimitReached(_)) => break false,
            }
        };
        self.unpaid = (!paid).then_some(answer.slot);
        self.answers += 1;
        let kept = KeptBlocks { answer, room, number: self.answers };
        self.seen[usize::from(answer.slot)].answered = Some(kept);
        Ok(())
    }

    /// Drops the answer that was not charged, because its connection ends or because the next answer exists.
    pub(super) fn drop_unpaid(&mut self) {
        if let Some(slot) = self.unpaid.take() {
            self.forget(slot);
        }
    }

    /// Drops the answer that was kept longest. If a client asks for a dropped answer again, its session ends. Returns
    /// false if there was neither an answer nor spare memory to drop.
    pub(super) fn forget_oldest(&mut self) -> bool {
        let kept = |seen: &SeenRequests| seen.answered.as_ref().map(|kept| (kept.number, kept.answer.slot));
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

    /// Drops an answer that the client has received, so that it will not be requested again.
    pub(super) fn received(&mut self, slot: u16, generation: u32) -> Result<(), TcpSessionError> {
        let seen = self.seen.get(usize::from(slot)).ok_or(TcpSessionError)?;
        if seen.generation == generation {
            self.forget(slot);
        }
        Ok(())
    }

    /// Handles a notice. Returns whether more messages follow.
    pub(super) fn notice(&mut self, notice: Notice) -> Result<bool, TcpSessionError> {
        match notice {
            Notice::Received { slot, generation } => self.received(slot, generation).map(|()| true),
            Notice::End => Ok(false),
        }
    }
}

impl ChargedBlock {
    /// Charges this many bytes of the block to the account, unless they are few (at most [`SMALL`]).
    ///
    /// # Errors
    /// If the account has no room for them.
    pub(super) fn pay(&mut self, bytes: usize) -> Result<(), LimitReached> {
        match bytes as u64 <= self.charge.bytes() || bytes <= SMALL {
            true => Ok(()),
            false => self.charge.set(bytes),
        }
    }
}

/// Returns the number of bytes that follow the entries of an answer.
pub(super) fn body_of(answer: &Answer) -> usize {
    if crate::ends::has_bytes(answer.status) { answer.length as usize } else { 0 }
}
