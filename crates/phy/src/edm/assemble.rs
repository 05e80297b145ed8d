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
    open: Option<Open>,
    counts: [u64; Malformed::ALL.len()],
}

#[derive(Debug, Clone)]
struct Open {
    start: Start,
    /// Bytes that it will have, and those that came.
    length: usize,
    body: Vec<u8>,
    data_left: usize,
    check: Check,
}

impl Assembler {
    /// A memory block came: what it completes, or what it spoils.
    pub fn handle(&mut self, block: Block) -> Option<Result<Event, Malformed>> {
        let payload = block.payload;
        let outcome = match block.block_type() {
            None => self.data(payload).err(),
            Some(MS) => self.start(payload).err(),
            Some(MT) => return Some(self.end(payload).map_err(|why| self.count(why))),
            Some(MST) => return Some(self.short(payload)),
            Some(kind @ (N | G)) => return Some(self.control(kind, payload)),
            Some(_) => Some(Malformed::Stray),
        };
        outcome.map(|why| Err(self.count(why)))
    }

    /// A block of this line was lost: the message that is open is spoiled.
    pub fn broken(&mut self) -> Option<Malformed> {
        self.open.take().map(|_| self.count(Malformed::Broken))
    }

    pub fn malformed(&self, kind: Malformed) -> u64 {
        self.counts[kind as usize]
    }

    fn count(&mut self, why: Malformed) -> Malformed {
        self.counts[why as usize] += 1;
        why
    }

    fn start(&mut self, payload: u64) -> Result<(), Malformed> {
        let unfinished = self.open.take();
        let start = Start::parse(payload).ok_or(Malformed::Field)?;
        let length = body_length(&start).ok_or(Malformed::Field)?;
        let mut body = Vec::with_capacity(length + 8);
        body.extend(start.head);
        let check = Check::START.block(payload);
        self.open = Some(Open { start, length, body, data_left: data_blocks(length), check });
        unfinished.map_or(Ok(()), |_| Err(Malformed::Unfinished))
    }

    fn data(&mut self, payload: u64) -> Result<(), Malformed> {
        let open = self.open.as_mut().ok_or(Malformed::Stray)?;
        if open.data_left == 0 {
            self.open = None;
            return Err(Malformed::Long);
        }
        open.data_left -= 1;
        open.body.extend(payload.to_le_bytes());
        open.check = open.check.block(payload);
        Ok(())
    }

    fn end(&mut self, payload: u64) -> Result<Event, Malformed> {
        let mut open = self.open.take().ok_or(Malformed::Stray)?;
        let check = open.check.block(payload);
        if check.is_mark() {
            return Err(Malformed::Marked);
        }
        if open.data_left > 0 {
            return Err(Malformed::Short);
        }
        if !check.holds() {
            return Err(Malformed::Check);
        }
        open.body.extend(&payload.to_le_bytes()[1..7]);
        if open.body[open.length..].iter().any(|byte| *byte != 0) {
            return Err(Malformed::Field);
        }
        open.body.truncate(open.length);
        let Start { kind, last, node, id, size, .. } = open.start;
        let body = parse_body(kind, last, size, open.body).ok_or(Malformed::Field)?;
        Ok(Event::Message(Message { node, id, body }))
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

fn parse_body(kind: Kind, last: bool, size: u16, mut body: Vec<u8>) -> Option<Body> {
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
