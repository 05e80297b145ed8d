//! Calls over TCP, where no memory is shared: used when a client connects to `tcp://host:port`, or another
//! [scheme](Scheme).
//!
//! Clients and handlers see the same as over a pool: requests and answers in place, in buffers that are ordinary
//! memory here. On the client's side the queues are the same too ([`crate::ends`]), in memory of its own, and a
//! thread carries entries and bytes to the server and back: the code that waits, resends, cancels and streams
//! does not know the difference. On the server's side, a thread for each connection reads calls, runs them to
//! their end and answers.
//!
//! | module | idea |
//! |---|---|
//! | [`hello`] | first messages of both sides: version, service, session, limits |
//! | [`memory`] | buffers, and queues, in ordinary memory |
//! | [`stream`] | reading and writing with a deadline |
//! | [`dial`] | connecting to a server |
//! | [`link`], [`outgoing`] | the client's thread |
//! | [`limits`] | limits on what a server holds for all clients and for each |
//! | [`connections`] | choice of the connection that is closed when there are too many |
//! | [`session`], [`sessions`] | a server's memory of its clients: a call runs once, even if connections break |
//! | [`listen`] | the server's threads |
//!
//! # Frames
//!
//! A request is its three entries (24 bytes, little-endian, with flags clear and offset zero), then its bytes. An
//! answer is its two entries (16 bytes), then its bytes if it has any. A first entry whose flag is set is a
//! notice instead of a call: the client has received an answer, whose bytes need not be kept (kind 0), or ends
//! (kind 1).
//!
//! # Broken connections
//!
//! A client connects again for as long as [`patience`](crate::client::Options::patience) says, names its session,
//! and sends what is not answered once more. The server knows by slot and generation what it has run, and keeps
//! answers until it knows that they have arrived. A session to which no client returns ends after its client's
//! patience. A client that returns too late, or to a server that was restarted, is told, and its calls end with
//! [`Error::Lost`](crate::Error).
//!
//! # Authentication
//!
//! Beyond loopback, connections are encrypted, and both sides prove a key that the other trusts
//! ([`unrack_keys`]). What the server holds for one key, or without keys for one address, is limited
//! ([`PeerLimits`]).

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

/// Most bytes of a message: a server allocates as much for a peer that it does not know.
pub const MOST_BYTES: usize = 64 << 20;
/// Time without a sign of the other side's kernel after which a connection is given up, even with no bytes under
/// way.
const SILENCE: Duration = Duration::from_secs(60);
/// Least bytes of an answer whose arrival a client announces.
pub const LARGE: usize = 64 << 10;

/// Protection of connections to an address, as its scheme says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `tcp://`: encrypted beyond loopback, with the keys of the usual folder
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
    /// Splits an address into its scheme, and host and port. An address without a scheme is host and port only.
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

/// Returns the address with its scheme, if a place is one of TCP.
pub fn address(place: &Path) -> Option<&str> {
    let text = place.to_str()?;
    SCHEMES.iter().any(|(name, _)| text.starts_with(name)).then_some(text)
}

/// Message of a client that is not a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The answer of this slot and generation has arrived.
    Received { slot: u16, generation: u32 },
    /// The client ends.
    End,
}

/// Bytes of a request's entries.
pub const REQUEST_BYTES: usize = REQUEST * 8;
/// Bytes of an answer's entries.
pub const ANSWER_BYTES: usize = ANSWER * 8;

/// Encodes entries.
pub fn to_bytes<const N: usize, const BYTES: usize>(entries: [u64; N]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (bytes, entry) in bytes.chunks_exact_mut(8).zip(entries) {
        bytes.copy_from_slice(&entry.to_le_bytes());
    }
    bytes
}

/// Decodes entries.
pub fn from_bytes<const N: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [u64; N] {
    std::array::from_fn(|at| u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes")))
}

impl Notice {
    /// Encodes the notice as entries, the first of which has its flag set.
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

    /// Decodes a notice; `None` if the entries are a call, an error if they are an unknown notice.
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
