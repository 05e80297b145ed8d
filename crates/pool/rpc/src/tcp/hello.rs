//! First messages of both sides. The version comes first, so that any two releases can tell why they cannot talk
//! to each other.

use unrack_pool::wire::MOST_NAME;

/// Version of the protocol, raised with any change of frames and of these messages.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"urrpctcp";

/// Name of a session, which cannot be guessed. All zero: no session yet.
pub type SessionId = [u8; 16];

/// First message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    /// Most calls that it has under way.
    pub lines: u16,
    /// Time in ms for which it tries to come back after the connection broke.
    pub patience_ms: u32,
    pub session: SessionId,
    pub service: String,
}

/// Bytes of a hello before the service's name.
pub const HELLO_BYTES: usize = 34;

impl Hello {
    /// Encodes the hello.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.lines.to_le_bytes());
        bytes.extend(self.patience_ms.to_le_bytes());
        bytes.extend(self.session);
        bytes.extend((self.service.len() as u16).to_le_bytes());
        bytes.extend(self.service.as_bytes());
        bytes
    }

    /// Decodes all but the service's name, and returns the name's bytes. `None`: not this protocol.
    pub fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Option<(Hello, usize)> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let word = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        let hello = Hello {
            version: word(0),
            lines: word(2),
            patience_ms: u32::from_le_bytes(rest[4..8].try_into().expect("four bytes")),
            session: rest[8..24].try_into().expect("sixteen bytes"),
            service: String::new(),
        };
        let name = usize::from(word(24));
        (name <= MOST_NAME).then_some((hello, name))
    }
}

/// Answer of a server to a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub verdict: HelloVerdict,
    pub session: SessionId,
    /// Most bytes of a message.
    pub most_bytes: u32,
}

/// Result of a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum HelloVerdict {
    Taken = 0,
    WrongVersion = 1,
    NoService = 2,
    /// The session is over, or never existed.
    NoSession = 3,
    /// The server has as many connections as it may ([`Welcome::busy`] says how many), or the session's last call
    /// still runs.
    Busy = 4,
    /// The hello is invalid.
    Malformed = 5,
    /// The server accepts known keys only, and this connection is not encrypted.
    KeysNeeded = 6,
    /// There is no memory for another session of this client, or of any.
    NoMemory = 7,
}

/// Bytes of a welcome.
pub const WELCOME_BYTES: usize = 32;

/// Numbers of connections of a server that has no room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub connections: u32,
    /// Connections from the same peer: its address or network, or its key.
    pub of_peer: u32,
}

impl Welcome {
    /// Makes an answer that refuses a session.
    pub fn refusal(verdict: HelloVerdict) -> Welcome {
        Welcome { version: VERSION, verdict, session: [0; 16], most_bytes: 0 }
    }

    /// Makes an answer that refuses a connection since there are too many: their numbers are in the place of the
    /// session's name.
    pub fn busy(backlog: Backlog) -> Welcome {
        let mut session = [0; 16];
        session[..4].copy_from_slice(&backlog.connections.to_le_bytes());
        session[4..8].copy_from_slice(&backlog.of_peer.to_le_bytes());
        Welcome { session, ..Welcome::refusal(HelloVerdict::Busy) }
    }

    /// Returns the numbers from [`Welcome::busy`]; zeros if it was refused for another reason.
    pub fn backlog(&self) -> Backlog {
        let word = |at: usize| u32::from_le_bytes(self.session[at..at + 4].try_into().expect("four bytes"));
        Backlog { connections: word(0), of_peer: word(4) }
    }

    /// Encodes the welcome.
    pub fn to_bytes(self) -> [u8; WELCOME_BYTES] {
        let mut bytes = [0; WELCOME_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&(self.verdict as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.most_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.session);
        bytes
    }

    /// Decodes a welcome. `None`: not this protocol.
    pub fn from_bytes(bytes: &[u8; WELCOME_BYTES]) -> Option<Welcome> {
        use HelloVerdict::*;
        let rest = bytes.strip_prefix(&MAGIC)?;
        let verdict = u16::from_le_bytes([rest[2], rest[3]]);
        Some(Welcome {
            version: u16::from_le_bytes([rest[0], rest[1]]),
            verdict: [Taken, WrongVersion, NoService, NoSession, Busy, Malformed, KeysNeeded, NoMemory]
                .into_iter()
                .find(|&known| known as u16 == verdict)?,
            most_bytes: u32::from_le_bytes(rest[4..8].try_into().expect("four bytes")),
            session: rest[8..].try_into().expect("sixteen bytes"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
