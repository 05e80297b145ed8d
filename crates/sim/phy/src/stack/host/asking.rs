//! Requests that a node sends to other nodes.

use super::copies::{Copies, LineSet};
use super::{Completion, HostStack, Request, RequestOutcome};
use crate::edm::layout::{ControlFields, Kind, N};
use crate::edm::{Body, MemoryMessage, RmwOperation};
use std::collections::VecDeque;
use unrack_protocol::edm::steps;

/// Active messages to one destination, and the requests that wait until one of these messages ends.
#[derive(Debug, Clone, Default)]
pub(super) struct DestinationQueue {
    places: Vec<ActiveSlot>,
    pub waiting: VecDeque<(u32, Request)>,
    /// Lines over which the destination no longer answers.
    pub lost: LineSet,
}

/// One of the X places in the table of active messages to one destination.
#[derive(Debug, Clone, Copy, Default)]
struct ActiveSlot {
    is_used: bool,
    /// Number of messages that have used the place and ended, modulo 256.
    uses: u8,
}

/// A read or read-modify-write that waits for its answer.
#[derive(Debug, Clone)]
pub(super) struct AwaitedResponse {
    ticket: u32,
    bytes: usize,
    data: Vec<u8>,
    copies: Copies,
    /// Lines over which the last chunk of the answer has not arrived yet.
    open: LineSet,
    /// Whether the whole answer has arrived over at least one line.
    is_over: bool,
    /// Cycle at which the wait times out. Before this cycle, the first copy of the answer must be complete. Once it is complete, the
    /// deadline is that of the second copy.
    deadline: Option<u64>,
}

/// A write, or several writes that the node announced to the switch with one notification.
#[derive(Debug, Clone)]
pub(super) struct AnnouncedWrite {
    /// For each line, the parts that are still to be sent over it.
    left: Vec<VecDeque<WritePart>>,
    /// Number of parts that have not been sent over any line yet.
    unsent: usize,
    /// Lines over which the write must be sent before its place in the table is free. Parts in `left` for other lines do not keep the place
    /// occupied; they only wait for their grants.
    open: LineSet,
    is_free: bool,
    /// Cycle by which the second copy of the write must have been sent. It is set once the first copy has been sent.
    deadline: Option<u64>,
}

/// Ticket, address and data of a write.
type WritePart = (u32, u64, Vec<u8>);

impl DestinationQueue {
    /// Returns whether a new request to this destination would start at once, because fewer than `max_active` messages are active.
    pub(super) fn is_ready(&self, max_active: usize) -> bool {
        self.waiting.is_empty() && self.places.iter().filter(|place| place.is_used).count() < max_active
    }
}

impl AnnouncedWrite {
    /// Returns whether the place of this write in the table is free again, because the write was sent over all lines in `open`.
    pub(super) fn is_free(&self) -> bool {
        self.is_free
    }
}

impl HostStack {
    /// Starts waiting requests to a destination until X messages to this destination are active.
    pub(super) fn admit(&mut self, now: u64, dst: u16) {
        while self.ways.get(&dst).is_some_and(|way| !way.waiting.is_empty()) {
            let Some(id) = self.new_id(dst) else { return };
            let waiting = &mut self.ways.get_mut(&dst).expect("it waits").waiting;
            let (ticket, request) = waiting.pop_front().expect("it waits");
            let from = now + steps::MAKE_NOTIFICATION;
            match request {
                Request::Write { address, data, .. } => {
                    self.announce(from, (dst, id), (ticket, address, data))
                }
                Request::Read { address, bytes, .. } => {
                    let body = Body::Read { address, bytes };
                    self.ask(from, MemoryMessage { node: dst, id, body }, ticket, usize::from(bytes), now);
                }
                Request::Modify { address, operation, .. } => {
                    let bytes = RmwOperation::response_bytes(operation.opcode()).expect("one of ours");
                    let body = Body::Modify { address, operation };
                    self.ask(from, MemoryMessage { node: dst, id, body }, ticket, usize::from(bytes), now);
                }
            }
        }
    }

