//! What a server holds of all clients over TCP, and of each.
//!
//! Charged are calls and answers of more than [`SMALL`] bytes from when their bytes come, smaller answers while they are kept,
//! and sessions. Not charged, but limited by the number of connections: for each a thread, its buffers, and one call of
//! [`SMALL`] bytes ([`CONNECTION_BYTES`]).

use std::time::Duration;
use unrack_keys::shares::{Account, NoRoom};

/// What a server holds for clients that connect by TCP. A *peer* is a key, or without keys an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of calls, answers that may be asked for again, and sessions, of all peers together.
    pub bytes: u64,
    /// The same of one peer.
    pub bytes_of_peer: u64,
    /// Connections at a time. Each has a thread.
    pub connections: usize,
    /// How long a session waits for a client that does not come back, whatever the client asks for.
    pub patience: Duration,
}

impl Default for Limits {
    /// 1 GiB: 16 calls of the longest at a time. Half of it for a peer, so that whatever one does, there is room for another.
    /// A network is back within 30 s where it comes back at all.
    fn default() -> Limits {
        Limits {
            bytes: 1 << 30,
            bytes_of_peer: 512 << 20,
            connections: 256,
            patience: Duration::from_secs(30),
        }
    }
}

/// Calls and answers up to this length wait for nobody's memory.
pub const SMALL: usize = 64 << 10;
/// Memory of a connection that is not charged, at most: its buffer, a call, an answer that is not kept, TLS, its thread.
pub const CONNECTION_BYTES: usize = 4 * SMALL + (128 << 10);

/// Bytes that are charged to a peer. Given back when dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: u64,
}

/// A peer has as much as it may, or all have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full(pub NoRoom);

impl Charge {
    pub fn new(account: &Account) -> Charge {
        Charge { account: account.clone(), bytes: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it so many bytes.
    ///
    /// # Errors
    /// There is no room: it is as it was.
    pub fn set(&mut self, bytes: usize) -> Result<(), Full> {
        let bytes = bytes as u64;
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.take(more).map_err(Full)?,
            None => self.account.give(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_keys::shares::{Peer, Shares};

    #[test]
    fn a_charge_follows_what_is_held_and_ends_with_it() {
        let shares = Shares::new(100, 60);
        let account = shares.account(Peer::User(1));
        let mut charge = Charge::new(&account);
        charge.set(60).unwrap();
        assert_eq!((charge.set(61), charge.bytes()), (Err(Full(NoRoom::ForPeer)), 60));
        charge.set(10).unwrap();
        assert_eq!(shares.all().taken(), 10);
        drop(charge);
        assert_eq!(shares.all().taken(), 0);
    }
}
