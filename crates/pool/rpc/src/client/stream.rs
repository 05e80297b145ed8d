//! Answers in parts.
//!
//! Each part answers an entry of its own, for which this side gave a buffer. So a stream needs no flow control
//! beyond the one of calls: the server writes a part when it is asked for one.

use super::slot::Slot;
use crate::error::Error;
use crate::method::Method;
use crate::queue::entry::{Kind, Status};
use crate::view::View;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

/// Parts of an answer, in order. Dropping it tells the server that no more are wanted.
pub struct Stream<'c> {
    /// Slot on which it was opened, by which the server knows it. Kept until the end.
    opener: u16,
    /// Slots of the parts that were asked for, in order.
    asked: VecDeque<Slot<'c>>,
    room: usize,
    /// True if the part in front was handed out.
    handed: bool,
    /// True if the server has sent the last part.
    ended: bool,
}

/// One part, valid until the next is asked for.
pub struct StreamPart<'s> {
    base: NonNull<u8>,
    length: usize,
    stream: PhantomData<&'s ()>,
}

impl StreamPart<'_> {
    /// Returns the bytes of the part.
    pub fn body(&self) -> View<'_> {
        // SAFETY: the slot's buffer is at least as long and stays until the stream, which is borrowed, goes on.
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

    /// Waits for the next part; `None` after the last.
    ///
    /// # Errors
    /// The server's error, that it is gone, or that the deadline is over.
    pub fn next_part(&mut self) -> Result<Option<StreamPart<'_>>, Error> {
        self.next_part_or(|slot| {
            let shared = &*slot.connection.shared;
            let deadline = shared.options().deadline.unwrap_or_default();
            slot.wait().map_err(|ended| shared.error_of(ended, deadline))
        })
    }

    /// Waits for the next part as [`next_part`](Stream::next_part) does, for at most `longest`, whatever deadline the
    /// connection has. A stream whose part has not come by then goes on: wait again.
    ///
    /// # Errors
    /// As [`next_part`](Stream::next_part).
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
        self.ended = !matches!(part, Ok((_, Status::MORE)));
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
