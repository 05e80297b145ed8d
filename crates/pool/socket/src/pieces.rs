//! The caller's buffers, as a cursor into a list of them.

#[cfg(not(loom))]
use crate::memory::{self, BufferUse};
use libc::iovec;

/// Cursor into the buffers of a call: the bytes before it have been transferred.
#[derive(Clone, Copy)]
pub struct Pieces<'a> {
    list: &'a [iovec],
    /// Bytes of the first buffer in the list that have been transferred.
    done: usize,
    left: usize,
    /// The access for which each buffer is checked before its bytes are copied; `None` for buffers that this library made.
    #[cfg(not(loom))]
    access: Option<BufferUse>,
    /// True once a buffer was found that cannot be accessed.
    is_bad: bool,
}

impl<'a> Pieces<'a> {
    /// Makes a cursor at the first byte of buffers that are known to be valid.
    pub fn new(list: &'a [iovec]) -> Pieces<'a> {
        let left = list.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.iov_len));
        Pieces {
            list,
            done: 0,
            left,
            #[cfg(not(loom))]
            access: None,
            is_bad: false,
        }
    }

    /// Makes a cursor at the first byte of a program's buffers, whose addresses may be invalid.
    #[cfg(not(loom))]
    pub fn unchecked(list: &'a [iovec], access: BufferUse) -> Pieces<'a> {
        Pieces { access: Some(access), ..Pieces::new(list) }
    }

    /// Returns whether a buffer was found that cannot be accessed.
    pub(crate) fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// Returns the number of bytes that are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the next contiguous bytes, at most `most`; `None` if no bytes are left, or if they cannot be accessed.
    pub(crate) fn next(&mut self, most: usize) -> Option<(*mut u8, usize)> {
        let (place, bytes) = self.place(most)?;
        self.is_bad = !self.can_reach(place, bytes);
        (!self.is_bad).then_some((place, bytes))
    }

    fn place(&mut self, most: usize) -> Option<(*mut u8, usize)> {
        while let Some(first) = self.list.first() {
            if self.done < first.iov_len {
                let bytes = (first.iov_len - self.done).min(most);
                return Some((first.iov_base.cast::<u8>().wrapping_add(self.done), bytes));
            }
            self.list = &self.list[1..];
            self.done = 0;
        }
        None
    }

    #[cfg(not(loom))]
    fn can_reach(&self, place: *const u8, bytes: usize) -> bool {
        self.access.is_none_or(|access| memory::allows(access, place, bytes))
    }

    #[cfg(loom)]
    fn can_reach(&self, _place: *const u8, _bytes: usize) -> bool {
        true
    }

    /// Moves the cursor forward within one buffer.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.done += bytes;
        self.left -= bytes;
    }

    /// Moves the cursor forward over bytes that this library does not copy itself, and that may span several buffers.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0
            && let Some((_, part)) = self.place(left)
        {
            self.advance(part);
            left -= part;
        }
    }

    /// Moves the cursor back to an earlier state.
    pub(crate) fn reset(&mut self, before: Pieces<'a>) {
        *self = before;
    }

    /// Writes the rest of the list into `to`, for at most `most` bytes and as far as `to` has room. Returns the number of buffers written.
    pub(crate) fn rest(&self, to: &mut [iovec], most: usize) -> usize {
        let (mut skip, mut left, mut count) = (self.done, most.min(self.left), 0);
        for piece in self.list {
            let bytes = (piece.iov_len - skip).min(left);
            if bytes > 0 {
                let Some(place) = to.get_mut(count) else { break };
                *place =
                    iovec { iov_base: piece.iov_base.cast::<u8>().wrapping_add(skip).cast(), iov_len: bytes };
                count += 1;
                left -= bytes;
            }
            skip = 0;
        }
        count
    }
}
