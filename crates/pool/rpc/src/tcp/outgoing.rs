//! Queue of the bytes that a client sends, in the order of its requests.

use super::memory::Local;
use super::{Notice, REQUEST_BYTES, to_bytes};
use crate::queue::entry::Request;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use unrack_keys::Wire;

/// Queue of the requests and notices that are to be sent.
pub(super) struct SendQueue {
    pieces: VecDeque<OutgoingPiece>,
    /// True for each slot whose request is not completely sent. Until then the slot's buffer is still needed, even if
    /// the server sends an answer.
    unsent: Vec<bool>,
}

struct OutgoingPiece {
    /// Slot of the request; `None` for a notice.
    slot: Option<u16>,
    header: [u8; REQUEST_BYTES],
    body: *const u8,
    length: usize,
    /// Number of bytes of header and body that are sent.
    sent: usize,
}

// SAFETY: the bytes belong to an unanswered request, so they stay in place and no thread writes them.
unsafe impl Send for OutgoingPiece {}

impl SendQueue {
    /// Makes an empty queue.
    pub(super) fn new(slots: usize) -> SendQueue {
        SendQueue { pieces: VecDeque::new(), unsent: vec![false; slots] }
    }

    /// Returns whether a part of the slot's request is still to be sent.
    pub(super) fn is_unsent(&self, slot: u16) -> bool {
        self.unsent[usize::from(slot)]
    }

    /// Adds a request.
    pub(super) fn push(&mut self, request: &Request, local: &Local) {
        let header = to_bytes(Request { offset: 0, ..*request }.entries());
        let body = local.base(request.offset);
        let (slot, length) = (Some(request.slot), request.length as usize);
        self.unsent[usize::from(request.slot)] = true;
        self.pieces.push_back(OutgoingPiece { slot, header, body, length, sent: 0 });
    }

    /// Adds a notice.
    pub(super) fn notice(&mut self, notice: Notice) {
        let body = std::ptr::NonNull::dangling().as_ptr();
        let header = to_bytes(notice.entries());
        self.pieces.push_back(OutgoingPiece { slot: None, header, body, length: 0, sent: 0 });
    }

    /// Returns whether everything is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of bytes that are still to be sent.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.header.len() + piece.length - piece.sent).sum()
    }

    /// Discards everything that is not sent.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.unsent.fill(false);
    }

    /// Writes as many bytes as the socket takes. Returns whether it took any.
    pub(super) fn write(&mut self, wire: &mut Wire) -> io::Result<bool> {
        const AT_ONCE: usize = 32;
        let mut any = false;
        while !self.pieces.is_empty() {
            let parts: Vec<IoSlice> =
                self.pieces.iter().take(AT_ONCE).flat_map(OutgoingPiece::left).map(IoSlice::new).collect();
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

impl OutgoingPiece {
    fn left(&self) -> [&[u8]; 2] {
        // SAFETY: the bytes belong to an unanswered request, so they stay in place and no thread writes them. `push`
        // received the request's buffer; `notice` sets a length of zero.
        let body = unsafe { std::slice::from_raw_parts(self.body, self.length) };
        let of_header = self.sent.min(self.header.len());
        [&self.header[of_header..], &body[self.sent - of_header..]]
    }
}
