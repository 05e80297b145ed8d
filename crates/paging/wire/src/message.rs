//! Messages after the greeting. Each of them begins with a header.

use crate::layout::{HEADER, MOST_IDS, MOST_PAGES, Malformed};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Bit added to the verb in a reply.
const REPLY: u8 = 0x80;

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    Store = 1,
    Load = 2,
    Forget = 3,
    Grant = 4,
    Bye = 5,
    /// Asks the node to reply, which also shows the node that the client is alive.
    Ping = 6,
}

impl Verb {
    fn decode(byte: u8) -> Result<Verb, Malformed> {
        [Verb::Store, Verb::Load, Verb::Forget, Verb::Grant, Verb::Bye, Verb::Ping]
            .into_iter()
            .find(|verb| *verb as u8 == byte)
            .ok_or(Malformed("an unknown kind of message"))
    }
}

/// Reason why a node ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EndReason {
    Stopping = 1,
    Malformed = 2,
    NotHeld = 3,
    /// The client was silent for longer than the node waits.
    Silent = 4,
}

impl EndReason {
    /// Decodes a reason; returns `None` if it is unknown.
    pub fn decode(number: u32) -> Option<EndReason> {
        [EndReason::Stopping, EndReason::Malformed, EndReason::NotHeld, EndReason::Silent]
            .into_iter()
            .find(|reason| *reason as u32 == number)
    }
}

/// Header of every message after the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub verb: Verb,
    pub reply: bool,
    pub count: u16,
    /// First of `count` consecutive page ids.
    pub id: u32,
    /// Sequence number of the request in the session; the reply repeats it.
    pub number: u32,
    pub detail: u32,
}

/// Encoded form of a [`Header`].
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct HeaderBytes {
    /// Number of the verb, with [`REPLY`] added in a reply.
    verb: u8,
    zero: u8,
    count: U16,
    id: U32,
    number: U32,
    detail: U32,
}

impl Header {
    /// Makes the header of a request.
    pub fn request(verb: Verb, id: u32, count: u16, number: u32) -> Header {
        Header { verb, reply: false, count, id, number, detail: 0 }
    }

    /// Returns the header of the reply to this request.
    pub fn answer(self, detail: u32) -> Header {
        Header { reply: true, detail, ..self }
    }

    /// Makes the header of the message with which a node ends a session.
    pub fn bye(reason: EndReason) -> Header {
        Header { verb: Verb::Bye, reply: true, count: 0, id: 0, number: 0, detail: reason as u32 }
    }

    /// Encodes the header.
    pub fn encode(self) -> [u8; HEADER] {
        transmute!(HeaderBytes {
            verb: self.verb as u8 | if self.reply { REPLY } else { 0 },
            zero: 0,
            count: self.count.into(),
            id: self.id.into(),
            number: self.number.into(),
            detail: self.detail.into(),
        })
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`Malformed`] if the reserved byte is not zero, or the verb is unknown.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        let bytes: HeaderBytes = transmute!(*bytes);
        if bytes.zero != 0 {
            return Err(Malformed("a reserved byte that is not zero"));
        }
        Ok(Header {
            verb: Verb::decode(bytes.verb & !REPLY)?,
            reply: bytes.verb & REPLY != 0,
            count: bytes.count.into(),
            id: bytes.id.into(),
            number: bytes.number.into(),
            detail: bytes.detail.into(),
        })
    }

    /// Checks that a node may act on this header as a request.
    ///
    /// # Errors
    /// [`Malformed`] if this is a reply or a message that only a node sends. Also if it names no pages, too many pages, or pages beyond the
    /// largest id.
    pub fn check_request(&self) -> Result<(), Malformed> {
        let pages = self.count as u32;
        let most = if self.verb == Verb::Forget { u16::MAX as u32 } else { MOST_PAGES };
        match self.verb {
            _ if self.reply => Err(Malformed("a reply where a request belongs")),
            _ if self.detail != 0 => Err(Malformed("a request with a status")),
            Verb::Bye => Err(Malformed("a message that only a node may send")),
            Verb::Grant => Ok(()),
            Verb::Ping if pages == 0 && self.id == 0 => Ok(()),
            _ if pages == 0 || pages > most => Err(Malformed("a count of pages out of bounds")),
            _ if self.id > MOST_IDS - pages => Err(Malformed("a page id out of bounds")),
            _ => Ok(()),
        }
    }
}
