//! First messages of client and server. The version comes first in each, so that two sides of different releases can
//! report why they do not work together.

use unrack_pool::wire::MOST_NAME;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Version of the protocol, which is raised with any change of the frames or of these messages.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"urrpctcp";

/// Identifier of a session, which cannot be guessed. All bytes are zero if the client has no session yet.
pub type SessionId = [u8; 16];

/// First message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    /// Maximum number of calls that the client has in flight.
    pub lines: u16,
    /// Time in ms for which the client tries to reconnect after the connection broke.
    pub patience_ms: u32,
    pub session: SessionId,
    pub service: String,
}

/// Number of bytes of a hello before the service's name.
pub const HELLO_BYTES: usize = size_of::<HelloLayout>();
const _: () = assert!(HELLO_BYTES == 34);

#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct HelloLayout {
    magic: [u8; 8],
    version: U16,
    lines: U16,
    patience_ms: U32,
    session: SessionId,
    /// Length of the service's name, which follows this structure.
    name: U16,
}

impl Hello {
    /// Encodes the hello.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = HelloLayout {
            magic: MAGIC,
            version: self.version.into(),
            lines: self.lines.into(),
            patience_ms: self.patience_ms.into(),
            session: self.session,
            name: (self.service.len() as u16).into(),
        };
        [head.as_bytes(), self.service.as_bytes()].concat()
    }

    /// Decodes all fields except the service's name, and returns the length of the name as well. Returns `None` if the
    /// bytes are not of this protocol.
    pub fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Option<(Hello, usize)> {
        let bytes: HelloLayout = transmute!(*bytes);
        let hello = Hello {
            version: bytes.version.into(),
            lines: bytes.lines.into(),
            patience_ms: bytes.patience_ms.into(),
            session: bytes.session,
            service: String::new(),
        };
        let name = usize::from(bytes.name);
        (bytes.magic == MAGIC && name <= MOST_NAME).then_some((hello, name))
    }
}

/// Answer of a server to a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub verdict: HelloVerdict,
    pub session: SessionId,
    /// Maximum bytes of a message.
    pub most_bytes: u32,
}

/// The server's decision on a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum HelloVerdict {
    Taken = 0,
    WrongVersion = 1,
    NoService = 2,
    /// The session has ended, or never existed.
    NoSession = 3,
    /// The server has as many connections as it may have ([`Welcome::busy`] states the numbers), or the session's last
    /// call is still running.
    Busy = 4,
    /// The hello is invalid.
    Malformed = 5,
    /// The server accepts only clients with a trusted key, and this connection is not encrypted.
    KeysNeeded = 6,
    /// The server has no memory for another session, either of this client or of any client.
    NoMemory = 7,
}

/// Number of bytes of a welcome.
pub const WELCOME_BYTES: usize = size_of::<WelcomeLayout>();
const _: () = assert!(WELCOME_BYTES == 32);

#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct WelcomeLayout {
    magic: [u8; 8],
    version: U16,
    verdict: U16,
    most_bytes: U32,
    session: SessionId,
}

/// Contents of the session field in a welcome that refuses a connection because there are too many.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct BacklogLayout {
    connections: U32,
    of_peer: U32,
    zero: [u8; 8],
}

/// Numbers of connections of a server that has no room for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub connections: u32,
    /// Number of connections from the same peer, which is identified by its address or network, or by its key.
    pub of_peer: u32,
}

impl Welcome {
    /// Makes a welcome that refuses a session.
    pub fn refusal(verdict: HelloVerdict) -> Welcome {
        Welcome { version: VERSION, verdict, session: [0; 16], most_bytes: 0 }
    }

    /// Makes a welcome that refuses a connection because there are too many. The field of the session identifier
    /// contains the numbers of connections.
    pub fn busy(backlog: Backlog) -> Welcome {
        let Backlog { connections, of_peer } = backlog;
        let numbers =
            BacklogLayout { connections: connections.into(), of_peer: of_peer.into(), zero: [0; 8] };
        Welcome { session: transmute!(numbers), ..Welcome::refusal(HelloVerdict::Busy) }
    }

