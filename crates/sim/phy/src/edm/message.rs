//! EDM's memory messages (§2.3), and their encoding as blocks.

use super::check::Check;
use super::layout::{
    HEAD, Kind, MT, SHORT_ADDRESS, SHORT_ALIGN, SHORT_BYTES, SHORT_DATA, Short, StartFields, TAIL,
};
use crate::block::Block;

/// A memory message, or the part of a memory message (chunk) that one grant allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryMessage {
    /// Number of the node at the other end of the message; see `node` in [`layout`](super::layout).
    pub node: u16,
    pub id: u8,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// RREQ: a request to read 1 to 65,535 bytes.
    Read { address: u64, bytes: u16 },
    /// WREQ: a chunk of a write. Each chunk has an address, so that the receiver need not remember the chunks before it.
    Write { address: u64, last: bool, data: Vec<u8> },
    /// RMWREQ: an atomic operation.
    Modify { address: u64, operation: RmwOperation },
    /// RRES: a chunk of the answer to a request. Without data, it is the answer NULL.
    Response { last: bool, data: Vec<u8> },
}

impl Body {
    /// Returns the data of a write or a response, or an empty vector for other messages.
    #[inline]
    pub fn into_data(self) -> Vec<u8> {
        match self {
            Body::Write { data, .. } | Body::Response { data, .. } => data,
            Body::Read { .. } | Body::Modify { .. } => Vec::new(),
        }
    }
}

/// Atomic operation of an RMWREQ (read-modify-write) on the 64-bit word at the request's address (§3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RmwOperation {
    /// Compare and swap: stores `new` if the word equals `expected`. The answer is one byte, which is 1 if `new` was stored and 0
    /// otherwise.
    CompareSwap { expected: u64, new: u64 },
    /// Fetch and add: adds `addend` to the word. The answer is the word before the addition.
    FetchAdd { addend: u64 },
    /// Swap: stores `new` in place of the word. The answer is the previous word.
    Swap { new: u64 },
}

impl RmwOperation {
    /// Returns the opcode of the operation, which is in the size field of the /MS/ block.
    pub fn opcode(&self) -> u16 {
        match self {
            RmwOperation::CompareSwap { .. } => 0,
            RmwOperation::FetchAdd { .. } => 1,
            RmwOperation::Swap { .. } => 2,
        }
    }

    fn operands(&self) -> ([u64; 2], usize) {
        match *self {
            RmwOperation::CompareSwap { expected, new } => ([expected, new], 2),
            RmwOperation::FetchAdd { addend } => ([addend, 0], 1),
            RmwOperation::Swap { new } => ([new, 0], 1),
        }
    }

    pub(super) fn from_operands(opcode: u16, operands: &[u8]) -> Option<RmwOperation> {
        let mut words = operands.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        Some(match opcode {
            0 => RmwOperation::CompareSwap { expected: words.next()?, new: words.next()? },
            1 => RmwOperation::FetchAdd { addend: words.next()? },
            2 => RmwOperation::Swap { new: words.next()? },
            _ => return None,
        })
    }

    /// Returns the number of bytes of the RRES that answers an operation with this opcode. The switch needs this number to grant the answer
    /// (§3.1.1). Returns `None` for an unknown opcode.
    pub fn response_bytes(opcode: u16) -> Option<u16> {
        match opcode {
            0 => Some(1),
            1 | 2 => Some(8),
            _ => None,
        }
    }

    /// Applies the operation to a word. Returns the new word and the answer.
    pub fn apply(&self, word: u64) -> (u64, Vec<u8>) {
        match *self {
            RmwOperation::CompareSwap { expected, new } if word == expected => (new, vec![1]),
            RmwOperation::CompareSwap { .. } => (word, vec![0]),
            RmwOperation::FetchAdd { addend } => (word.wrapping_add(addend), word.to_le_bytes().to_vec()),
            RmwOperation::Swap { new } => (new, word.to_le_bytes().to_vec()),
        }
    }
}

/// Returns the number of bytes in the body of the message whose /MS/ block has these fields, or `None` if the fields are invalid.
pub fn body_length(start: &StartFields) -> Option<usize> {
    match start.kind {
        Kind::Read => (start.last && start.size > 0).then_some(8),
        Kind::Write => (start.size > 0).then_some(8 + usize::from(start.size)),
        Kind::Modify if !start.last => None,
        Kind::Modify => match start.size {
            0 => Some(24),
            1 | 2 => Some(16),
            _ => None,
        },
        Kind::Response => (start.size > 0).then_some(usize::from(start.size)),
    }
}

/// Returns the number of data blocks between /MS/ and /MT/ for a body of `body` bytes.
pub fn data_blocks(body: usize) -> usize {
    body.saturating_sub(HEAD + TAIL).div_ceil(8)
}