    /// Returns the message id for the first free place, or `None` if X messages to the destination are active. The low bits of the id are
    /// the number of the place. The bits above count the uses of the place, so that the node does not mistake a late answer for the answer
    /// to a later request.
    fn new_id(&mut self, dst: u16) -> Option<u8> {
        let places = &mut self.ways.entry(dst).or_default().places;
        places.resize(self.config.max_active, ActiveSlot::default());
        let at = places.iter().position(|place| !place.is_used)?;
        places[at].is_used = true;
        let uses = places[at].uses.checked_shl(self.config.place_bits()).unwrap_or(0);
        Some(uses | at as u8)
    }

    fn announce(&mut self, from: u64, key: (u16, u8), first: WritePart) {
        let mut bytes = first.2.len();
        let mut parts = VecDeque::from([first]);
        let waiting = &mut self.ways.get_mut(&key.0).expect("it was there").waiting;
        let most = self.config.mega.map_or(0, usize::from);
        while let Some((_, Request::Write { data, .. })) = waiting.front()
            && bytes + data.len() <= most
            && let Some((ticket, Request::Write { address, data, .. })) = waiting.pop_front()
        {
            bytes += data.len();
            parts.push_back((ticket, address, data));
        }
        let size = u16::try_from(bytes).expect("a message has at most 65,535 bytes");
        let notification = ControlFields { kind: Kind::Write, node: key.0, id: key.1, size };
        let (open, unsent) = (self.lines_to(key.0), parts.len());
        let mut left = vec![VecDeque::new(); self.lines.len()];
        for line in open.iter() {
            self.lines[line].outbox.control(from, [notification.block(N)]);
            left[line].clone_from(&parts);
        }
        self.announced.insert(key, AnnouncedWrite { left, unsent, open, is_free: false, deadline: None });
    }

    fn ask(&mut self, from: u64, request: MemoryMessage, ticket: u32, bytes: usize, now: u64) {
        let deadline = self.config.timeout.map(|timeout| now + timeout);
        let key = (request.node, request.id);
        let open = self.lines_to(key.0);
        let (data, copies, is_over) = (Vec::new(), Copies::default(), false);
        self.awaited.insert(key, AwaitedResponse { ticket, bytes, data, copies, open, is_over, deadline });
        let mut blocks = Vec::new();
        request.blocks(&mut blocks);
        for line in open.iter() {
            self.lines[line].outbox.control(from, blocks.iter().copied());
        }
    }

    /// Sends the granted part of a write over the line on which the grant arrived. Returns `false` if no such write waits.
    pub(super) fn send_write(
        &mut self,
        (now, line): (u64, usize),
        from: u64,
        key: (u16, u8),
        mut granted: usize,
    ) -> bool {
        let Some(announced) = self.announced.get_mut(&key) else { return false };
        let left = &mut announced.left[line];
        let mut messages = Vec::new();
        while granted > 0
            && let Some((ticket, address, mut data)) = left.pop_front()
        {
            let rest = data.split_off(granted.min(data.len()));
            granted -= data.len();
            if !rest.is_empty() {
                left.push_front((ticket, address.wrapping_add(data.len() as u64), rest));
            } else if left.len() < announced.unsent {
                announced.unsent = left.len();
                let outcome = RequestOutcome::Sent;
                self.completions.push(Completion { ticket, outcome, first: from, at: from });
            }
            let last = left.front().is_none_or(|part| part.0 != ticket);
            messages.push(Body::Write { address, last, data });
        }
        if left.is_empty() {
            announced.open.remove(line);
            let timeout = self.config.timeout.filter(|_| !announced.open.is_empty());
            announced.deadline = timeout.map(|timeout| now + timeout);
            self.settle(now, key);
        }
        for body in messages {
            self.send(line, from, MemoryMessage { node: self.config.node, id: key.1, body });
        }
        true
    }

