//! Bit layout of EDM's control blocks. The paper names the fields, and the widths of three of them (§3.1.4: destination 9 bits, message id
//! 8, size 16). The positions of the fields and everything else here are choices of this implementation.
//!
//! Bit 0 is sent first. Bits without a name are zero; a receiver refuses a block in which such a bit is set.
//!
//! | bits | /MS/ start | /MT/ end | /MST/ whole message | /N/, /G/ |
//! |---|---|---|---|---|
//! | 0..8 | type 0x2e | type 0x65 | type 0x84 | type 0xb7, 0xd1 |
//! | 8..10 | kind | body, its last 0 to 6 bytes | kind: RREQ or RRES | kind: WREQ or RRES |
//! | 10 | last chunk | " | last chunk | 0 |
//! | 11..20 | node | " | node | node |
//! | 20..28 | message id | " | message id | message id |
//! | 28..44 | size | " | of an RREQ 28..36: bytes less 1, 36..56: address / 64 | size |
//! | 44..48 | 0 | " | of an RRES 28..30: bytes, 0 to 3; 32..56: the bytes | 0 |
//! | 48..56 | body, byte 0 | " | " | 0 |
//! | 56..64 | body, byte 1 | check | check | check |
//!
//! - **node** names one end of the message. A switch reads it as the destination of the message, and a host reads it as the source. The
//!   switch replaces it in the blocks that it buffers (RREQ, RMWREQ, /G/). The switch does not change messages that cross a circuit (WREQ,
//!   RRES; §3.2.2); therefore the sender of such a message writes its own number. In this way nine bits suffice, because no block names
//!   both ends. In /N/ and /G/, node is the destination of the message that is announced or granted.
//! - **size** depends on the kind of message. In an RREQ it is the number of bytes to read, in a WREQ or RRES the number of bytes in this
//!   chunk, and in an RMWREQ the opcode. In /N/ it is the number of bytes of the whole message, and in /G/ the number of bytes that the
//!   grant allows.
//! - **body** is the address of a request (8 bytes), followed by operands or data. The first two bytes of the body are in /MS/, eight are
//!   in each /MD/, and up to six are in /MT/, so that a body of n words of 64 bits takes n + 1 blocks. /MD/ is a data block (§3.2).
//! - **check** is a CRC-8 over all payload bits of the message; the module `check` explains the choice of the polynomial.
//!
//! The Ethernet standard does not use these block types. Any two of them differ in four bits, and each differs from every type of the
//! standard in at least two bits. Therefore a wrong bit on the line never turns one type into another: the descrambler turns it into up to
//! three wrong bits, of which at most one is in these eight bits.

use super::check::Check;
use crate::block::Block;

pub const MS: u8 = 0x2e;
pub const MT: u8 = 0x65;
pub const MST: u8 = 0x84;
pub const N: u8 = 0xb7;
pub const G: u8 = 0xd1;
/// Block types of all control blocks of EDM.
pub const TYPES: [u8; 5] = [MS, MT, MST, N, G];

/// Maximum number of nodes, because the field `node` has nine bits.
pub const NODES: u16 = 512;
/// Number of bytes of the body in /MS/. The next constant is the maximum number of bytes of the body in /MT/.
pub const HEAD: usize = 2;
pub const TAIL: usize = 6;

/// Kind of a message (§2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RREQ.
    Read,
    /// WREQ.
    Write,
    /// RMWREQ.
    Modify,
    /// RRES.
    Response,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Modify, Kind::Response];

    /// Returns the name that the paper uses for this kind.
    pub fn name(self) -> &'static str {
        ["RREQ", "WREQ", "RMWREQ", "RRES"][self as usize]
    }
}

/// Fields of /MS/.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartFields {
    pub kind: Kind,
    pub last: bool,
    pub node: u16,
    pub id: u8,
    pub size: u16,
    pub head: [u8; HEAD],
}

/// Fields of /N/ or /G/.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlFields {
    /// Kind of the message that the /N/ or /G/ block is about. Otherwise a write and an answer of the same node with the same id could not
    /// be distinguished.
    pub kind: Kind,
    pub node: u16,
    pub id: u8,
    pub size: u16,
}

/// Content of /MST/.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// An RREQ for 1 to 256 bytes at an address that is a multiple of 64 and below 64 MiB.
    Read { node: u16, id: u8, bytes: u16, address: u32 },
    /// An RRES with up to three bytes of data.
    Response { node: u16, id: u8, last: bool, length: u8, data: [u8; 3] },
}

/// Limits of an RREQ that fits into a single /MST/ block: the maximum number of bytes to read. The next constants are the first address
/// that is too large, and the alignment of the address.
pub const SHORT_BYTES: u64 = 1 << 8;
pub const SHORT_ADDRESS: u64 = 1 << 26;
pub const SHORT_ALIGN: u64 = 64;
/// Maximum number of data bytes of an RRES that fits into a single /MST/ block.
pub const SHORT_DATA: usize = 3;

