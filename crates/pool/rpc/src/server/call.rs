//! A call, as its handler sees it.

use crate::ends::IncomingCall;
use crate::queue::entry::Status;
use crate::view::{View, ViewMut};
use std::any::Any;
use std::sync::Arc;
use unrack_pool::wire::PeerProcess;

/// Memory of a message, which can be kept beyond the call.
pub(crate) trait Memory {
    fn keep(&self) -> Kept;
}

impl<T: Any + Send + Sync> Memory for Arc<T> {
    fn keep(&self) -> Kept {
        Kept { _memory: self.clone() }
    }
}

/// Keeps the memory of a call's messages mapped while it exists. Later calls reuse the contents.
pub struct Kept {
    _memory: Arc<dyn Any + Send + Sync>,
}

/// Call that is being handled: the request, and in the same buffer the answer.
pub struct Call<'a> {
    base: *mut u8,
    length: usize,
    room: usize,
    /// Bytes of the answer; and below, the most bytes that were written.
    answer: usize,
    written: usize,
    peer: &'a PeerProcess,
    client: u64,
    memory: &'a dyn Memory,
}

/// Error for an answer that is longer than the client has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerTooLong {
    pub needed: usize,
    pub room: usize,
}

/// Reason why a handler gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Status defined by client and service: from [`Status::SERVICE`] on.
    Status(Status),
    NoRoom(AnswerTooLong),
}

impl Refusal {
    /// Returns a refusal with a status of the service's own, counted from 0.
    ///
    /// # Panics
    /// If it is above 3839, the last that fits.
    pub fn from_number(number: u16) -> Refusal {
        assert!(number <= Status::LAST - Status::SERVICE, "statuses of services go up to 3839");
        Refusal::Status(Status(Status::SERVICE + number))
    }
}

impl From<AnswerTooLong> for Refusal {
    fn from(no: AnswerTooLong) -> Refusal {
        Refusal::NoRoom(no)
    }
}

impl<'a> Call<'a> {
    /// Makes the view of a call for its handler.
    ///
    /// # Safety
    /// The buffer is in the memory, and nothing else in this process uses it.
    pub(super) unsafe fn new(
        incoming: &IncomingCall,
        memory: &'a dyn Memory,
        (peer, client): (&'a PeerProcess, u64),
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

    /// Returns the client's process, as the kernel knows it.
    pub fn peer(&self) -> &PeerProcess {
        self.peer
    }

    /// Returns the client's number. This process never gives the same number to two clients, not even one after
    /// the other.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Keeps the memory of the messages mapped beyond the call: for pointers into it that the compiler does not
    /// see, in programs in other languages.
    pub fn keep_memory(&self) -> Kept {
        self.memory.keep()
    }

    /// Returns the request. The answer will be in its place.
    #[inline]
    pub fn request(&self) -> View<'_> {
        // SAFETY: mapped; the bytes were reached when the call was admitted.
        unsafe { View::new(self.base, self.length) }
    }

    /// Returns the most bytes that the answer may have.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Returns the answer's bytes, to be written. They contain at first what the request has there.
    ///
    /// # Errors
    /// If the client has no room for that many bytes.
    #[inline]
    pub fn answer(&mut self, bytes: usize) -> Result<ViewMut<'_>, AnswerTooLong> {
        if bytes > self.room {
            return Err(AnswerTooLong { needed: bytes, room: self.room });
        }
        self.answer = bytes;
        self.written = self.written.max(bytes);
        // SAFETY: mapped and writable; the bytes were reached when the call was admitted.
        Ok(unsafe { ViewMut::new(self.base, bytes) })
    }

    /// Returns the status, length and written bytes of an answer.
    pub(super) fn outcome(&self, ended: Result<Status, Refusal>) -> Outcome {
        let (status, length) = match ended {
            Ok(status) => (status, self.answer as u32),
            Err(Refusal::Status(status)) => (status, self.answer as u32),
            Err(Refusal::NoRoom(no)) => (Status::TOO_LONG, u32::try_from(no.needed).unwrap_or(u32::MAX)),
        };
        Outcome::new(status, length, self.written)
    }
}

/// Outcome of a call, to be sent. Two words, which are passed in registers: in memory it would be stored in pieces and
/// loaded in larger ones, which waits until all earlier stores are globally visible, among them those of the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// Status in the upper half, length in the lower.
    answer: u64,
    written: usize,
}

impl Outcome {
    #[inline(always)]
    fn new(status: Status, length: u32, written: usize) -> Outcome {
        Outcome { answer: u64::from(status.0) << 32 | u64::from(length), written }
    }

    /// Makes an outcome without an answer's bytes.
    pub(crate) fn from_status(status: Status) -> Outcome {
        Outcome::new(status, 0, 0)
    }

    /// Returns the status.
    #[inline(always)]
    pub(crate) fn status(self) -> Status {
        Status((self.answer >> 32) as u16)
    }

    /// Returns the bytes of the answer; with an error status, its detail.
    #[inline(always)]
    pub(crate) fn length(self) -> u32 {
        self.answer as u32
    }

    /// Returns the most bytes of the buffer that were written.
    #[inline(always)]
    pub(crate) fn written(self) -> usize {
        self.written
    }
}