    /// Returns the numbers from [`Welcome::busy`], or zeros if the hello was refused for another reason.
    pub fn backlog(&self) -> Backlog {
        let numbers: BacklogLayout = transmute!(self.session);
        Backlog { connections: numbers.connections.into(), of_peer: numbers.of_peer.into() }
    }

    /// Encodes the welcome.
    pub fn to_bytes(self) -> [u8; WELCOME_BYTES] {
        transmute!(WelcomeLayout {
            magic: MAGIC,
            version: self.version.into(),
            verdict: (self.verdict as u16).into(),
            most_bytes: self.most_bytes.into(),
            session: self.session,
        })
    }

    /// Decodes a welcome. Returns `None` if the bytes are not of this protocol.
    pub fn from_bytes(bytes: &[u8; WELCOME_BYTES]) -> Option<Welcome> {
        use HelloVerdict::*;
        let bytes: WelcomeLayout = transmute!(*bytes);
        if bytes.magic != MAGIC {
            return None;
        }
        Some(Welcome {
            version: bytes.version.into(),
            verdict: [Taken, WrongVersion, NoService, NoSession, Busy, Malformed, KeysNeeded, NoMemory]
                .into_iter()
                .find(|&known| bytes.verdict == known as u16)?,
            most_bytes: bytes.most_bytes.into(),
            session: bytes.session,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the layout of hello and welcome, because peers of other releases read them.
    #[test]
    fn each_field_has_its_place() {
        let session = *b"0123456789abcdef";
        let hello =
            Hello { version: 2, lines: 0x0304, patience_ms: 0x0506_0708, session, service: "kv".into() };
        assert_eq!(hello.to_bytes(), *b"urrpctcp\x02\0\x04\x03\x08\x07\x06\x050123456789abcdef\x02\0kv");
        let welcome = Welcome { version: 2, verdict: HelloVerdict::Busy, session, most_bytes: 0x0102_0304 };
        assert_eq!(welcome.to_bytes(), *b"urrpctcp\x02\0\x04\0\x04\x03\x02\x010123456789abcdef");
        let busy = Welcome::busy(Backlog { connections: 0x0102, of_peer: 0x0304_0506 });
        assert_eq!(busy.to_bytes()[16..], *b"\x02\x01\0\0\x06\x05\x04\x03\0\0\0\0\0\0\0\0");
        assert_eq!(busy.backlog(), Backlog { connections: 0x0102, of_peer: 0x0304_0506 });
    }

    proptest! {
        #[test]
        fn what_is_said_reads_back(
            version: u16, lines: u16, patience_ms: u32, session: SessionId, service in "[a-z.]{0,40}",
            most_bytes: u32, verdict in 0u16..8,
        ) {
            let hello = Hello { version, lines, patience_ms, session, service };
            let bytes = hello.to_bytes();
            let (read, name) = Hello::from_bytes(bytes[..HELLO_BYTES].try_into().unwrap()).unwrap();
            prop_assert_eq!(name, bytes.len() - HELLO_BYTES);
            let service = String::from_utf8(bytes[HELLO_BYTES..].to_vec()).unwrap();
            prop_assert_eq!(Hello { service, ..read }, hello);
            let mut bytes = Welcome { version, verdict: HelloVerdict::Taken, session, most_bytes }.to_bytes();
            bytes[10] = verdict as u8;
            let welcome = Welcome::from_bytes(&bytes).unwrap();
            prop_assert_eq!(welcome.to_bytes(), bytes);
        }

        #[test]
        fn nonsense_is_neither(hello: [u8; HELLO_BYTES], welcome: [u8; WELCOME_BYTES]) {
            prop_assert!(Hello::from_bytes(&hello).is_none_or(|(_, name)| name <= MOST_NAME));
            prop_assert!(Welcome::from_bytes(&welcome).is_none_or(|read| read.to_bytes() == welcome));
        }
    }
}
