//! Queue of the bytes that a client sends, in the order of its requests.

use super::memory::Local;
use super::{Notice, REQUEST_BYTES, to_bytes};
use crate::queue::entry::Request;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use unrack_keys::Wire;

/// Queue of requests and notices to send.
pub(super) struct Outgoing {
    pieces: VecDeque<Piece>,
    /// True for each slot whose request is not sent completely. Until then its buffer is needed, whatever the
    /// server answers.
    unsent: Vec<bool>,
}

struct Piece {
    /// Slot of the request; `None` for a notice.
    slot: Option<u16>,
    header: [u8; REQUEST_BYTES],
    body: *const u8,
    length: usize,
    /// Bytes of header and body that are sent.
    sent: usize,
}

// SAFETY: the bytes belong to an unanswered request, so they stay in place, and nobody writes them.
unsafe impl Send for Piece {}

impl Outgoing {
    /// Makes an empty queue.
    pub(super) fn new(slots: usize) -> Outgoing {
        Outgoing { pieces: VecDeque::new(), unsent: vec![false; slots] }
    }

    /// Returns whether part of a slot's request is still to be sent.
    pub(super) fn is_unsent(&self, slot: u16) -> bool {
        self.unsent[usize::from(slot)]
    }

    /// Adds a request.
    pub(super) fn push(&mut self, request: &Request, local: &Local) {
        let header = to_bytes(Request { offset: 0, ..*request }.entries());
        let body = local.base(request.offset);
        let (slot, length) = (Some(request.slot), request.length as usize);
        self.unsent[usize::from(request.slot)] = true;
        self.pieces.push_back(Piece { slot, header, body, length, sent: 0 });
    }

    /// Adds a notice.
    pub(super) fn notice(&mut self, notice: Notice) {
        let body = std::ptr::NonNull::dangling().as_ptr();
        let header = to_bytes(notice.entries());
        self.pieces.push_back(Piece { slot: None, header, body, length: 0, sent: 0 });
    }

    /// Returns whether all is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of bytes that are still to be sent.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.header.len() + piece.length - piece.sent).sum()
    }

    /// Discards all that is not sent.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.unsent.fill(false);
    }

    /// Writes as much as the socket takes. Returns whether it took anything.
    pub(super) fn write(&mut self, wire: &mut Wire) -> io::Result<bool> {
        const AT_ONCE: usize = 32;
        let mut any = false;
        while !self.pieces.is_empty() {
            let parts: Vec<IoSlice> =
                self.pieces.iter().take(AT_ONCE).flat_map(Piece::left).map(IoSlice::new).collect();
            match wire.write_vectored(&parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            any = true;
        }
        match wire.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(any),
        }
    }

    fn sent(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            let taken = count.min(piece.header.len() + piece.length - piece.sent);
            piece.sent += taken;
            count -= taken;
            if piece.sent < piece.header.len() + piece.length {
                return;
            }
            if let Some(slot) = piece.slot {
                self.unsent[usize::from(slot)] = false;
            }
            self.pieces.pop_front();
        }
    }
}

impl Piece {
    fn left(&self) -> [&[u8]; 2] {
        // SAFETY: the bytes belong to an unanswered request (`push` was given its buffer, `notice` none and no
        // length), so they stay in place, and nobody writes them.
        let body = unsafe { std::slice::from_raw_parts(self.body, self.length) };
        let of_header = self.sent.min(self.header.len());
        [&self.header[of_header..], &body[self.sent - of_header..]]
    }
}
