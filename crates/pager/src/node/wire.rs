//! Protocol between a memory node and its clients, byte for byte (decision 2). Little-endian.
//!
//! ```text
//! hello    magic 8 | version 2 | transport 2 | page bytes 4 | reserved pages 8 | zero 8
//! welcome  magic 8 | version 2 | status 2 | most pages a message 4 | capacity 8 | free 8 | most ids 4
//!          | extent pages 4 | share 8 | silence 4 | zero 12
//! header   verb 1 | zero 1 | count 2 | id 4 | number 4 | detail 4
//! ```
//! | request | body | reply |
//! |---|---|---|
//! | store | `count` pages | the same header, `detail`: how many, from the first on, the node now holds |
//! | load | | the same header, then `count` pages |
//! | forget | | none |
//! | grant (shared memory) | | the same header with a descriptor beside it; or `detail` 1: full |
//! | ping | | the same header |
//!
//! Replies come in the order of their requests and repeat the header with [`REPLY`] added to the verb. Instead of
//! any reply the node may send *bye*, with the reason in `detail`, and end the session.

pub use unrack_basis::PAGE;

/// Magic number at the start of both greetings.
pub const MAGIC: u64 = u64::from_le_bytes(*b"unrackmn");
/// Version of the protocol.
pub const VERSION: u16 = 2;
/// Bytes of a client's greeting.
pub const HELLO: usize = 32;
/// Bytes of a node's greeting.
pub const WELCOME: usize = 64;
/// Bytes at the start of a welcome that have the same layout in all versions.
pub const WELCOME_HEAD: usize = 12;
/// Bytes of a message's header.
pub const HEADER: usize = 16;
/// Most pages that one store or load may carry.
pub const MOST_PAGES: u32 = 64;
/// Number of ids, counted from 0: 256 GiB of pages per session.
pub const MOST_IDS: u32 = 1 << 26;
/// Bit added to the verb in a reply.
const REPLY: u8 = 0x80;

/// Error for bytes that violate the protocol, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    Store = 1,
    Load = 2,
    Forget = 3,
    Grant = 4,
    Bye = 5,
    /// Asks the node to reply, which also shows that the client is there.
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
pub enum Reason {
    Stopping = 1,
    Malformed = 2,
    NotHeld = 3,
    /// The client was silent for longer than the node waits.
    Silent = 4,
}

impl Reason {
    /// Decodes a reason; `None` if it is unknown.
    pub fn decode(number: u32) -> Option<Reason> {
        [Reason::Stopping, Reason::Malformed, Reason::NotHeld, Reason::Silent]
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
    /// Sequence number of the request in the session; a reply repeats it.
    pub number: u32,
    pub detail: u32,
}

impl Header {
    /// Makes the header of a request.
    pub fn request(verb: Verb, id: u32, count: u16, number: u32) -> Header {
        Header { verb, reply: false, count, id, number, detail: 0 }
    }

    /// Returns the header of this request's reply.
    pub fn answer(self, detail: u32) -> Header {
        Header { reply: true, detail, ..self }
    }

    /// Makes the header of a farewell.
    pub fn bye(reason: Reason) -> Header {
        Header { verb: Verb::Bye, reply: true, count: 0, id: 0, number: 0, detail: reason as u32 }
    }

    /// Encodes the header.
    pub fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.verb as u8 | if self.reply { REPLY } else { 0 };
        bytes[2..4].copy_from_slice(&self.count.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.detail.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        if bytes[1] != 0 {
            return Err(Malformed("a reserved byte that is not zero"));
        }
        Ok(Header {
            verb: Verb::decode(bytes[0] & !REPLY)?,
            reply: bytes[0] & REPLY != 0,
            count: u16::from_le_bytes(field(bytes, 2)),
            id: u32::from_le_bytes(field(bytes, 4)),
            number: u32::from_le_bytes(field(bytes, 8)),
            detail: u32::from_le_bytes(field(bytes, 12)),
        })
    }

    /// Checks that a node may act on this header as a request.
    pub fn check_request(&self) -> Result<(), Malformed> {
        let pages = self.count as u32;
        let most = if self.verb == Verb::Forget { u16::MAX as u32 } else { MOST_PAGES };
        match self.verb {
            _ if self.reply || self.detail != 0 => Err(Malformed("a reply where a request belongs")),
            Verb::Bye => Err(Malformed("a message that only a node may send")),
            Verb::Grant => Ok(()),
            Verb::Ping if pages == 0 && self.id == 0 => Ok(()),
            _ if pages == 0 || pages > most => Err(Malformed("a count of pages out of bounds")),
            _ if self.id > MOST_IDS - pages => Err(Malformed("a page id out of bounds")),
            _ => Ok(()),
        }
    }
}

/// Way in which pages are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Transport {
    /// Pages travel in messages.
    Stream = 0,
    /// Pages travel through memory that the node hands out.
    Shared = 1,
}

/// Greeting of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    pub transport: u16,
    pub page_bytes: u32,
    /// Pages that the node has to reserve for this session; 0: none.
    pub reserve: u64,
}

impl Hello {
    /// Makes a greeting of this version.
    pub fn new(transport: Transport, reserve: u64) -> Hello {
        Hello { version: VERSION, transport: transport as u16, page_bytes: PAGE as u32, reserve }
    }

