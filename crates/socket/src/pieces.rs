//! The caller's buffers, as a place in a list of them.

use libc::iovec;

/// Buffers of a call, of which a part has been done.
#[derive(Clone, Copy)]
pub struct Pieces<'a> {
    list: &'a [iovec],
    /// Bytes of the first buffer that are done.
    done: usize,
    left: usize,
}

impl<'a> Pieces<'a> {
    /// Makes a cursor at the first byte.
    pub fn new(list: &'a [iovec]) -> Pieces<'a> {
        let left = list.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.iov_len));
        Pieces { list, done: 0, left }
    }

    /// Returns the bytes that are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the next contiguous bytes, at most `most`.
    pub(crate) fn next(&mut self, most: usize) -> Option<(*mut u8, usize)> {
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

    /// Moves on.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.done += bytes;
        self.left -= bytes;
    }

    /// Moves on by bytes that may lie in several buffers.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0
            && let Some((_, part)) = self.next(left)
        {
            self.advance(part);
            left -= part;
        }
    }

    /// Moves back to an earlier place: the cursor as it was before.
    pub(crate) fn reset(&mut self, before: Pieces<'a>) {
        *self = before;
    }

    /// Copies the buffers that are left into `to`, at most `most` bytes and as many buffers as there is room for. Returns
    /// how many buffers that are.
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