fn bits(payload: u64, at: u32, width: u32) -> u64 {
    payload >> at & ((1 << width) - 1)
}

fn common(kind: u8, node: u16, id: u8) -> u64 {
    debug_assert!(node < NODES);
    u64::from(kind) | u64::from(node) << 11 | u64::from(id) << 20
}

fn node_of(payload: u64) -> u16 {
    bits(payload, 11, 9) as u16
}

fn id_of(payload: u64) -> u8 {
    bits(payload, 20, 8) as u8
}

impl StartFields {
    /// Returns the /MS/ block.
    pub fn block(&self) -> Block {
        let fields = (self.kind as u64) << 8 | u64::from(self.last) << 10 | u64::from(self.size) << 28;
        let head = u64::from(u16::from_le_bytes(self.head)) << 48;
        Block::control(common(MS, self.node, self.id) | fields | head)
    }

    /// Parses the payload of /MS/. Returns `None` if unused bits are set.
    pub fn parse(payload: u64) -> Option<StartFields> {
        let start = StartFields {
            kind: Kind::ALL[bits(payload, 8, 2) as usize],
            last: bits(payload, 10, 1) == 1,
            node: node_of(payload),
            id: id_of(payload),
            size: bits(payload, 28, 16) as u16,
            head: (bits(payload, 48, 16) as u16).to_le_bytes(),
        };
        (bits(payload, 44, 4) == 0).then_some(start)
    }
}

impl ControlFields {
    /// Returns these fields as a block of type `kind`, which must be that of /N/ or /G/.
    pub fn block(&self, kind: u8) -> Block {
        let fields = (self.kind as u64) << 8 | u64::from(self.size) << 28;
        let fields = common(kind, self.node, self.id) | fields;
        Block::control(Check::START.close(fields))
    }

    /// Parses the payload of /N/ or /G/. Returns `None` if the check fails or unused bits are set.
    pub fn parse(payload: u64) -> Option<ControlFields> {
        let is_whole = Check::START.block(payload).holds();
        let unused = bits(payload, 10, 1) | bits(payload, 44, 12);
        let control = ControlFields {
            kind: Kind::ALL[bits(payload, 8, 2) as usize],
            node: node_of(payload),
            id: id_of(payload),
            size: bits(payload, 28, 16) as u16,
        };
        let is_data = matches!(control.kind, Kind::Write | Kind::Response);
        (is_whole && is_data && unused == 0).then_some(control)
    }
}

impl Short {
    /// Returns the /MST/ block.
    pub fn block(&self) -> Block {
        let payload = match *self {
            Short::Read { node, id, bytes, address } => {
                let fields = u64::from(bytes - 1) << 28 | (u64::from(address) / SHORT_ALIGN) << 36;
                common(MST, node, id) | (Kind::Read as u64) << 8 | 1 << 10 | fields
            }
            Short::Response { node, id, last, length, data: [a, b, c] } => {
                let data = u64::from(u32::from_le_bytes([a, b, c, 0])) << 32;
                let fields = (Kind::Response as u64) << 8 | u64::from(last) << 10 | u64::from(length) << 28;
                common(MST, node, id) | fields | data
            }
        };
        Block::control(Check::START.close(payload))
    }

    /// Parses the payload of /MST/. Returns `None` if the check fails, unused bits are set, or the kind has no short
    /// form.
    pub fn parse(payload: u64) -> Option<Short> {
        let (node, id, last) = (node_of(payload), id_of(payload), bits(payload, 10, 1) == 1);
        if !Check::START.block(payload).holds() {
            return None;
        }
        match Kind::ALL[bits(payload, 8, 2) as usize] {
            Kind::Read => {
                let address = (bits(payload, 36, 20) * SHORT_ALIGN) as u32;
                last.then_some(Short::Read { node, id, bytes: bits(payload, 28, 8) as u16 + 1, address })
            }
            Kind::Response => {
                let length = bits(payload, 28, 2) as u8;
                let [a, b, c, _] = (bits(payload, 32, 24) as u32).to_le_bytes();
                let beyond = bits(payload, 32, 24) >> (8 * length);
                let response = Short::Response { node, id, last, length, data: [a, b, c] };
                (bits(payload, 30, 2) == 0 && beyond == 0).then_some(response)
            }
            Kind::Write | Kind::Modify => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::types;

    #[test]
    fn no_wrong_bit_makes_one_type_of_another() {
        for (at, kind) in TYPES.iter().enumerate() {
            assert!(types::ALL.iter().all(|known| (known ^ kind).count_ones() >= 2), "{kind:x}");
            assert!(TYPES[..at].iter().all(|other| (other ^ kind).count_ones() >= 4), "{kind:x}");
        }
    }
}
