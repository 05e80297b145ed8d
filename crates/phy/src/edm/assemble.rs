//! Memory blocks back to messages.

use super::check::Check;
use super::layout::{Control, G, HEAD, Kind, MS, MST, MT, N, Short, Start};
use super::message::{Body, Message, Operation, body_length, data_blocks};
use crate::block::Block;

/// What one or more blocks said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Notification(Control),
    Grant(Control),
    Message(Message),
}

/// Why blocks say nothing. Each spoils one message and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// A field that cannot be, or a failed check, in a block of its own: /MS/, /MST/, /N/, /G/.
    Field,
    /// A message begins before the one before has ended.
    Unfinished,
    /// It ends before all of it is there.
    Short,
    /// It goes on when all of it is there.
    Long,
    /// A part of no message.
    Stray,
    /// The check of a whole message fails.
    Check,
    /// A block between is damaged.
    Broken,
    /// The switch ended it, since its sender's link is damaged or silent: this link is not.
    Marked,
}

impl Malformed {
    pub const ALL: [Malformed; 8] = [
        Malformed::Field,
        Malformed::Unfinished,
        Malformed::Short,
        Malformed::Long,
        Malformed::Stray,
        Malformed::Check,
        Malformed::Broken,
        Malformed::Marked,
    ];
}

/// Takes the memory blocks of one line, in their order.
#[derive(Debug, Clone, Default)]
pub struct Assembler {
    is_open: bool,
    /// The message that is open, changed where it is: moving what was just written in parts stalls.
    open: Open,
    counts: [u64; Malformed::ALL.len()],
}

#[derive(Debug, Clone, Default)]
struct Open {
    /// The payload of /MS/.
    start: u64,
    /// Bytes that it will have, and those that came.
    length: usize,
    body: Vec<u8>,
    data_left: usize,
    check: Check,
}

impl Assembler {
    /// A memory block came: what it completes, or what it spoils.
    #[inline]
    pub fn handle(&mut self, block: Block) -> Option<Result<Event, Malformed>> {
        if block.is_data() && self.is_open && self.open.data_left > 0 {
            self.open.data(block.payload); // most of a message
            return None;
        }
        self.event(block)
    }

    #[inline]
    fn event(&mut self, block: Block) -> Option<Result<Event, Malformed>> {
        let payload = block.payload;
        let outcome = match block.block_type() {
            None => Some(self.data()),
            Some(MS) => self.start(payload).err(),
            Some(MT) => return Some(self.end(payload).map(Event::Message).map_err(|why| self.count(why))),
            Some(MST) => return Some(self.short(payload)),
            Some(kind @ (N | G)) => return Some(self.control(kind, payload)),
            Some(_) => Some(Malformed::Stray),
        };
        outcome.map(|why| Err(self.count(why)))
    }

    /// A block of this line was lost: the message that is open is spoiled.
    pub fn broken(&mut self) -> Option<Malformed> {
        std::mem::take(&mut self.is_open).then(|| self.count(Malformed::Broken))
    }

    pub fn malformed(&self, kind: Malformed) -> u64 {
        self.counts[kind as usize]
    }

    fn count(&mut self, why: Malformed) -> Malformed {
        self.counts[why as usize] += 1;
        why
    }

    fn start(&mut self, payload: u64) -> Result<(), Malformed> {
        let was_open = std::mem::take(&mut self.is_open);
        let start = Start::parse(payload).ok_or(Malformed::Field)?;
        let length = body_length(&start).ok_or(Malformed::Field)?;
        let open = &mut self.open;
        open.start = payload;
        open.length = length;
        open.data_left = data_blocks(length);
        open.check = Check::START.block(payload);
        open.body.clear();
        open.body.reserve(length + 8);
        open.body.extend_from_slice(&start.head);
        self.is_open = true;
        if was_open { Err(Malformed::Unfinished) } else { Ok(()) }
    }

    /// Data where none is wanted.
    fn data(&mut self) -> Malformed {
        if std::mem::take(&mut self.is_open) { Malformed::Long } else { Malformed::Stray }
    }

    #[inline]
    fn end(&mut self, payload: u64) -> Result<Message, Malformed> {
        if !std::mem::take(&mut self.is_open) {
            return Err(Malformed::Stray);
        }
        let open = &mut self.open;
        let check = open.check.block(payload);
        if open.data_left > 0 {
            return Err(if check.is_mark() { Malformed::Marked } else { Malformed::Short });
        }
        if !check.holds() {
            return Err(if check.is_mark() { Malformed::Marked } else { Malformed::Check });
        }
        open.body.extend_from_slice(&payload.to_le_bytes()[1..7]);
        if open.body[open.length..].iter().any(|byte| *byte != 0) {
            return Err(Malformed::Field);
        }
        open.body.truncate(open.length);
        let start = Start::parse(open.start).ok_or(Malformed::Field)?;
        let body = parse_body(&start, std::mem::take(&mut open.body)).ok_or(Malformed::Field)?;
        Ok(Message { node: start.node, id: start.id, body })
    }

    fn short(&mut self, payload: u64) -> Result<Event, Malformed> {
        let short = Short::parse(payload).ok_or(Malformed::Field).map_err(|why| self.count(why))?;
        let (node, id, body) = match short {
            Short::Read { node, id, bytes, address } => {
                (node, id, Body::Read { address: u64::from(address), bytes })
            }
            Short::Response { node, id, last, length, data } => {
                (node, id, Body::Response { last, data: data[..usize::from(length)].to_vec() })
            }
        };
        Ok(Event::Message(Message { node, id, body }))
    }

    fn control(&mut self, kind: u8, payload: u64) -> Result<Event, Malformed> {
        let control = Control::parse(payload).filter(|control| control.size > 0);
        let control = control.ok_or(Malformed::Field).map_err(|why| self.count(why))?;
        Ok(if kind == N { Event::Notification(control) } else { Event::Grant(control) })
    }
}

impl Open {
    #[inline]
    fn data(&mut self, payload: u64) {
        self.data_left -= 1;
        self.body.extend_from_slice(&payload.to_le_bytes());
        self.check = self.check.block(payload);
    }
}

#[inline]
fn parse_body(start: &Start, mut body: Vec<u8>) -> Option<Body> {
    let Start { kind, last, size, .. } = *start;
    if kind == Kind::Response {
        return Some(Body::Response { last, data: body });
    }
    let address = u64::from_le_bytes(*body.first_chunk::<8>()?);
    Some(match kind {
        Kind::Read => Body::Read { address, bytes: size },
        Kind::Write => {
            body.drain(..8);
            Body::Write { address, last, data: body }
        }
        _ => Body::Modify { address, operation: Operation::from_operands(size, &body[8..])? },
    })
}

const _: () = assert!(HEAD == 2);
