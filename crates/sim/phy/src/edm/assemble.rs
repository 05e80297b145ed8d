//! Assembly of memory blocks into messages.

use super::check::Check;
use super::layout::{ControlFields, G, HEAD, Kind, MS, MST, MT, N, Short, StartFields, TAIL};
use super::message::{Body, MemoryMessage, RmwOperation, body_length, data_blocks};
use crate::block::Block;

/// Result of the assembly of one or several memory blocks: a notification, a grant, or a memory message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Notification(ControlFields),
    Grant(ControlFields),
    Message(MemoryMessage),
}

/// Reason why received memory blocks do not form a valid message. Each error invalidates only one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// A block that contains a check (/MS/, /MST/, /N/, /G/) has an invalid field, or its check fails.
    Field,
    /// A message begins before the previous message has ended.
    Unfinished,
    /// A message ends before all its blocks have arrived.
    Short,
    /// A message continues after all its blocks have arrived.
    Long,
    /// A block does not belong to any message.
    Stray,
    /// The check of a whole message fails.
    Check,
    /// A block of the message is damaged.
    Broken,
    /// The switch ended the message with a mark, because the link of the message's sender is damaged or silent. Therefore the error does
    /// not show damage of the receiver's link.
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

/// Assembles the memory blocks that arrive over one line into messages. It takes the blocks in the order of their arrival.
#[derive(Debug, Clone, Default)]
pub struct Assembler {
    open: OpenMessage,
    counts: [u64; Malformed::ALL.len()],
}

/// State of the open message, which has begun but not ended, if there is one.
#[derive(Debug, Clone, Default)]
struct OpenMessage {
    /// Fields of the message's /MS/ block, or `None` if no message is open.
    start: Option<StartFields>,
    /// Length of its body, in bytes.
    length: usize,
    /// Body of the message. Bytes after its end are remains of an earlier, longer message. The body is written directly into this buffer,
    /// because a later copy would have to wait for the words that were just written.
    body: Vec<u8>,
    /// Number of data blocks of the message that have arrived. The next field is the number of data blocks of the whole message, or 0 if no
    /// message is open.
    came: usize,
    expected: usize,
    /// Bytes of the last data block that belong to the next word of the body.
    carried: u64,
    check: Check,
}

impl Assembler {
    /// Handles a memory block. Returns the notification, grant or message that the block completes, or the error if the block invalidates a
    /// message.
    pub fn handle(&mut self, block: Block) -> Option<Result<Event, Malformed>> {
        let mut event = None;
        self.handle_all(&[block], |told| {
            event = Some(told);
            Vec::new()
        });
        event
    }

    /// Handles several memory blocks, and passes each resulting event or error to the callback. The callback returns a buffer, possibly
    /// empty, which the assembler reuses for the data of the next message.
    #[inline]
    pub fn handle_all(
        &mut self,
        blocks: &[Block],
        mut tell: impl FnMut(Result<Event, Malformed>) -> Vec<u8>,
    ) {
        let mut blocks = blocks;
        loop {
            let data = self.open.data(blocks);
            let Some((block, rest)) = blocks[data..].split_first() else { return };
            blocks = rest;
            match block.block_type() {
                Some(MS) => {
                    if let Err(why) = self.start(block.payload) {
                        tell(Err(self.count(why)));
                    }
                }
                Some(MT) => match self.end(block.payload) {
                    Ok(message) => self.open.body = tell(Ok(Event::Message(message))),
                    Err(why) => drop(tell(Err(self.count(why)))),
                },
                _ => drop(tell(self.event(*block))),
            }
        }
    }

    /// Handles a block that is neither an expected data block nor the start or end of a message.
    fn event(&mut self, block: Block) -> Result<Event, Malformed> {
        let payload = block.payload;
        let why = match block.block_type() {
            Some(MST) => return self.short(payload),
            Some(kind @ (N | G)) => return self.control(kind, payload),
            None if self.close().is_some() => Malformed::Long,
            _ => Malformed::Stray,
        };
        Err(self.count(why))
    }

    /// Records that a block of this line was lost. If a message is open, it becomes invalid, and the error is returned.
    pub fn broken(&mut self) -> Option<Malformed> {
        self.close().map(|_| self.count(Malformed::Broken))
    }

