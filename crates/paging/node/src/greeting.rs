//! Admission of sessions.

use crate::part::SessionPages;
use std::sync::Arc;
use unrack_keys::shares::{NoRoom, Peer, PeerShares};
use unrack_wire::{GreetingStatus, Hello, MOST_IDS, MOST_PAGES, PAGE, PageTransport, VERSION, Welcome};

/// Limits that a node states in its answer to a client's greeting.
#[derive(Debug, Clone)]
pub struct NodeTerms {
    /// Accounts of the pages of the whole node and of each client.
    pub shares: Arc<PeerShares>,
    pub transport: PageTransport,
    pub extent_pages: u32,
    /// Silence in milliseconds after which a session is ended; 0 means never.
    pub silence_ms: u32,
    /// Random number of the node; 0: none.
    pub identity: u64,
}

impl NodeTerms {
    /// Answers a client's greeting. If the session may begin, also returns the session's part of the capacity.
    pub fn greet(&self, hello: &Hello, client: Peer) -> (Welcome, Option<SessionPages>) {
        let account = self.shares.account(client);
        let unfit = match () {
            _ if hello.version != VERSION => Some(GreetingStatus::OtherVersion),
            _ if hello.page_bytes as usize != PAGE => Some(GreetingStatus::OtherPageSize),
            _ if hello.transport != self.transport as u16 => Some(GreetingStatus::OtherTransport),
            _ => None,
        };
        let part = match unfit {
            Some(status) => Err(status),
            None => SessionPages::new(account.clone(), hello.reserve).map_err(|no_room| match no_room {
                NoRoom::ForPeer => GreetingStatus::OverShare,
                NoRoom::ForAll => GreetingStatus::Full,
            }),
        };
        let status = part.as_ref().err().copied().unwrap_or(GreetingStatus::Welcome);
        let free = account.free();
        (Welcome { free, ..self.answer(status) }, part.ok())
    }

    /// Returns an answer with the limits of the whole node, for a client that has not sent a greeting yet.
    pub fn answer(&self, status: GreetingStatus) -> Welcome {
        Welcome {
            version: VERSION,
            status,
            most_pages: MOST_PAGES,
            capacity: self.shares.all().most(),
            free: self.shares.all().free(),
            most_ids: MOST_IDS,
            extent_pages: self.extent_pages,
            share: self.shares.each(),
            silence_ms: self.silence_ms,
            identity: self.identity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_to_refuse_is_named() {
        let shares = PeerShares::new(12, 8);
        let terms = NodeTerms {
            shares,
            transport: PageTransport::Stream,
            extent_pages: 0,
            silence_ms: 0,
            identity: 0,
        };
        let [one, two] = [1, 2].map(Peer::User);
        let hello = Hello::new(PageTransport::Stream, 8);
        let status = |hello: Hello, client| terms.greet(&hello, client).0.status;
        assert_eq!(status(Hello { version: 9, ..hello }, one), GreetingStatus::OtherVersion);
        assert_eq!(status(Hello { page_bytes: 65536, ..hello }, one), GreetingStatus::OtherPageSize);
        assert_eq!(status(Hello { transport: 1, ..hello }, one), GreetingStatus::OtherTransport);
        assert_eq!(status(Hello { reserve: 9, ..hello }, one), GreetingStatus::OverShare);
        let (welcome, part) = terms.greet(&hello, one);
        assert_eq!((welcome.status, welcome.free, welcome.share), (GreetingStatus::Welcome, 0, 8));
        assert_eq!(
            status(Hello { reserve: 0, ..hello }, one),
            GreetingStatus::OverShare,
            "it has all of its share"
        );
        assert_eq!(status(hello, two), GreetingStatus::Full);
        let (welcome, rest) = terms.greet(&Hello { reserve: 4, ..hello }, two);
        assert_eq!((welcome.status, welcome.free), (GreetingStatus::Welcome, 0));
        assert_eq!(status(Hello { reserve: 0, ..hello }, Peer::User(3)), GreetingStatus::Full);
        drop((part, rest));
    }
}
