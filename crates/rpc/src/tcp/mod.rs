//! Calls over TCP, where no memory is shared: chosen when a client connects to `tcp://host:port`, or another [scheme](Scheme).
//!
//! Clients and handlers see what they see over a pool: requests and answers in place, in buffers that are ordinary memory
//! here. On the client's side the queues are the same too ([`crate::ends`]), in memory of its own, and a thread carries
//! entries and bytes to the server and back: what waits, resends, cancels and streams does not know the difference. On the
//! server's side a thread for each connection reads calls, runs them to their end and answers.
//!
//! | module | idea |
//! |---|---|
//! | [`hello`] | what both say first: version, service, session, limits |
//! | [`memory`] | buffers, and queues, in ordinary memory |
//! | [`stream`] | reading and writing by a deadline |
//! | [`dial`] | reaching a server, and being taken by it |
//! | [`link`], [`outgoing`] | the client's thread |
//! | [`limits`] | what a server holds of all clients and of each |
//! | [`connections`] | who makes room when there are too many connections |
//! | [`session`], [`sessions`] | what a server remembers of a client: a call runs once, whatever happens to connections |
//! | [`listen`] | the server's threads |
//!
//! # Frames
//!
//! A request is its three entries (24 bytes, little-endian, without flags and with no offset), then its bytes. An answer is
//! its two entries (16 bytes), then its bytes if it has any. A first entry whose flag is set is no call: the client has an
//! answer whose bytes need not be kept (kind 0), or ends (kind 1).
//!
//! # Broken connections
//!
//! A client connects again for as long as [`patience`](crate::client::Options::patience) says, names its session, and
//! sends what is not answered once more. The server knows by slot and generation what it has run, and keeps answers until
//! it knows that they have come. A session that nobody comes back to ends with its client's patience; a client that
//! comes too late, or to a server that was started anew, is told, and its calls end with [`Error::Lost`](crate::Error).
//!
//! # Who may call
//!
//! Beyond loopback, connections are encrypted, and both sides prove a key that the other trusts ([`unrack_keys`]); what the
//! server holds for one key, or without keys for one address, is limited ([`Limits`]).

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
use unrack_keys::{Keys, Policy};

pub use limits::Limits;

/// Bytes of a message, at most: what a server allocates because a stranger says so.
pub const MOST_BYTES: usize = 64 << 20;
/// After how long without a sign of the other side's kernel a connection is given up, where bytes are on their way or not.
const SILENCE: Duration = Duration::from_secs(60);
/// From this length on, a client tells that an answer has come.
pub const LARGE: usize = 64 << 10;

/// How connections to an address are protected, as its scheme says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `tcp://`: beyond loopback encrypted, by the keys of the usual folder ([`unrack_keys::folder::usual_folder`]).
    Tcp,
    /// `tls://`: encrypted everywhere, by the same keys.
    Tls,
    /// `tcp+insecure://`: encrypted nowhere.
    Insecure,
}

const SCHEMES: [(&str, Scheme); 3] =
    [("tcp://", Scheme::Tcp), ("tls://", Scheme::Tls), ("tcp+insecure://", Scheme::Insecure)];

impl Scheme {
    /// What follows the scheme of an address: host and port. Without a scheme, it is all of it.
    pub fn split(address: &str) -> (Scheme, &str) {
        let known = |&(name, scheme): &(&str, Scheme)| Some((scheme, address.strip_prefix(name)?));
        SCHEMES.iter().find_map(known).unwrap_or((Scheme::Tcp, address))
    }

    fn policy(self) -> Policy {
        match self {
            Scheme::Tcp => Policy::BeyondLoopback,
            Scheme::Tls => Policy::Always(usual_folder()),
            Scheme::Insecure => Policy::Never,
        }
    }

    /// The keys for an address; `None`: plain.
    fn keys_for(self, address: SocketAddr) -> Result<Option<Arc<Keys>>, unrack_keys::Error> {
        self.policy().keys_for(address, "tcp+insecure:// (for commands, --insecure)")
    }
}

/// The address with its scheme, if it is one of TCP.
pub fn address(place: &Path) -> Option<&str> {
    let text = place.to_str()?;
    SCHEMES.iter().any(|(name, _)| text.starts_with(name)).then_some(text)
}

/// What a client says beside calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The answer of this slot and generation has come.
    Received { slot: u16, generation: u32 },
    /// No more comes.
    End,
}

pub const REQUEST_BYTES: usize = REQUEST * 8;
pub const ANSWER_BYTES: usize = ANSWER * 8;

pub fn to_bytes<const N: usize, const BYTES: usize>(entries: [u64; N]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (bytes, entry) in bytes.chunks_exact_mut(8).zip(entries) {
        bytes.copy_from_slice(&entry.to_le_bytes());
    }
    bytes
}

pub fn from_bytes<const N: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [u64; N] {
    std::array::from_fn(|at| u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes")))
}

impl Notice {
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

    /// The notice, if these are none of a call; an error if they are of nothing that is known.
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
