//! Entries of a queue: words of 64 bits, whose topmost bit shows the lap to which they belong.
//!
//! In HydraRPC §5.1, an entry consists of an offset into the data area and an arrival flag. Here a message consists of
//! up to three entries in one cache line. The first is as in the paper; the others carry the method, the generation and
//! the length, at no extra cost because the line moves as a whole. Each entry has its own flag, so that only 64 bits
//! need to arrive at once, even if the memory delivers a line in pieces.
//!
//! ```text
//!            63    62..60  59..48      47..38  37..0
//! request 0  flag  kind    connection  slot    offset in lines
//! request 1  flag  generation (62..32)         method (31..0)
//! request 2  flag  length (62..32)             capacity (31..0)
//!
//!            63    62..60  59..48      47..38  37..0
//! answer 0   flag  0       status      slot    offset in lines
//! answer 1   flag  generation (62..32)         length, or the detail of an error (31..0)
//! ```

use unrack_pool::cache_control::LINE;

/// Arrival flag of an entry.
pub const FLAG: u64 = 1 << 63;

/// Maximum number of calls that a pair of queues can have in flight, because the slot number has ten bits.
pub const MOST_SLOTS: usize = 1 << SLOT_BITS;
/// Maximum number of connections that can share a pair of queues, because the connection number has twelve bits.
pub const MOST_CONNECTIONS: u16 = 1 << CONNECTION_BITS;
/// Maximum bytes of a message, because lengths have 31 bits and buffers consist of whole lines.
pub const MOST_BYTES: usize = (1 << 31) - LINE;

const OFFSET_BITS: u32 = 38;
const SLOT_BITS: u32 = 10;
const CONNECTION_BITS: u32 = 12;
const STATUS_BITS: u32 = 12;
const SLOT_AT: u32 = OFFSET_BITS;
const CONNECTION_AT: u32 = SLOT_AT + SLOT_BITS;
const STATUS_AT: u32 = CONNECTION_AT;
const KIND_AT: u32 = CONNECTION_AT + CONNECTION_BITS;

/// Number of generations. A generation counts the calls of a slot, in 31 bits.
pub const GENERATIONS: u32 = 1 << 31;

/// Kind of a request. The server answers each request entry exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The server runs the method and answers with its result.
    Call = 0,
    /// The server runs the method; the client discards the result.
    OneWay = 1,
    /// The server runs the method and answers with the first part of its result. `Next` requests further parts.
    Open = 2,
    /// Requests the next part of a stream. The field `method` holds the slot on which the stream was opened.
    Next = 3,
    /// Ends a stream before its last part, because the client wants no more parts.
    Close = 4,
}

impl Kind {
    #[inline(always)]
    fn from_bits(bits: u64) -> Option<Kind> {
        [Kind::Call, Kind::OneWay, Kind::Open, Kind::Next, Kind::Close]
            .into_iter()
            .find(|&kind| kind as u64 == bits)
    }
}

/// A request, decoded from its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub kind: Kind,
    /// Number of the connection among those that share the queues.
    pub connection: u16,
    pub slot: u16,
    pub generation: u32,
    /// Offset of the buffer in the pool, in bytes.
    pub offset: u64,
    /// Number of the method; see [`crate::method`].
    pub method: u32,
    /// Length of the request's message, in bytes.
    pub length: u32,
    /// Maximum bytes that the answer may have.
    pub capacity: u32,
}

/// Number of entries of a request.
pub const REQUEST: usize = 3;
/// Number of entries of an answer.
pub const ANSWER: usize = 2;

impl Request {
    /// Encodes the request, with clear flags.
    #[inline(always)]
    pub fn entries(&self) -> [u64; REQUEST] {
        debug_assert!(self.offset.is_multiple_of(LINE as u64));
        [
            ((self.kind as u64) << KIND_AT)
                | (u64::from(self.connection) << CONNECTION_AT)
                | (u64::from(self.slot) << SLOT_AT)
                | (self.offset / LINE as u64),
            (u64::from(self.generation) << 32) | u64::from(self.method),
            (u64::from(self.length) << 32) | u64::from(self.capacity),
        ]
    }

    /// Decodes a request; `None` if its kind is unknown. All other fields are taken as they are, even if their values
    /// make no sense.
    #[inline(always)]
    pub fn from_entries(entries: [u64; REQUEST]) -> Option<Request> {
        let [first, second, third] = entries.map(|entry| entry & !FLAG);
        Some(Request {
            kind: Kind::from_bits(first >> KIND_AT)?,
            connection: field(first, CONNECTION_AT, CONNECTION_BITS) as u16,
            slot: field(first, SLOT_AT, SLOT_BITS) as u16,
            generation: (second >> 32) as u32,
            offset: field(first, 0, OFFSET_BITS) * LINE as u64,
            method: second as u32,
            length: (third >> 32) as u32,
            capacity: third as u32,
        })
    }

    /// Returns the slot and the generation of entries that [`Request::from_entries`] rejects.
    #[inline(always)]
    pub fn slot_of(entries: [u64; REQUEST]) -> (u16, u32) {
        (field(entries[0], SLOT_AT, SLOT_BITS) as u16, ((entries[1] & !FLAG) >> 32) as u32)
    }
}

/// An answer, decoded from its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub status: EntryStatus,
    pub slot: u16,
    pub generation: u32,
    pub offset: u64,
    /// Length of the answer in bytes; with an error status, a detail of the error.
    pub length: u32,
}

