//! What both sides say first. Version first, so that any two releases understand why they do not understand each other.

use unrack_pool::wire::MOST_NAME;

/// Changes with frames and with what is said here.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"urrpctcp";

/// A session's name, which nobody guesses. All zero: none yet.
pub type SessionId = [u8; 16];

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    /// Calls that it has under way, at most.
    pub lines: u16,
    /// How long it comes back for, after the connection broke.
    pub patience_ms: u32,
    pub session: SessionId,
    pub service: String,
}

/// Bytes of a hello before the service's name.
pub const HELLO_BYTES: usize = 34;

impl Hello {
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

    /// All but the service's name, and how long that is. `None`: not this protocol.
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

/// What a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub verdict: Verdict,
    pub session: SessionId,
    /// Bytes of a message, at most.
    pub most_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Verdict {
    Taken = 0,
    WrongVersion = 1,
    NoService = 2,
    /// The session is over, or never was.
    NoSession = 3,
    /// It has all the connections that it takes ([`Welcome::busy`] says how many), or the session's last call still runs.
    Busy = 4,
    /// The hello makes no sense.
    Malformed = 5,
    /// It talks to known keys only, and this connection is not encrypted.
    KeysNeeded = 6,
    /// There is no memory for another session of this client, or of any.
    NoMemory = 7,
}

pub const WELCOME_BYTES: usize = 32;

/// Connections of a server, when it has no room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub connections: u32,
    /// Those from the address, or the network, of whoever asks.
    pub of_peer: u32,
}

impl Welcome {
    /// Why there is no session.
    pub fn refusal(verdict: Verdict) -> Welcome {
        Welcome { version: VERSION, verdict, session: [0; 16], most_bytes: 0 }
    }

    /// There are too many connections: how many stands where sessions have their name.
    pub fn busy(backlog: Backlog) -> Welcome {
        let mut session = [0; 16];
        session[..4].copy_from_slice(&backlog.connections.to_le_bytes());
        session[4..8].copy_from_slice(&backlog.of_peer.to_le_bytes());
        Welcome { session, ..Welcome::refusal(Verdict::Busy) }
    }

    /// What [`Welcome::busy`] said; zeros if it was another reason.
    pub fn backlog(&self) -> Backlog {
        let word = |at: usize| u32::from_le_bytes(self.session[at..at + 4].try_into().expect("four bytes"));
        Backlog { connections: word(0), of_peer: word(4) }
    }

    pub fn to_bytes(self) -> [u8; WELCOME_BYTES] {
        let mut bytes = [0; WELCOME_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&(self.verdict as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.most_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.session);
        bytes
    }

    /// `None`: not this protocol.
    pub fn from_bytes(bytes: &[u8; WELCOME_BYTES]) -> Option<Welcome> {
        use Verdict::*;
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
            let mut bytes = Welcome { version, verdict: Verdict::Taken, session, most_bytes }.to_bytes();
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