    pub(super) fn answered(
        &mut self,
        (now, line): (u64, usize),
        key: (u16, u8),
        last: bool,
        data: &[u8],
        (first, at): (u64, u64),
    ) {
        if self.is_lost(key.0, line) {
            self.duplicates += 1;
            return;
        }
        let Some(awaited) = self.awaited.get_mut(&key) else {
            self.strays += 1;
            return;
        };
        let new = awaited.copies.take(line, data.len());
        awaited.data.extend(&data[data.len() - new..]);
        self.duplicates += u64::from(new < data.len());
        if !last {
            return;
        }
        awaited.open.remove(line);
        if !awaited.is_over {
            awaited.is_over = true;
            awaited.deadline = self.config.timeout.map(|timeout| now + timeout);
            let data = std::mem::take(&mut awaited.data);
            let outcome =
                if data.len() == awaited.bytes { RequestOutcome::Answer(data) } else { RequestOutcome::Null };
            self.completions.push(Completion { ticket: awaited.ticket, outcome, first, at });
        }
        self.settle(now, key);
    }

    /// Ends a request once it no longer waits for an answer or a grant, and frees its place in the table.
    fn settle(&mut self, now: u64, key: (u16, u8)) {
        if self.awaited.get(&key).is_some_and(|awaited| awaited.is_over && awaited.open.is_empty()) {
            self.awaited.remove(&key);
            self.release(now, key);
        }
        let Some(announced) = self.announced.get_mut(&key) else { return };
        if announced.unsent > 0 || !announced.open.is_empty() {
            return;
        }
        let was_free = std::mem::replace(&mut announced.is_free, true);
        let out = self.out;
        if announced.left.iter().enumerate().all(|(line, left)| left.is_empty() || out.has(line)) {
            self.announced.remove(&key);
        }
        if !was_free {
            self.release(now, key);
        }
    }

    /// Stops waiting for answers and grants from `node` on this line, and from now on ignores everything from `node` that arrives over it.
    pub(super) fn give_up(&mut self, now: u64, node: u16, line: usize) {
        self.ways.entry(node).or_default().lost.add(line);
        let of_node = (node, 0)..=(node, u8::MAX);
        self.awaited.range_mut(of_node.clone()).for_each(|(_, awaited)| awaited.open.remove(line));
        self.announced.range_mut(of_node.clone()).for_each(|(_, announced)| announced.open.remove(line));
        let awaited = self.awaited.range(of_node.clone()).map(|(key, _)| *key);
        let keys: Vec<_> = awaited.chain(self.announced.range(of_node).map(|(key, _)| *key)).collect();
        keys.into_iter().for_each(|key| self.settle(now, key));
    }

    pub(super) fn time_out(&mut self, now: u64) {
        if self.config.timeout.is_none() {
            return;
        }
        let is_late = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline <= now);
        while let Some((key, awaited)) = self.awaited.iter().find(|(_, awaited)| is_late(awaited.deadline)) {
            let (key, ticket, open) = (*key, awaited.ticket, awaited.open);
            if awaited.is_over {
                open.iter().for_each(|line| self.give_up(now, key.0, line));
                continue;
            }
            self.awaited.remove(&key);
            self.completions.push(Completion { ticket, outcome: RequestOutcome::Null, first: now, at: now });
            self.release(now, key);
        }
        while let Some((key, announced)) = self.announced.iter_mut().find(|(_, all)| is_late(all.deadline)) {
            let (key, open) = (*key, announced.open);
            announced.deadline = None;
            open.iter().for_each(|line| self.give_up(now, key.0, line));
        }
    }

    fn release(&mut self, now: u64, (dst, id): (u16, u8)) {
        let at = usize::from(self.config.place_of(id));
        let place = &mut self.ways.get_mut(&dst).expect("it was active").places[at];
        *place = ActiveSlot { is_used: false, uses: place.uses.wrapping_add(1) };
        self.admit(now, dst);
    }
}
