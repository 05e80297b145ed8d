//! Requests that a node serves for other nodes.

use super::copies::{Copies, LineSet, MOST, SlotRelation};
use super::{HostStack, MemoryController};
use crate::edm::{Body, MemoryMessage};
use unrack_protocol::edm::steps;

/// An answer to another node's request that has not been sent completely yet.
#[derive(Debug, Clone)]
pub(super) struct PendingResponse {
    data: Vec<u8>,
    sent: [usize; MOST],
    /// Lines over which the answer has not been sent completely yet.
    open: LineSet,
}

/// The newest request, or the newest write, that has arrived from another node for one place in that node's table of active messages.
/// Requests and writes have separate entries, because a request may overtake the data of the write that used the place before.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewestRequest {
    id: u8,
    /// Bytes of a write that have arrived over each line; unused for requests.
    copies: Copies,
}

/// Key of a [`NewestRequest`]: the source of the message, whether the message is a write, and its place in the source's table.
pub(super) type RequestKey = (u16, bool, u8);

impl PendingResponse {
    /// Closes the answer on this line, because its last chunk was sent or because the line is no longer used. Returns whether the answer is
    /// now closed on all lines.
    pub(super) fn close(&mut self, line: usize) -> bool {
        self.open.remove(line);
        self.open.is_empty()
    }

    fn has_begun(&self, line: usize) -> bool {
        self.sent[line] > 0
    }
}

impl HostStack {
    pub(super) fn message(
        &mut self,
        (now, line): (u64, usize),
        began: u64,
        message: MemoryMessage,
        store: &mut impl MemoryController,
    ) {
        let key = (message.node, message.id);
        let (first, at) = (began + steps::RECEIVE_DATA, now + steps::RECEIVE_DATA);
        match message.body {
            Body::Read { address, bytes } => {
                self.request((now, line), key, || store.read(address, usize::from(bytes)));
            }
            Body::Modify { address, operation } => self.request((now, line), key, || {
                let word = store.read(address, 8).try_into().map_or(0, u64::from_le_bytes);
                let (word, answer) = operation.apply(word);
                store.write(address, &word.to_le_bytes(), at, at);
                answer
            }),
            Body::Write { address, data, .. } => {
                let known = data.len() - self.new_bytes(line, key, data.len());
                if known < data.len() {
                    store.write(address.wrapping_add(known as u64), &data[known..], first, at);
                }
            }
            Body::Response { last, data } => self.answered((now, line), key, last, &data, (first, at)),
        }
    }

    /// Handles a request that arrived over a line. If the same request arrives over two lines, it is executed only once, but answered over
    /// each of the lines. The request is also the grant of the first chunk of the answer (§3.1.1 (4)).
    fn request(&mut self, (now, line): (u64, usize), key: (u16, u8), answer: impl FnOnce() -> Vec<u8>) {
        match self.turn(key, false) {
            SlotRelation::Newer => {
                let open = LineSet::first(self.lines.len()).without(self.out);
                self.answers.insert(key, PendingResponse { data: answer(), sent: [0; MOST], open });
            }
            SlotRelation::Same => self.duplicates += 1,
            SlotRelation::Older => {}
        }
        let from = now + steps::RECEIVE_REQUEST + steps::READ_GRANT_QUEUE + steps::MAKE_DATA;
        let is_first = self.answers.get(&key).is_some_and(|answer| !answer.has_begun(line));
        if !is_first || !self.send_answer(line, from, key, usize::from(self.config.chunk)) {
            self.stray_grant(now, line);
        }
    }

    /// Sends the granted part of an answer over a line. Returns `false` if no such answer waits.
    pub(super) fn send_answer(&mut self, line: usize, from: u64, key: (u16, u8), granted: usize) -> bool {
        let Some(answer) = self.answers.get_mut(&key) else { return false };
        let rest = &answer.data[answer.sent[line]..];
        let data = rest[..granted.min(rest.len())].to_vec();
        answer.sent[line] += data.len();
        let last = answer.sent[line] == answer.data.len();
        if last && answer.close(line) {
            self.answers.remove(&key);
        }
        let body = Body::Response { last, data };
        self.send(line, from, MemoryMessage { node: self.config.node, id: key.1, body });
        true
    }

    /// Handles the arrival of `bytes` bytes of a write. Returns the number of bytes at the end of these that have not arrived over the
    /// other line before.
    fn new_bytes(&mut self, line: usize, key: (u16, u8), bytes: usize) -> usize {
        if self.lines.len() == 1 {
            return bytes;
        }
        let is_late = self.is_lost(key.0, line) || self.turn(key, true) == SlotRelation::Older;
        let served = self.served.get_mut(&(key.0, true, self.config.place_of(key.1))).filter(|_| !is_late);
        let new = served.map_or(0, |served| served.copies.take(line, bytes));
        self.duplicates += u64::from(new < bytes);
        new
    }

    /// Compares a message with the newest message so far that has the same place in the sender's table. If the message is newer, it becomes
    /// the newest one.
    fn turn(&mut self, (node, id): (u16, u8), is_write: bool) -> SlotRelation {
        if self.lines.len() == 1 {
            return SlotRelation::Newer;
        }
        let bits = self.config.place_bits();
        let place = (node, is_write, self.config.place_of(id));
        let before = self.served.get(&place).map(|served| served.id);
        let of = |before| SlotRelation::compare(id >> bits, before >> bits, self.config.uses_bits());
        let turn = before.map_or(SlotRelation::Newer, of);
        if turn == SlotRelation::Newer {
            self.served.insert(place, NewestRequest { id, copies: Copies::default() });
            before.into_iter().filter(|_| !is_write).for_each(|before| self.supersede((node, before)));
        }
        turn
    }

    /// Drops an answer for which its destination no longer waits. On lines over which a part of the answer was already sent, the answer
    /// stays, because the switch still sends grants for it.
    fn supersede(&mut self, key: (u16, u8)) {
        let Some(answer) = self.answers.get_mut(&key) else { return };
        let begun = (0..MOST).filter(|line| answer.has_begun(*line));
        answer.open = begun.filter(|line| answer.open.has(*line)).collect();
        if answer.open.is_empty() {
            self.answers.remove(&key);
        }
    }
}
