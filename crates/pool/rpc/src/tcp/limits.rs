//! Limits on the memory that a server holds for all clients over TCP, and for each of them.
//!
//! The server charges for calls and answers of more than [`SMALL`] bytes from the arrival of their bytes on, for
//! smaller answers while they are kept, and for sessions. It does not charge for a connection's thread, buffers, and
//! one call of up to [`SMALL`] bytes ([`CONNECTION_BYTES`]), because the number of connections limits these.

use std::time::Duration;
use unrack_keys::shares::{NoRoom, ShareAccount};

/// Limits of a server for clients that connect over TCP. A *peer* is a key; without keys, it is an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLimits {
    /// Limit on the bytes of calls, kept answers and sessions of all peers together.
    pub bytes: u64,
    /// Limit on the bytes of calls, kept answers and sessions of one peer.
    pub bytes_of_peer: u64,
    /// Maximum number of connections at a time. Each connection has a thread.
    pub connections: usize,
    /// Longest time that a session waits for its client to return, even if the client requests more.
    pub patience: Duration,
}

impl Default for PeerLimits {
    /// Returns the default limits. 1 GiB is enough for 16 calls of the greatest length at a time. A peer gets half of
    /// it, so that there is always room for another peer. The patience is 30 s because a network that recovers at all
    /// does so within that time.
    fn default() -> PeerLimits {
        PeerLimits {
            bytes: 1 << 30,
            bytes_of_peer: 512 << 20,
            connections: 256,
            patience: Duration::from_secs(30),
        }
    }
}

/// Size in bytes up to which calls and answers are not charged before they run, so that they need not wait for memory.
pub const SMALL: usize = 64 << 10;
/// Maximum bytes of a connection that are not charged: its buffer, a call, an answer that is not kept, TLS, and its
/// thread.
pub const CONNECTION_BYTES: usize = 4 * SMALL + (128 << 10);

/// Bytes that are charged to a peer. Dropping the charge returns them to the peer's account.
#[derive(Debug)]
pub struct Charge {
    account: ShareAccount,
    bytes: u64,
}

/// Error if a peer holds as much memory as it may, or if all peers together do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached(pub NoRoom);

impl Charge {
    /// Makes a charge of zero bytes.
    pub fn new(account: &ShareAccount) -> Charge {
        Charge { account: account.clone(), bytes: 0 }
    }

    /// Returns the number of bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge to this many bytes.
    ///
    /// # Errors
    /// If the account has no room for it; then the charge is unchanged.
    pub fn set(&mut self, bytes: usize) -> Result<(), LimitReached> {
        let bytes = bytes as u64;
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.take(more).map_err(LimitReached)?,
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
    use unrack_keys::shares::{Peer, PeerShares};

    #[test]
    fn a_charge_follows_what_is_held_and_ends_with_it() {
        let shares = PeerShares::new(100, 60);
        let account = shares.account(Peer::User(1));
        let mut charge = Charge::new(&account);
        charge.set(60).unwrap();
        assert_eq!((charge.set(61), charge.bytes()), (Err(LimitReached(NoRoom::ForPeer)), 60));
        charge.set(10).unwrap();
        assert_eq!(shares.all().taken(), 10);
        drop(charge);
        assert_eq!(shares.all().taken(), 0);
    }
}
