//! Answers in parts.
//!
//! The server answers one request entry with each part, and the client provides the buffer with that entry. Therefore a
//! stream needs no flow control in addition to that of calls: the server writes a part only when the client requests
//! one.

use super::slot::Slot;
use crate::error::Error;
use crate::method::Method;
use crate::queue::entry::{EntryStatus, Kind};
use crate::view::View;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

/// The parts of an answer, in order. Dropping the stream informs the server that the client wants no more parts.
pub struct Stream<'c> {
    /// Slot on which the stream was opened, by which the server identifies it. It is kept until the stream ends.
    opener: u16,
    /// Slots of the parts that were requested, in order.
    asked: VecDeque<Slot<'c>>,
    room: usize,
    /// True if the caller has received the first part in `asked`.
    handed: bool,
    /// True if the server has sent the last part.
    ended: bool,
}

/// One part of the answer, valid until the next part is requested.
pub struct StreamPart<'s> {
    base: NonNull<u8>,
    length: usize,
    stream: PhantomData<&'s ()>,
}

impl StreamPart<'_> {
    /// Returns the bytes of the part.
    pub fn body(&self) -> View<'_> {
        // SAFETY: the slot's buffer is at least this long. It stays until the next part is requested, and the stream is
        // borrowed until then.
        unsafe { View::new(self.base.as_ptr(), self.length) }
    }
}

impl<'c> Stream<'c> {
    pub(super) fn open(
        mut first: Slot<'c>,
        method: Method,
        (length, room): (usize, usize),
        ahead: usize,
    ) -> Result<Self, Error> {
        let connection = first.connection;
        let mut asked = VecDeque::with_capacity(ahead + 2);
        first.post(Kind::Open, method.0, (length, room))?;
        let opener = first.index();
        asked.push_back(first);
        let mut stream = Stream { opener, asked, room, handed: false, ended: false };
        for _ in 0..ahead {
            let (mut slot, _) = Slot::reserve(connection, room)?;
            slot.post(Kind::Next, u32::from(opener), (0, room))?;
            stream.asked.push_back(slot);
        }
        Ok(stream)
    }

    /// Waits for the next part and returns it; `None` after the last part.
    ///
    /// # Errors
    /// The server's error, or an error if the server is gone or the deadline is over.
    pub fn next_part(&mut self) -> Result<Option<StreamPart<'_>>, Error> {
        self.next_part_or(|slot| {
            let shared = &*slot.connection.shared;
            let deadline = shared.options().deadline.unwrap_or_default();
            slot.wait().map_err(|ended| shared.error_of(ended, deadline))
        })
    }

    /// Waits for the next part as [`next_part`](Stream::next_part) does, but for at most `longest`, regardless of the
    /// connection's deadline. If no part has come by then, the stream remains valid and the caller may wait again.
    ///
    /// # Errors
    /// As for [`next_part`](Stream::next_part).
    pub fn next_part_within(&mut self, longest: Duration) -> Result<Option<StreamPart<'_>>, Error> {
        self.next_part_or(|slot| {
            slot.wait_until(longest).map_err(|ended| slot.connection.shared.error_of(ended, longest))
        })
    }

    fn next_part_or(
        &mut self,
        wait: impl FnOnce(&Slot<'c>) -> Result<(), Error>,
    ) -> Result<Option<StreamPart<'_>>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.asked.front().expect("one is asked for until the end").connection.shared.check()?;
        if std::mem::take(&mut self.handed) {
            let mut slot = self.asked.pop_front().expect("it was handed out");
            slot.post(Kind::Next, u32::from(self.opener), (0, self.room))?;
            self.asked.push_back(slot);
        }
        let slot = self.asked.front().expect("one is asked for until the end");
        let shared = &*slot.connection.shared;
        wait(slot)?;
        let part = shared.part(slot.index());
        self.ended = !matches!(part, Ok((_, EntryStatus::MORE)));
        let ((base, length), _) = part?;
        self.handed = true;
        Ok(Some(StreamPart { base, length, stream: PhantomData }))
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.asked.front().filter(|_| !self.ended) {
            slot.connection.shared.close_stream(slot.connection.number, self.opener);
        }
    }
}