    /// Encodes the greeting.
    pub fn encode(self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.transport.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.reserve.to_le_bytes());
        bytes
    }

    /// Decodes a greeting. All versions begin alike, so that a refusal can name the version.
    pub fn decode(bytes: &[u8; HELLO]) -> Result<Hello, Malformed> {
        if u64::from_le_bytes(field(bytes, 0)) != MAGIC {
            return Err(Malformed("not the greeting of an unrack client"));
        }
        Ok(Hello {
            version: u16::from_le_bytes(field(bytes, 8)),
            transport: u16::from_le_bytes(field(bytes, 10)),
            page_bytes: u32::from_le_bytes(field(bytes, 12)),
            reserve: u64::from_le_bytes(field(bytes, 16)),
        })
    }
}

/// Answer of a node to the request for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    Welcome = 0,
    /// The node supports only version [`Welcome::version`].
    OtherVersion = 1,
    OtherPageSize = 2,
    OtherTransport = 3,
    /// Fewer pages are free than the reservation, or none.
    Full = 4,
    /// The node, or this client, has as many sessions as allowed.
    TooManySessions = 5,
    /// The reservation, together with what this client has, exceeds the share of one client.
    OverShare = 6,
    /// The node accepts known keys only, and this connection is not encrypted.
    KeysNeeded = 7,
}

impl Status {
    fn decode(number: u16) -> Result<Status, Malformed> {
        use Status::*;
        [Welcome, OtherVersion, OtherPageSize, OtherTransport, Full, TooManySessions, OverShare, KeysNeeded]
            .into_iter()
            .find(|status| *status as u16 == number)
            .ok_or(Malformed("an unknown status in its greeting"))
    }
}

/// Answer of a node to [`Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub status: Status,
    pub most_pages: u32,
    /// Number of pages of the node.
    pub capacity: u64,
    /// Number of pages that this client could have now.
    pub free: u64,
    pub most_ids: u32,
    /// Number of pages of each extent of shared memory.
    pub extent_pages: u32,
    /// Most pages that one client may hold, with all its sessions together.
    pub share: u64,
    /// Milliseconds after which the node ends a silent session.
    pub silence_ms: u32,
}

impl Welcome {
    /// Encodes the welcome.
    pub fn encode(self) -> [u8; WELCOME] {
        let mut bytes = [0; WELCOME];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&(self.status as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.most_pages.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.free.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.most_ids.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.extent_pages.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.share.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.silence_ms.to_le_bytes());
        bytes
    }

    /// Returns the version of the node, whose place is the same in all versions.
    ///
    /// # Errors
    /// If it is no memory node.
    pub fn version(head: &[u8; WELCOME_HEAD]) -> Result<u16, Malformed> {
        match u64::from_le_bytes(field(head, 0)) {
            MAGIC => Ok(u16::from_le_bytes(field(head, 8))),
            _ => Err(Malformed("not the greeting of an unrack memory node")),
        }
    }

    /// Decodes a welcome and checks its limits.
    pub fn decode(bytes: &[u8; WELCOME]) -> Result<Welcome, Malformed> {
        Welcome::version(&field(bytes, 0))?;
        let welcome = Welcome {
            version: u16::from_le_bytes(field(bytes, 8)),
            status: Status::decode(u16::from_le_bytes(field(bytes, 10)))?,
            most_pages: u32::from_le_bytes(field(bytes, 12)),
            capacity: u64::from_le_bytes(field(bytes, 16)),
            free: u64::from_le_bytes(field(bytes, 24)),
            most_ids: u32::from_le_bytes(field(bytes, 32)),
            extent_pages: u32::from_le_bytes(field(bytes, 36)),
            share: u64::from_le_bytes(field(bytes, 40)),
            silence_ms: u32::from_le_bytes(field(bytes, 48)),
        };
        let sensible = (1..=MOST_PAGES).contains(&welcome.most_pages)
            && (1..=MOST_IDS).contains(&welcome.most_ids)
            && welcome.extent_pages <= MOST_IDS;
        let refused = welcome.status != Status::Welcome;
        (refused || sensible).then_some(welcome).ok_or(Malformed("limits out of bounds in its greeting"))
    }
}

/// Returns `N` bytes at a constant place of a longer array.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[at + n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in any::<[u8; WELCOME]>(), magic: bool) {
            let mut bytes = bytes;
            if magic {
                bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
            }
            if let Ok(header) = Header::decode(&field(&bytes, 8)) {
                prop_assert_eq!(&header.encode()[..], &bytes[8..8 + HEADER]);
                if header.check_request().is_ok() && !matches!(header.verb, Verb::Grant | Verb::Ping) {
                    prop_assert!(header.id as u64 + header.count as u64 <= MOST_IDS as u64);
                }
            }
            if let Ok(hello) = Hello::decode(&field(&bytes, 0)) {
                prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            }
            if let Ok(welcome) = Welcome::decode(&bytes) {
                prop_assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
            }
        }
    }

    #[test]
    fn replies_and_requests_are_told_apart() {
        let request = Header::request(Verb::Store, 7, 3, 9);
        assert_eq!(request.check_request(), Ok(()));
        assert!(request.answer(3).check_request().is_err());
        assert_eq!(Header::decode(&request.answer(3).encode()), Ok(request.answer(3)));
        assert!(Header { count: 0, ..request }.check_request().is_err());
        assert!(Header { count: MOST_PAGES as u16 + 1, ..request }.check_request().is_err());
        assert!(Header { id: MOST_IDS - 2, ..request }.check_request().is_err());
    }
}
