//! Calls over TCP, for a client and a server that share no memory. A client uses it when it connects to
//! `tcp://host:port` or to another [scheme](Scheme).
//!
//! Clients and handlers see the same as over a pool: requests and answers in place, in buffers that are ordinary memory
//! here. On the client's side the queues are the same, too ([`crate::ends`]), but in memory of the client. A thread
//! carries entries and bytes between these queues and the server, so that the code that waits, resends, cancels and
//! streams is the same for the two transports. On the server's side, a thread for each connection reads calls, runs
//! them to their end and answers.
//!
//! | module | idea |
//! |---|---|
//! | [`hello`] | first messages of client and server: version, service, session, limits |
//! | [`memory`] | buffers and queues in ordinary memory |
//! | [`stream`] | reading and writing with a deadline |
//! | [`dial`] | connecting to a server |
//! | [`link`], [`outgoing`] | the client's thread and its queue of bytes to send |
//! | [`limits`] | limits on the memory that a server holds for all clients and for each |
//! | [`connections`] | choice of the connection that is closed when there are too many |
//! | [`session`], [`sessions`] | a server's record of its clients, by which a call runs once even if connections break |
//! | [`listen`] | the server's threads |
//!
//! # Frames
//!
//! A request consists of its three entries (24 bytes, little-endian, with clear flags and offset zero) and then its
//! bytes. An answer consists of its two entries (16 bytes) and then its bytes, if it has any. If the flag of the first
//! entry is set, the message is a notice instead of a call. The notice of kind 0 states that the client has received an
//! answer, whose bytes the server need not keep any longer. The notice of kind 1 states that the client ends.
//!
//! # Broken connections
//!
//! When a connection breaks, the client tries to reconnect for as long as
//! [`patience`](crate::client::Options::patience) allows. It sends the identifier of its session, and repeats the
//! requests that have no answer. The server knows by slot and generation which calls it has run, and it keeps answers
//! until it knows that they have arrived. A session whose client does not return ends after the client's patience. If a
//! client returns too late, or if the server was restarted, the server rejects the session and the client's calls fail
//! with [`Error::Lost`](crate::Error).
//!
//! # Authentication
//!
//! Connections beyond loopback are encrypted, and client and server each prove a key that the other side trusts
//! ([`unrack_keys`]). The memory that the server holds for one key is limited; without keys, the limit applies to one
//! address ([`PeerLimits`]).

mod connections;
mod dial;
#[cfg(test)]
mod greedy_peers;
pub mod hello;
pub mod limits;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod memory;
mod outgoing;
mod session;
#[cfg(test)]
mod session_tests;
mod sessions;
#[cfg(test)]
mod slow_peers;
mod stream;

use crate::queue::entry::{ANSWER, FLAG, Kind, REQUEST};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use unrack_keys::folder::usual_folder;
use unrack_keys::{EncryptionPolicy, Keys};

pub use limits::PeerLimits;

/// Maximum bytes of a message. The limit is needed because a server allocates this much for a peer that it does not know.
pub const MOST_BYTES: usize = 64 << 20;
/// Time without a sign of the peer's kernel after which a connection is given up, even if no bytes are in flight.
const SILENCE: Duration = Duration::from_secs(60);
/// Smallest size in bytes of an answer whose arrival the client announces to the server.
pub const LARGE: usize = 64 << 10;

/// Protection of the connections to an address, which the scheme of the address selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `tcp://`: encrypted beyond loopback, with the keys of the default folder
    /// ([`unrack_keys::folder::usual_folder`]).
    Tcp,
    /// `tls://`: always encrypted, with the same keys.
    Tls,
    /// `tcp+insecure://`: never encrypted.
    Insecure,
}

const SCHEMES: [(&str, Scheme); 3] =
    [("tcp://", Scheme::Tcp), ("tls://", Scheme::Tls), ("tcp+insecure://", Scheme::Insecure)];

impl Scheme {
    /// Splits an address into its scheme and the rest, which is host and port. Without a scheme, [`Scheme::Tcp`] is
    /// assumed.
    pub fn split(address: &str) -> (Scheme, &str) {
        let known = |&(name, scheme): &(&str, Scheme)| Some((scheme, address.strip_prefix(name)?));
        SCHEMES.iter().find_map(known).unwrap_or((Scheme::Tcp, address))
    }

