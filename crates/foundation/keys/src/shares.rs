//! Shares of a limited resource among peers, for example pages of a memory node or bytes of a server.

use crate::Fingerprint;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An amount from which parts can be taken and returned. It is only a counter that orders no other data, so `Relaxed` suffices.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    taken: AtomicU64,
}

impl Budget {
    /// Makes a budget from which no part is taken yet.
    pub fn new(most: u64) -> Arc<Budget> {
        Arc::new(Budget { most, taken: AtomicU64::new(0) })
    }

    /// Returns the whole amount.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the amount that is taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Returns the amount that is left.
    pub fn free(&self) -> u64 {
        self.most - self.taken()
    }

    /// Takes an amount. Returns false, and takes no part of it, if less is left.
    fn take(&self, amount: u64) -> bool {
        let more = |taken: u64| taken.checked_add(amount).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Returns an amount to the budget.
    fn give(&self, amount: u64) {
        let before = self.taken.fetch_sub(amount, Relaxed);
        assert!(before >= amount, "more given back than was taken");
    }
}

/// Owner of the other end of a connection. All connections of one peer use one share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// Address of an unencrypted connection. For IPv6 only the network (the first 64 bits) counts, because one machine may own all
    /// addresses of that network.
    Address(IpAddr),
    /// Key that the peer has proved to own.
    Key(Fingerprint),
    /// Number of a user of this machine.
    User(u32),
}

impl Peer {
    /// Returns the peer that an IP address identifies.
    pub fn from_address(address: IpAddr) -> Peer {
        Peer::Address(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        })
    }
}

/// Shares of all peers that have an account.
#[derive(Debug)]
pub struct PeerShares {
    all: Arc<Budget>,
    each: u64,
    peers: Mutex<BTreeMap<Peer, Weak<Budget>>>,
}

impl PeerShares {
    /// Divides the amount `all` into shares. Each peer may hold at most `each`.
    pub fn new(all: u64, each: u64) -> Arc<PeerShares> {
        Arc::new(PeerShares { all: Budget::new(all), each, peers: Mutex::default() })
    }

    /// Returns the budget of all peers together.
    pub fn all(&self) -> &Budget {
        &self.all
    }

    /// Returns the amount that one peer may hold.
    pub fn each(&self) -> u64 {
        self.each
    }

    /// Returns the account of a peer, which is the same for all connections of the peer.
    pub fn account(&self, peer: Peer) -> ShareAccount {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, share| share.strong_count() > 0);
        let known = peers.get(&peer).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            let share = Budget::new(self.each);
            peers.insert(peer, Arc::downgrade(&share));
            share
        });
        ShareAccount { all: self.all.clone(), own }
    }
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Limit of all peers together.
    ForAll,
    /// Limit of one peer.
    ForPeer,
}

/// Account of one peer. An amount is taken both from the peer's share and from the budget of all peers.
#[derive(Debug, Clone)]
pub struct ShareAccount {
    all: Arc<Budget>,
    own: Arc<Budget>,
}

impl ShareAccount {
    /// Returns the amount that this peer could take now.
    pub fn free(&self) -> u64 {
        self.all.free().min(self.own.free())
    }

    /// Returns the amount that this peer holds.
    pub fn taken(&self) -> u64 {
        self.own.taken()
    }

    /// Returns whether two accounts belong to the same peer.
    pub fn is_same_peer(&self, other: &ShareAccount) -> bool {
        Arc::ptr_eq(&self.own, &other.own)
    }

    /// Takes an amount, which the caller must return later by [`ShareAccount::give`].
    ///
    /// # Errors
    /// If less is left in the peer's share or in the budget of all peers. Then no part is taken.
    pub fn take(&self, amount: u64) -> Result<(), NoRoom> {
        if !self.own.take(amount) {
            return Err(NoRoom::ForPeer);
        }
        if !self.all.take(amount) {
            self.own.give(amount);
            return Err(NoRoom::ForAll);
        }
        Ok(())
    }

    /// Returns an amount to the peer's share and to the budget of all peers.
    pub fn give(&self, amount: u64) {
        self.all.give(amount);
        self.own.give(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_its_share_however_much_it_opens() {
        let shares = PeerShares::new(50, 30);
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|text| Peer::from_address(text.parse().unwrap()));
        let (first, second, other) = (shares.account(a), shares.account(a), shares.account(b));
        assert!(first.is_same_peer(&second) && !first.is_same_peer(&other));
        first.take(20).unwrap();
        assert_eq!(second.take(11), Err(NoRoom::ForPeer));
        second.take(10).unwrap();
        assert_eq!((first.free(), other.free()), (0, 20));
        assert_eq!(other.take(21), Err(NoRoom::ForAll));
        assert_eq!(other.taken(), 0, "nothing of it is taken");
        first.give(30);
        assert_eq!((shares.all().free(), second.taken()), (50, 0));
    }

    #[test]
    fn a_machine_is_one_peer_whichever_of_its_addresses_it_uses() {
        let of = |text: &str| Peer::from_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
