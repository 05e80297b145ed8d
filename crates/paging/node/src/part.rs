//! Part of a node's capacity and of a client's share that one session has.

use unrack_keys::shares::{NoRoom, ShareAccount};

/// Pages that one session has taken from its client's account. The session first uses its reservation, and then takes pages one by one. All
/// pages are returned to the account on drop.
#[derive(Debug)]
pub struct SessionPages {
    account: ShareAccount,
    reserved: u64,
    held: u64,
}

impl SessionPages {
    /// Starts a session's part, and reserves `reserved` pages of the account.
    ///
    /// # Errors
    /// If fewer than `reserved` pages are free, or no page is free.
    pub fn new(account: ShareAccount, reserved: u64) -> Result<SessionPages, NoRoom> {
        // Refuses at once a session that could never store a page.
        account.take(reserved.max(1))?;
        account.give(reserved.max(1) - reserved);
        Ok(SessionPages { account, reserved, held: 0 })
    }

    /// Returns the number of pages in use, without pages that are only reserved.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Takes `pages` more pages: either all, or none if there is not enough room. Returns whether they were taken.
    pub fn take(&mut self, pages: u64) -> bool {
        let before = self.held.max(self.reserved);
        let after = (self.held + pages).max(self.reserved);
        let room = self.account.take(after - before).is_ok();
        self.held += pages * room as u64;
        room
    }

    /// Returns `pages` pages to the account.
    pub fn give(&mut self, pages: u64) {
        let before = self.held.max(self.reserved);
        self.held -= pages;
        self.account.give(before - self.held.max(self.reserved));
    }
}

impl Drop for SessionPages {
    fn drop(&mut self) {
        self.account.give(self.held.max(self.reserved));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_keys::shares::{Peer, PeerShares};

    #[test]
    fn a_reservation_is_used_first_and_everything_comes_back() {
        let shares = PeerShares::new(10, 8);
        let part = |user, reserved| SessionPages::new(shares.account(Peer::User(user)), reserved);
        let mut first = part(1, 4).unwrap();
        assert_eq!(shares.all().free(), 6);
        assert!(first.take(5));
        assert_eq!(shares.all().free(), 5);
        first.give(3);
        assert_eq!((shares.all().free(), first.held()), (6, 2));
        assert_eq!(part(1, 5).unwrap_err(), NoRoom::ForPeer);
        assert_eq!(part(2, 7).unwrap_err(), NoRoom::ForAll);
        let mut second = part(2, 6).unwrap();
        assert_eq!(part(3, 0).unwrap_err(), NoRoom::ForAll, "nothing is free");
        assert!(!second.take(7) && second.take(6));
        drop((first, second));
        assert_eq!(shares.all().free(), 10);
    }
}