    fn policy(self) -> EncryptionPolicy {
        match self {
            Scheme::Tcp => EncryptionPolicy::BeyondLoopback,
            Scheme::Tls => EncryptionPolicy::Always(usual_folder()),
            Scheme::Insecure => EncryptionPolicy::Never,
        }
    }

    /// Returns the keys for an address; `None` if connections to it are not encrypted.
    fn keys_for(self, address: SocketAddr) -> Result<Option<Arc<Keys>>, unrack_keys::Error> {
        self.policy().keys_for(address, "tcp+insecure:// (for commands, --insecure)")
    }
}

/// Returns the text of a place, including its scheme, if it is an address of TCP; otherwise `None`.
pub fn address(place: &Path) -> Option<&str> {
    let text = place.to_str()?;
    SCHEMES.iter().any(|(name, _)| text.starts_with(name)).then_some(text)
}

/// A message from a client that is not a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The answer of this slot and generation has arrived.
    Received { slot: u16, generation: u32 },
    /// The client ends.
    End,
}

/// Number of bytes of a request's entries.
pub const REQUEST_BYTES: usize = REQUEST * 8;
/// Number of bytes of an answer's entries.
pub const ANSWER_BYTES: usize = ANSWER * 8;

/// Encodes entries as little-endian bytes.
pub fn to_bytes<const N: usize, const BYTES: usize>(entries: [u64; N]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (bytes, entry) in bytes.chunks_exact_mut(8).zip(entries) {
        bytes.copy_from_slice(&entry.to_le_bytes());
    }
    bytes
}

/// Decodes entries from little-endian bytes.
pub fn from_bytes<const N: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [u64; N] {
    std::array::from_fn(|at| u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes")))
}

impl Notice {
    /// Encodes the notice as entries; the flag of the first entry is set.
    pub fn entries(self) -> [u64; REQUEST] {
        use crate::queue::entry::Request;
        let (kind, slot, generation) = match self {
            Notice::Received { slot, generation } => (Kind::Call, slot, generation),
            Notice::End => (Kind::OneWay, 0, 0),
        };
        let request =
            Request { kind, connection: 0, slot, generation, offset: 0, method: 0, length: 0, capacity: 0 };
        let mut entries = request.entries();
        entries[0] |= FLAG;
        entries
    }

    /// Decodes a notice. Returns `None` if the entries are a call, and an error if they are an unknown notice.
    pub fn from_entries(entries: [u64; REQUEST]) -> Option<Result<Notice, ()>> {
        use crate::queue::entry::Request;
        if entries[0] & FLAG == 0 {
            return None;
        }
        Some(match Request::from_entries(entries) {
            Some(Request { kind: Kind::Call, slot, generation, .. }) => {
                Ok(Notice::Received { slot, generation })
            }
            Some(Request { kind: Kind::OneWay, .. }) => Ok(Notice::End),
            _ => Err(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_say_how_they_are_protected() {
        for (text, scheme) in
            [("tcp://h:1", Scheme::Tcp), ("tls://h:1", Scheme::Tls), ("tcp+insecure://h:1", Scheme::Insecure)]
        {
            assert_eq!((address(Path::new(text)), Scheme::split(text)), (Some(text), (scheme, "h:1")));
        }
        assert_eq!(address(Path::new("/run/pool.sock")), None);
    }

    proptest! {
        #[test]
        fn notices_read_back(slot in 0u16..1024, generation in 0u32..1 << 31) {
            for notice in [Notice::Received { slot, generation }, Notice::End] {
                let bytes: [u8; REQUEST_BYTES] = to_bytes(notice.entries());
                prop_assert_eq!(Notice::from_entries(from_bytes(bytes)), Some(Ok(notice)));
            }
        }

        #[test]
        fn entries_are_calls_or_notices(entries: [u64; REQUEST]) {
            prop_assert_eq!(Notice::from_entries(entries).is_none(), entries[0] & FLAG == 0);
        }
    }
}
