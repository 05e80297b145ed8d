//! Limits on the memory that a server holds for all clients over TCP, and for each.
//!
//! Charged are calls and answers of more than [`SMALL`] bytes from when their bytes arrive, smaller answers while
//! they are kept, and sessions. Not charged, but limited by the number of connections: for each a thread, its
//! buffers, and one call of [`SMALL`] bytes ([`CONNECTION_BYTES`]).

use std::time::Duration;
use unrack_keys::shares::{Account, NoRoom};

/// Limits of a server for clients that connect by TCP. A *peer* is a key, or without keys an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLimits {
    /// Bytes of calls, kept answers, and sessions, of all peers together.
    pub bytes: u64,
    /// Bytes of the same of one peer.
    pub bytes_of_peer: u64,
    /// Most connections at a time. Each has a thread.
    pub connections: usize,
    /// Longest time that a session waits for its client to come back, whatever the client asks for.
    pub patience: Duration,
}

impl Default for PeerLimits {
    /// Returns the usual limits. 1 GiB: 16 calls of the greatest length at a time. Half of it for a peer, so that
    /// whatever one does, there is room for another. A network is back within 30 s if it comes back at all.
    fn default() -> PeerLimits {
        PeerLimits {
            bytes: 1 << 30,
            bytes_of_peer: 512 << 20,
            connections: 256,
            patience: Duration::from_secs(30),
        }
    }
}

/// Bytes up to which calls and answers need not wait for others' memory.
pub const SMALL: usize = 64 << 10;
/// Most bytes of a connection that are not charged: its buffer, a call, an answer that is not kept, TLS, its
/// thread.
pub const CONNECTION_BYTES: usize = 4 * SMALL + (128 << 10);

/// Bytes that are charged to a peer. Dropping it gives them back.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: u64,
}

/// Error if a peer holds as much as it may, or all peers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full(pub NoRoom);

impl Charge {
    /// Makes a charge of no bytes.
    pub fn new(account: &Account) -> Charge {
        Charge { account: account.clone(), bytes: 0 }
    }

    /// Returns the bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge to this many bytes.
    ///
    /// # Errors
    /// If there is no room: the charge is unchanged.
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