impl Answer {
    /// Encodes the answer, with clear flags.
    #[inline(always)]
    pub fn entries(&self) -> [u64; ANSWER] {
        [
            (u64::from(self.status.0) << STATUS_AT)
                | (u64::from(self.slot) << SLOT_AT)
                | (self.offset / LINE as u64),
            (u64::from(self.generation) << 32) | u64::from(self.length),
        ]
    }

    /// Decodes an answer. This cannot fail, because any two entries form an answer.
    #[inline(always)]
    pub fn from_entries(entries: [u64; ANSWER]) -> Answer {
        let [first, second] = entries.map(|entry| entry & !FLAG);
        Answer {
            status: EntryStatus(field(first, STATUS_AT, STATUS_BITS) as u16),
            slot: field(first, SLOT_AT, SLOT_BITS) as u16,
            generation: (second >> 32) as u32,
            offset: field(first, 0, OFFSET_BITS) * LINE as u64,
            length: second as u32,
        }
    }
}

/// Outcome of a call, in twelve bits. Values below 256 belong to this crate, the others to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryStatus(pub u16);

impl EntryStatus {
    /// The call succeeded.
    pub const DONE: EntryStatus = EntryStatus(0);
    /// More parts follow. Only streams use this status.
    pub const MORE: EntryStatus = EntryStatus(1);
    /// The request repeats a call that is still running. The answer of the call itself follows.
    pub const RUNNING: EntryStatus = EntryStatus(2);
    /// The server has no such method.
    pub const UNKNOWN_METHOD: EntryStatus = EntryStatus(3);
    /// The buffer is not in memory that this client granted to the server, or is shorter than the request states.
    pub const BAD_BUFFER: EntryStatus = EntryStatus(4);
    /// The answer does not fit into the buffer; `length` is the number of bytes that it needs.
    pub const TOO_LONG: EntryStatus = EntryStatus(5);
    /// The handler panicked.
    pub const FAILED: EntryStatus = EntryStatus(6);
    /// The request is not valid for this server.
    pub const MALFORMED: EntryStatus = EntryStatus(7);
    /// The request repeats a call that the server has answered and forgotten.
    pub const STALE: EntryStatus = EntryStatus(8);
    /// The stream named by the request does not exist.
    pub const NO_STREAM: EntryStatus = EntryStatus(9);
    /// The server is shutting down.
    pub const CLOSING: EntryStatus = EntryStatus(10);
    /// The server, over TCP, already holds as much memory as it may for this client or for all clients; `length` is the
    /// amount held for this client, in MiB.
    pub const BUSY: EntryStatus = EntryStatus(11);

    /// First status value that belongs to the service.
    pub const SERVICE: u16 = 256;
    /// Last status value that belongs to the service.
    pub const LAST: u16 = (1 << STATUS_BITS) - 1;
}

#[inline(always)]
fn field(word: u64, at: u32, bits: u32) -> u64 {
    (word >> at) & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Peers of other releases read these words, so a change of the layout needs another
    /// [`VERSION`](crate::greeting::VERSION).
    #[test]
    fn the_layout_of_version_1_stays() {
        assert_eq!(crate::greeting::VERSION, 1);
        let request = Request {
            kind: Kind::Next,
            connection: 0xabc,
            slot: 0x2d5,
            generation: 0x7654_3210,
            offset: 0x23_4567_89ab << 6,
            method: 0xfedc_ba98,
            length: 0x7fff_ffc0,
            capacity: 0x0102_0304,
        };
        let status = EntryStatus(0x123);
        let answer = Answer { status, slot: 0x2d5, generation: 7, offset: 64, length: 9 };
        assert_eq!(request.entries(), [0x3abc_b563_4567_89ab, 0x7654_3210_fedc_ba98, 0x7fff_ffc0_0102_0304]);
        assert_eq!(answer.entries(), [0x0123_b540_0000_0001, 0x0000_0007_0000_0009]);
        assert_eq!([FLAG, crate::queue::bytes(4) as u64], [1 << 63, 256]);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            kind in 0u64..5, connection in 0u16..1 << CONNECTION_BITS, slot in 0u16..MOST_SLOTS as u16,
            generation in 0..GENERATIONS, line in 0u64..1 << OFFSET_BITS, method: u32, length in 0u32..1 << 31,
            capacity: u32, status in 0u16..=EntryStatus::LAST,
        ) {
            let kind = Kind::from_bits(kind).unwrap();
            let offset = line * LINE as u64;
            let request = Request { kind, connection, slot, generation, offset, method, length, capacity };
            prop_assert!(request.entries().iter().all(|entry| entry & FLAG == 0));
            prop_assert_eq!(Request::from_entries(request.entries()), Some(request));
            prop_assert_eq!(Request::slot_of(request.entries()), (slot, generation));
            let answer = Answer { status: EntryStatus(status), slot, generation, offset, length: capacity };
            prop_assert!(answer.entries().iter().all(|entry| entry & FLAG == 0));
            prop_assert_eq!(Answer::from_entries(answer.entries()), answer);
        }

        #[test]
        fn nonsense_is_read_without_harm(entries: [u64; REQUEST]) {
            if let Some(request) = Request::from_entries(entries) {
                prop_assert_eq!(request.entries(), entries.map(|entry| entry & !FLAG));
            }
            let answer = Answer::from_entries([entries[0], entries[1]]);
            prop_assert!((answer.slot as usize) < MOST_SLOTS && answer.status.0 <= EntryStatus::LAST);
        }
    }
}