impl MemoryMessage {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self.body {
            Body::Read { .. } => Kind::Read,
            Body::Write { .. } => Kind::Write,
            Body::Modify { .. } => Kind::Modify,
            Body::Response { .. } => Kind::Response,
        }
    }

    /// Adds the blocks of the message to `blocks`. If the message fits into the short form (/MST/), this is a single block.
    ///
    /// # Panics
    /// If the message has more than 65,535 bytes of data, or is a write without data.
    pub fn blocks(&self, blocks: &mut impl Extend<Block>) {
        if let Some(short) = self.short() {
            return blocks.extend([short.block()]);
        }
        let (size, last, front, data) = self.parts();
        // The body is the front (address and operands, which are whole words), followed by the data. /MS/ takes the
        // first two bytes of the body. The block that takes the last six bytes of the front also takes the first two
        // bytes of the data, so that the rest of the data is aligned with blocks.
        let (of_data, rest) = match data.split_first_chunk::<HEAD>() {
            Some((first, rest)) => (u16::from_le_bytes(*first), rest),
            None => (word(data) as u16, &[][..]),
        };
        let front = &front.words[..front.count];
        let head = front.first().map_or(of_data, |first| *first as u16);
        let MemoryMessage { node, id, .. } = *self;
        let first = StartFields { kind: self.kind(), last, node, id, size, head: head.to_le_bytes() }.block();
        let mut check = Check::START.block(first.payload);
        let mut checked = |payload| {
            check = check.block(payload);
            Block::data(payload)
        };
        blocks.extend([first]);
        for two in front.windows(2) {
            blocks.extend([checked(two[0] >> 16 | two[1] << 48)]);
        }
        // Six bytes of the front are left. If there is data, they begin a block; otherwise they are the tail.
        let mut tail = front.last().map_or(0, |last| last >> 16);
        if !data.is_empty() {
            if !front.is_empty() {
                blocks.extend([checked(tail | u64::from(of_data) << 48)]);
            }
            let (words, short) = rest.as_chunks::<8>();
            blocks.extend(words.iter().map(|bytes| checked(u64::from_le_bytes(*bytes))));
            // The tail is the upper part of the last eight bytes.
            tail = match data.last_chunk::<8>() {
                Some(eight) => (u64::from_le_bytes(*eight) >> 8) >> (8 * (7 - short.len())),
                None => word(short),
            };
            if short.len() > TAIL {
                blocks.extend([checked(tail)]);
                tail = 0;
            }
        }
        blocks.extend([Block::control(check.close(u64::from(MT) | tail << 8))]);
    }

    fn short(&self) -> Option<Short> {
        let MemoryMessage { node, id, .. } = *self;
        match &self.body {
            Body::Read { address, bytes } => {
                let fits = *address < SHORT_ADDRESS
                    && address.is_multiple_of(SHORT_ALIGN)
                    && (1..=SHORT_BYTES).contains(&u64::from(*bytes));
                fits.then_some(Short::Read { node, id, bytes: *bytes, address: *address as u32 })
            }
            Body::Response { last, data } if data.len() <= SHORT_DATA => {
                let mut padded = [0; SHORT_DATA];
                padded[..data.len()].copy_from_slice(data);
                let length = data.len() as u8;
                Some(Short::Response { node, id, last: *last, length, data: padded })
            }
            _ => None,
        }
    }

    /// Returns the parts of the message: the size field of /MS/, whether this is the last chunk, the front of the body (address and
    /// operands), and the data.
    #[inline]
    fn parts(&self) -> (u16, bool, BodyFront, &[u8]) {
        let size = |data: &[u8]| u16::try_from(data.len()).expect("a chunk has at most 65,535 bytes");
        match &self.body {
            Body::Read { address, bytes } => (*bytes, true, BodyFront::from_words(&[*address]), &[]),
            Body::Write { address, last, data } => {
                assert!(!data.is_empty(), "a write has data");
                (size(data), *last, BodyFront::from_words(&[*address]), data)
            }
            Body::Modify { address, operation } => {
                let ([first, second], count) = operation.operands();
                (operation.opcode(), true, BodyFront::from_words(&[*address, first, second][..=count]), &[])
            }
            Body::Response { last, data } => (size(data), *last, BodyFront::from_words(&[]), data),
        }
    }
}

/// Front of a message's body: the address and the operands, which precede the data.
#[derive(Debug, Clone, Copy)]
struct BodyFront {
    words: [u64; 3],
    count: usize,
}

impl BodyFront {
    #[inline]
    fn from_words(words: &[u64]) -> BodyFront {
        let mut front = BodyFront { words: [0; 3], count: words.len() };
        front.words[..words.len()].copy_from_slice(words);
        front
    }
}

/// Returns up to seven bytes as the low bytes of a word.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
