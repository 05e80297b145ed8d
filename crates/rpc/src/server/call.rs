//! What a handler sees of a call.

use crate::ends::Incoming;
use crate::queue::entry::Status;
use crate::view::{View, ViewMut};
use std::any::Any;
use std::sync::Arc;
use unrack_pool::wire::Peer;

/// What a message is in, which can be kept when the call is over.
pub(crate) trait Memory {
    fn keep(&self) -> Kept;
}

impl<T: Any + Send + Sync> Memory for Arc<T> {
    fn keep(&self) -> Kept {
        Kept { _memory: self.clone() }
    }
}

/// While it is there, the memory of a call's messages is mapped. What is in it is of later calls.
pub struct Kept {
    _memory: Arc<dyn Any + Send + Sync>,
}

/// A call that is being handled: the request, and in the same buffer the answer.
pub struct Call<'a> {
    base: *mut u8,
    length: usize,
    room: usize,
    /// What the answer has, and how much was written at most.
    answer: usize,
    written: usize,
    peer: &'a Peer,
    client: u64,
    memory: &'a dyn Memory,
}

/// The answer is longer than the client has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    pub needed: usize,
    pub room: usize,
}

/// Why a handler gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A status that client and service know: from [`Status::SERVICE`] on.
    Status(Status),
    NoRoom(NoRoom),
}

impl Refusal {
    /// A status of the service's own, counted from 0.
    ///
    /// # Panics
    /// If it is above what twelve bits hold besides this crate's.
    pub fn of(number: u16) -> Refusal {
        assert!(number <= Status::LAST - Status::SERVICE, "statuses of services go up to 3839");
        Refusal::Status(Status(Status::SERVICE + number))
    }
}

impl From<NoRoom> for Refusal {
    fn from(no: NoRoom) -> Refusal {
        Refusal::NoRoom(no)
    }
}

impl<'a> Call<'a> {
    /// # Safety
    /// The buffer is in the memory, and nobody else of this process uses it.
    pub(super) unsafe fn new(
        incoming: &Incoming,
        memory: &'a dyn Memory,
        (peer, client): (&'a Peer, u64),
    ) -> Self {
        Call {
            base: incoming.base,
            length: incoming.request.length as usize,
            room: incoming.request.capacity as usize,
            answer: 0,
            written: 0,
            peer,
            client,
            memory,
        }
    }

    /// Who calls, as the kernel knows it.
    pub fn peer(&self) -> &Peer {
        self.peer
    }

    /// The client's number: no two that this process serves have the same, one after the other neither.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Keeps the memory of the messages mapped beyond the call: for pointers into it that the compiler does not see, of
    /// programs in other languages.
    pub fn keep_memory(&self) -> Kept {
        self.memory.keep()
    }

    /// What the client wrote. The answer is going to be in its place.
    #[inline]
    pub fn request(&self) -> View<'_> {
        // SAFETY: mapped; the bytes were reached when the call was admitted.
        unsafe { View::new(self.base, self.length) }
    }

    /// How long the answer may be.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The answer's bytes, to be written. In them is at first what the request has there.
    ///
    /// # Errors
    /// If the client has no room for it.
    #[inline]
    pub fn answer(&mut self, bytes: usize) -> Result<ViewMut<'_>, NoRoom> {
        if bytes > self.room {
            return Err(NoRoom { needed: bytes, room: self.room });
        }
        self.answer = bytes;
        self.written = self.written.max(bytes);
        // SAFETY: mapped and writable; the bytes were reached when the call was admitted.
        Ok(unsafe { ViewMut::new(self.base, bytes) })
    }

    /// Status, length and how much was written, of an answer that ended so.
    pub(super) fn outcome(&self, ended: Result<Status, Refusal>) -> Outcome {
        let (status, length) = match ended {
            Ok(status) => (status, self.answer as u32),
            Err(Refusal::Status(status)) => (status, self.answer as u32),
            Err(Refusal::NoRoom(no)) => (Status::TOO_LONG, u32::try_from(no.needed).unwrap_or(u32::MAX)),
        };
        Outcome { status, length, written: self.written }
    }
}

/// What is to be said to a call.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub status: Status,
    pub length: u32,
    pub written: usize,
}

impl Outcome {
    pub fn of(status: Status) -> Outcome {
        Outcome { status, length: 0, written: 0 }
    }
}