    /// Returns the number of invalid messages with this reason.
    pub fn malformed(&self, kind: Malformed) -> u64 {
        self.counts[kind as usize]
    }

    fn count(&mut self, why: Malformed) -> Malformed {
        self.counts[why as usize] += 1;
        why
    }

    /// Closes the open message, and returns the fields of its /MS/ block.
    #[inline(always)]
    fn close(&mut self) -> Option<StartFields> {
        self.open.expected = 0;
        self.open.start.take()
    }

    #[inline(always)]
    fn start(&mut self, payload: u64) -> Result<(), Malformed> {
        let was_open = self.close().is_some();
        let start = StartFields::parse(payload).ok_or(Malformed::Field)?;
        let length = body_length(&start).ok_or(Malformed::Field)?;
        let expected = data_blocks(length);
        let open = &mut self.open;
        let most = 8 * (expected + 1);
        if open.body.len() < most {
            open.body.resize(most, 0);
        }
        (open.start, open.length, open.came, open.expected) = (Some(start), length, 0, expected);
        open.carried = u64::from(u16::from_le_bytes(start.head));
        open.check = Check::START.block(payload);
        if was_open { Err(Malformed::Unfinished) } else { Ok(()) }
    }

    #[inline(always)]
    fn end(&mut self, payload: u64) -> Result<MemoryMessage, Malformed> {
        let is_short = self.open.came < self.open.expected;
        let start = self.close().ok_or(Malformed::Stray)?;
        let OpenMessage { length, came, carried, check, .. } = self.open;
        let check = check.block(payload);
        if is_short || !check.holds() {
            let why = if is_short { Malformed::Short } else { Malformed::Check };
            return Err(if check.is_mark() { Malformed::Marked } else { why });
        }
        let tail = payload << 8 >> 16;
        // Bytes beyond the body are zero.
        let beyond = match HEAD + 8 * came + TAIL - length {
            unused @ 0..=TAIL => tail >> (8 * (TAIL - unused)),
            _ => tail | carried >> 8,
        };
        if beyond != 0 {
            return Err(Malformed::Field);
        }
        let mut body = std::mem::take(&mut self.open.body);
        body.as_chunks_mut().0[came] = (carried | tail << 16).to_le_bytes();
        body.truncate(length);
        let body = parse_body(&start, body).ok_or(Malformed::Field)?;
        Ok(MemoryMessage { node: start.node, id: start.id, body })
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
        Ok(Event::Message(MemoryMessage { node, id, body }))
    }

    fn control(&mut self, kind: u8, payload: u64) -> Result<Event, Malformed> {
        let control = ControlFields::parse(payload).filter(|control| control.size > 0);
        let control = control.ok_or(Malformed::Field).map_err(|why| self.count(why))?;
        Ok(if kind == N { Event::Notification(control) } else { Event::Grant(control) })
    }
}

impl OpenMessage {
    /// Handles the data blocks at the beginning of `blocks`, up to the number that the open message still expects. Returns the number of
    /// handled blocks.
    #[inline(always)]
    fn data(&mut self, blocks: &[Block]) -> usize {
        let (mut carried, mut check) = (self.carried, self.check); // in registers
        let room = self.body.as_chunks_mut().0.get_mut(self.came..self.expected).unwrap_or_default();
        let run = blocks.iter().zip(room).take_while(|(block, _)| block.is_data());
        let keep = |(block, word): (&Block, &mut [u8; 8])| {
            *word = (carried | block.payload << 16).to_le_bytes();
            carried = block.payload >> 48;
            check = check.block(block.payload);
        };
        let data = run.map(keep).count();
        (self.carried, self.check) = (carried, check);
        self.came += data;
        data
    }
}

#[inline(always)]
fn parse_body(start: &StartFields, mut body: Vec<u8>) -> Option<Body> {
    let StartFields { kind, last, size, .. } = *start;
    if kind == Kind::Response {
        return Some(Body::Response { last, data: body });
    }
    let address = u64::from_le_bytes(*body.first_chunk()?);
    Some(match kind {
        Kind::Read => Body::Read { address, bytes: size },
        Kind::Write => {
            body.drain(..8);
            Body::Write { address, last, data: body }
        }
        _ => Body::Modify { address, operation: RmwOperation::from_operands(size, &body[8..])? },
    })
}

const _: () = assert!(HEAD == 2);
