//! A call, as its handler sees it.

use crate::ends::IncomingCall;
use crate::queue::entry::EntryStatus;
use crate::view::{View, ViewMut};
use std::any::Any;
use std::sync::Arc;
use unrack_pool::wire::PeerProcess;

/// Memory of a message, which can be kept mapped after the call.
pub(crate) trait Memory {
    fn keep(&self) -> MappedCallMemory;
}

impl<T: Any + Send + Sync> Memory for Arc<T> {
    fn keep(&self) -> MappedCallMemory {
        MappedCallMemory { _memory: self.clone() }
    }
}

/// Keeps the memory of a call's messages mapped while it exists. Later calls still overwrite the contents.
pub struct MappedCallMemory {
    _memory: Arc<dyn Any + Send + Sync>,
}

/// A call that is being handled. The request and the answer are in the same buffer.
pub struct Call<'a> {
    base: *mut u8,
    length: usize,
    room: usize,
    /// Length of the answer in bytes. The field below is the largest number of bytes that were written.
    answer: usize,
    written: usize,
    peer: &'a PeerProcess,
    client: u64,
    memory: &'a dyn Memory,
}

/// Error of an answer that is longer than the client has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerTooLong {
    pub needed: usize,
    pub room: usize,
}

/// Reason why a handler gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRefusal {
    /// A status that client and service have defined; at least [`Status::SERVICE`].
    Status(EntryStatus),
    NoRoom(AnswerTooLong),
}

impl CallRefusal {
    /// Returns a refusal with a status that the service defines; these are numbered from 0.
    ///
    /// # Panics
    /// If the number is above 3839, the largest that fits.
    pub fn from_number(number: u16) -> CallRefusal {
        assert!(number <= EntryStatus::LAST - EntryStatus::SERVICE, "statuses of services go up to 3839");
        CallRefusal::Status(EntryStatus(EntryStatus::SERVICE + number))
    }
}

impl From<AnswerTooLong> for CallRefusal {
    fn from(no: AnswerTooLong) -> CallRefusal {
        CallRefusal::NoRoom(no)
    }
}

impl<'a> Call<'a> {
    /// Makes the view of a call for its handler.
    ///
    /// # Safety
    /// The buffer is in `memory`, and no other code in this process uses it.
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

    /// Returns the client's process, as the kernel identified it.
    pub fn peer(&self) -> &PeerProcess {
        self.peer
    }

    /// Returns the client's number. This process never gives the same number to two clients, even if one ends before
    /// the other begins.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Keeps the memory of the messages mapped after the call. This is meant for programs in other languages, whose
    /// pointers into the memory the compiler cannot check.
    pub fn keep_memory(&self) -> MappedCallMemory {
        self.memory.keep()
    }

    /// Returns the request. The answer will overwrite it.
    #[inline]
    pub fn request(&self) -> View<'_> {
        // SAFETY: the bytes are mapped, which was checked when the call was admitted.
        unsafe { View::new(self.base, self.length) }
    }

    /// Returns the most bytes that the answer may have.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Returns the bytes of the answer, to be written. At first they contain the bytes of the request.
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
        // SAFETY: the bytes are mapped and writable, which was checked when the call was admitted.
        Ok(unsafe { ViewMut::new(self.base, bytes) })
    }

    /// Returns the status, the length and the number of written bytes of the answer.
    pub(super) fn outcome(&self, ended: Result<EntryStatus, CallRefusal>) -> CallOutcome {
        let (status, length) = match ended {
            Ok(status) => (status, self.answer as u32),
            Err(CallRefusal::Status(status)) => (status, self.answer as u32),
            Err(CallRefusal::NoRoom(no)) => {
                (EntryStatus::TOO_LONG, u32::try_from(no.needed).unwrap_or(u32::MAX))
            }
        };
        CallOutcome::new(status, length, self.written)
    }
}

/// Outcome of a call, to be sent to the client. It consists of two words, which are passed in registers. In memory it
/// would be stored in pieces and loaded in larger ones, and such a load waits until all earlier stores are globally
/// visible, among them those of the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOutcome {
    /// Status in the upper half, length in the lower.
    answer: u64,
    written: usize,
}

impl CallOutcome {
    #[inline(always)]
    fn new(status: EntryStatus, length: u32, written: usize) -> CallOutcome {
        CallOutcome { answer: u64::from(status.0) << 32 | u64::from(length), written }
    }

    /// Makes an outcome without any bytes of an answer.
    pub(crate) fn from_status(status: EntryStatus) -> CallOutcome {
        CallOutcome::new(status, 0, 0)
    }

    /// Returns the status.
    #[inline(always)]
    pub(crate) fn status(self) -> EntryStatus {
        EntryStatus((self.answer >> 32) as u16)
    }

    /// Returns the length of the answer in bytes; with an error status, a detail of the error.
    #[inline(always)]
    pub(crate) fn length(self) -> u32 {
        self.answer as u32
    }

    /// Returns the largest number of bytes that were written to the buffer.
    #[inline(always)]
    pub(crate) fn written(self) -> usize {
        self.written
    }
}
