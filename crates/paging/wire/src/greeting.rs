//! Greetings: what a client asks for, and what a node answers.

use crate::layout::{
    HELLO, MAGIC, MOST_IDS, MOST_PAGES, Malformed, PAGE, VERSION, WELCOME, WELCOME_HEAD, field,
};

/// Way in which pages are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum PageTransport {
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
    pub fn new(transport: PageTransport, reserve: u64) -> Hello {
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
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not the greeting of an unrack client, of whatever version.
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
pub enum GreetingStatus {
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
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not the greeting of a memory node, its status is none that is known, or a node
    /// that welcomes us names limits out of bounds.
    pub fn decode(bytes: &[u8; WELCOME]) -> Result<Welcome, Malformed> {
        Welcome::version(&field(bytes, 0))?;
        let welcome = Welcome {
            version: u16::from_le_bytes(field(bytes, 8)),
            status: GreetingStatus::decode(u16::from_le_bytes(field(bytes, 10)))?,
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
        let refused = welcome.status != GreetingStatus::Welcome;
        (refused || sensible).then_some(welcome).ok_or(Malformed("limits out of bounds in its greeting"))
    }
}
