//! Greetings: the request of a client for a session, and the answer of a node.

use crate::layout::{HELLO, MAGIC, MOST_IDS, MOST_PAGES, Malformed, PAGE, VERSION, WELCOME, WELCOME_HEAD};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Encoded form of a [`Hello`].
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct HelloBytes {
    magic: U64,
    version: U16,
    transport: U16,
    page_bytes: U32,
    reserve: U64,
    zero: [u8; 8],
}

/// Encoded form of the start of a [`Welcome`].
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct WelcomeHeadBytes {
    magic: U64,
    version: U16,
    status: U16,
}

/// Encoded form of a [`Welcome`].
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct WelcomeBytes {
    head: WelcomeHeadBytes,
    most_pages: U32,
    capacity: U64,
    free: U64,
    most_ids: U32,
    extent_pages: U32,
    share: U64,
    silence_ms: U32,
    identity: U64,
    zero: [u8; 4],
}

/// Way in which pages are transferred between a client and a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum PageTransport {
    /// Pages are sent in messages.
    Stream = 0,
    /// Pages are copied through memory that the node hands out.
    Shared = 1,
}

/// Greeting of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    pub transport: u16,
    pub page_bytes: u32,
    /// Number of pages that the node has to reserve for this session; 0: none.
    pub reserve: u64,
}

impl Hello {
    /// Makes a greeting of this version of the protocol.
    pub fn new(transport: PageTransport, reserve: u64) -> Hello {
        Hello { version: VERSION, transport: transport as u16, page_bytes: PAGE as u32, reserve }
    }

    /// Encodes the greeting.
    pub fn encode(self) -> [u8; HELLO] {
        transmute!(HelloBytes {
            magic: MAGIC.into(),
            version: self.version.into(),
            transport: self.transport.into(),
            page_bytes: self.page_bytes.into(),
            reserve: self.reserve.into(),
            zero: [0; 8],
        })
    }

    /// Decodes a client's greeting. All versions begin in the same way, so that a refusal can name the version.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not the greeting of an unrack client of any version.
    pub fn decode(bytes: &[u8; HELLO]) -> Result<Hello, Malformed> {
        let bytes: HelloBytes = transmute!(*bytes);
        if bytes.magic != MAGIC {
            return Err(Malformed("not the greeting of an unrack client"));
        }
        Ok(Hello {
            version: bytes.version.into(),
            transport: bytes.transport.into(),
            page_bytes: bytes.page_bytes.into(),
            reserve: bytes.reserve.into(),
        })
    }
}

/// Answer of a node to a client's request for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum GreetingStatus {
    Welcome = 0,
    /// The node supports only version [`Welcome::version`].
    OtherVersion = 1,
    OtherPageSize = 2,
    OtherTransport = 3,
    /// Fewer pages are free than the client wants to reserve, or none are free.
    Full = 4,
    /// The node, or this client, has as many sessions as allowed.
    TooManySessions = 5,
    /// The reservation, together with the pages that this client has, exceeds the share of one client.
    OverShare = 6,
    /// The node accepts known keys only, and this connection is not encrypted.
    KeysNeeded = 7,
}

impl GreetingStatus {
    fn decode(number: u16) -> Result<GreetingStatus, Malformed> {
        use GreetingStatus::*;
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
    pub status: GreetingStatus,
    pub most_pages: u32,
    /// Total number of pages of the node.
    pub capacity: u64,
    /// Number of pages that this client could get now.
    pub free: u64,
    pub most_ids: u32,
    /// Number of pages in each extent of shared memory.
    pub extent_pages: u32,
    /// Maximum number of pages that one client may store, over all its sessions.
    pub share: u64,
    /// Time in milliseconds after which the node ends a silent session.
    pub silence_ms: u32,
    /// Random number of the node, by which a client recognizes two addresses of one node; 0: none. Nodes of older releases send 0.
    pub identity: u64,
}

impl Welcome {
    /// Encodes the welcome.
    pub fn encode(self) -> [u8; WELCOME] {
        transmute!(WelcomeBytes {
            head: WelcomeHeadBytes {
                magic: MAGIC.into(),
                version: self.version.into(),
                status: (self.status as u16).into(),
            },
            most_pages: self.most_pages.into(),
            capacity: self.capacity.into(),
            free: self.free.into(),
            most_ids: self.most_ids.into(),
            extent_pages: self.extent_pages.into(),
            share: self.share.into(),
            silence_ms: self.silence_ms.into(),
            identity: self.identity.into(),
            zero: [0; 4],
        })
    }

    /// Returns the node's version of the protocol, which has the same position in all versions.
    ///
    /// # Errors
    /// If the bytes are not the greeting of a memory node.
    pub fn version(head: &[u8; WELCOME_HEAD]) -> Result<u16, Malformed> {
        version(&transmute!(*head))
    }

    /// Decodes a node's welcome and checks its limits.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not the greeting of a memory node, if its status is unknown, or if a node that accepts the session
    /// states limits out of bounds.
    pub fn decode(bytes: &[u8; WELCOME]) -> Result<Welcome, Malformed> {
        let bytes: WelcomeBytes = transmute!(*bytes);
        let welcome = Welcome {
            version: version(&bytes.head)?,
            status: GreetingStatus::decode(bytes.head.status.into())?,
            most_pages: bytes.most_pages.into(),
            capacity: bytes.capacity.into(),
            free: bytes.free.into(),
            most_ids: bytes.most_ids.into(),
            extent_pages: bytes.extent_pages.into(),
            share: bytes.share.into(),
            silence_ms: bytes.silence_ms.into(),
            identity: bytes.identity.into(),
        };
        let sensible = (1..=MOST_PAGES).contains(&welcome.most_pages)
            && (1..=MOST_IDS).contains(&welcome.most_ids)
            && welcome.extent_pages <= MOST_IDS;
        let refused = welcome.status != GreetingStatus::Welcome;
        (refused || sensible).then_some(welcome).ok_or(Malformed("limits out of bounds in its greeting"))
    }
}

fn version(head: &WelcomeHeadBytes) -> Result<u16, Malformed> {
    match head.magic == MAGIC {
        true => Ok(head.version.into()),
        false => Err(Malformed("not the greeting of an unrack memory node")),
    }
}
