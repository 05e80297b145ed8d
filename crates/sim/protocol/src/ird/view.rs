//! State of IRD: the view that all receivers share, and the state that each receiver keeps for itself.

use super::bookings::{Bookings, SizeClass};
use crate::receiver_driven::{Grants, Scheduler, TransferId};
use std::collections::BTreeSet;
use unrack_units::Time;

/// Request of a transfer for a credit from its receiver ("wish" in the code). The order of requests is that in which
/// the receiver grants them: the transfer with the fewest segments left goes first. Among equals, the oldest transfer
/// goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreditRequest {
    class: SizeClass,
    segments: u32,
    order: u32,
    transfer: TransferId,
}

/// State that one receiver keeps for itself.
#[derive(Debug, Clone, Default)]
pub struct ReceiverCredits {
    /// Credit requests of all transfers to this receiver, ordered by their senders and then by precedence.
    wanting: BTreeSet<(u32, CreditRequest)>,
    /// For each sender, the first credit request of its transfers to this receiver. Requests that are in the queue
    /// `waiting` of their sender, because the sender had no room for another credit, are not included.
    open: BTreeSet<(CreditRequest, u32)>,
    /// Time on this receiver's link that is booked for packets that the receiver has requested and that have not
    /// arrived.
    outstanding: Bookings,
    next_at: Time,
    /// Whether the receiver's latest turn to issue a credit found no transfer to give it to.
    found_none: bool,
}

impl ReceiverCredits {
    fn first_of(&self, sender: u32) -> Option<CreditRequest> {
        let range = (sender, CreditRequest::LEAST)..=(sender, CreditRequest::MOST);
        self.wanting.range(range).next().map(|(_, wish)| *wish)
    }

    /// Records that `sender` may now have room for the credit request `wish`, for which it had no room before. Returns
    /// whether the latest turn of this receiver found no transfer to give a credit to, so that the driver has to let
    /// the receiver try again.
    pub fn reopen(&mut self, sender: u32, wish: CreditRequest) -> bool {
        self.open.insert((wish, sender));
        self.found_none
    }

    /// Returns whether no transfer wants a credit and no packet is outstanding.
    pub fn is_idle(&self) -> bool {
        self.wanting.is_empty() && self.open.is_empty() && self.outstanding.is_empty()
    }
}

impl CreditRequest {
    const LEAST: CreditRequest =
        CreditRequest { class: SizeClass::LEAST, segments: 0, order: 0, transfer: 0 };
    const MOST: CreditRequest = CreditRequest {
        class: SizeClass::MOST,
        segments: u32::MAX,
        order: u32::MAX,
        transfer: TransferId::MAX,
    };
}

impl Scheduler for ReceiverCredits {
    fn could_grant(&self, grants: &Grants) -> bool {
        grants.is_pending()
    }

    fn granted(&mut self, now: Time, pace: Time) {
        self.next_at = now + pace;
    }

    fn next(&self) -> Option<Time> {
        (!self.wanting.is_empty()).then_some(self.next_at)
    }
}

/// Limits of the credits that are in use, as the time that their packets take on a node's link.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Limit of one sender. A receiver may issue a further credit to the sender while the packets of the credits that
    /// the sender has, or that are on their way to it, take no more time than this.
    pub at_sender: Time,
    /// Limit of one receiver. The receiver may request a further packet while the packets that it has requested and
    /// that have not arrived take no more time than this.
    pub at_receiver: Time,
}

/// Credits of all transfers. All receivers share this view, and see each change at once.
#[derive(Debug, Clone)]
pub struct GlobalView {
    limits: Limits,
    senders: Vec<Sender>,
    accounts: Vec<ReceiverAccount>,
}

#[derive(Debug, Clone, Default)]
struct Sender {
    /// Time on the sender's link that is booked for the packets of credits that were issued to the sender but that it
    /// has not used yet.
    unused: Bookings,
    /// Credit requests for which this sender had no room, each with its receiver.
    waiting: BTreeSet<(CreditRequest, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct ReceiverAccount {
    sender: u32,
    receiver: u32,
    order: u32,
    /// Time that a packet of the transfer takes on a node's link.
    pace: Time,
    /// Size class under which the credits of the transfer are booked.
    class: SizeClass,
    wish: Option<CreditRequest>,
    unused: u32,
    outstanding: u32,
}

impl GlobalView {
    /// Creates the view of a network of `nodes` nodes that has no transfers yet.
    pub fn new(nodes: u32, limits: Limits) -> GlobalView {
        GlobalView { limits, senders: vec![Sender::default(); nodes as usize], accounts: Vec::new() }
    }

    /// Creates the account of a new transfer, whose packets take the time `pace` on a node's link. `order` is the
    /// position of the transfer in the order in which transfers were opened. It decides between transfers with the same
    /// number of segments left. The transfer number cannot decide, because an earlier transfer may have had the same
    /// number.
    pub fn create(&mut self, transfer: TransferId, (sender, receiver): (u32, u32), pace: Time, order: u32) {
        let (class, wish, unused, outstanding) = (SizeClass::LEAST, None, 0, 0);
        let account = ReceiverAccount { sender, receiver, order, pace, class, wish, unused, outstanding };
        match self.accounts.get_mut(transfer as usize) {
            Some(place) => *place = account,
            None => {
                debug_assert_eq!(self.accounts.len(), transfer as usize, "numbers are given in order");
                self.accounts.push(account);
            }
        }
    }

    /// Records that the state `grants` of a transfer at its receiver has changed. The receiver considers the change
    /// when it next issues a credit.
    pub fn update(&mut self, receiver: &mut ReceiverCredits, transfer: TransferId, grants: &Grants) {
        receiver.found_none = false;
        let account = &mut self.accounts[transfer as usize];
        let segments = if grants.is_silent() { u32::MAX } else { grants.remaining() };
        let class = SizeClass::new(segments, account.pace);
        let before = std::mem::replace(&mut account.outstanding, grants.outstanding());
        receiver.outstanding.add(class, account.pace * u64::from(account.outstanding));
        receiver.outstanding.remove(account.class, account.pace * u64::from(before));
        let sender = &mut self.senders[account.sender as usize];
        if class != account.class {
            let unused = account.pace * u64::from(account.unused);
            sender.unused.add(class, unused);
            sender.unused.remove(account.class, unused);
            account.class = class;
        }
        let wish = CreditRequest { class, segments, order: account.order, transfer };
        let wish = grants.is_pending().then_some(wish);
        let before = std::mem::replace(&mut account.wish, wish);
        if before == wish {
            return;
        }
        let first_before = receiver.first_of(account.sender);
        if let Some(wish) = before {
            receiver.wanting.remove(&(account.sender, wish));
        }
        receiver.wanting.extend(wish.map(|wish| (account.sender, wish)));
        let first = receiver.first_of(account.sender);
        if first != first_before {
            if let Some(wish) = first_before
                && !receiver.open.remove(&(wish, account.sender))
            {
                sender.waiting.remove(&(wish, account.receiver));
            }
            receiver.open.extend(first.map(|wish| (wish, account.sender)));
        }
    }

    /// Returns the transfer to which the receiver gives its next credit: the first one, in the order of credit
    /// requests, whose sender has room for another credit. Returns `None` if it is not yet time for the next credit, if
    /// the receiver's limit is reached, or if no sender has room.
    pub fn choose(&mut self, receiver: &mut ReceiverCredits, now: Time) -> Option<TransferId> {
        if now < receiver.next_at {
            return None;
        }
        receiver.found_none = true;
        while let Some((wish, sender)) = receiver.open.first().copied() {
            // If the receiver's limit forbids a credit for this transfer, the limit also forbids one for every larger
            // transfer.
            if receiver.outstanding.exceeds(wish.class, self.limits.at_receiver) {
                return None;
            }
            let at_sender = &mut self.senders[sender as usize];
            if !at_sender.unused.exceeds(wish.class, self.limits.at_sender) {
                receiver.found_none = false;
                return Some(wish.transfer);
            }
            receiver.open.pop_first();
            at_sender.waiting.insert((wish, self.accounts[wish.transfer as usize].receiver));
        }
        None
    }

    /// Records that the receiver of a transfer has issued a credit for it.
    pub fn issue(&mut self, transfer: TransferId) {
        let ReceiverAccount { sender, class, pace, unused, .. } = &mut self.accounts[transfer as usize];
        *unused += 1;
        self.senders[*sender as usize].unused.add(*class, *pace);
    }

    /// Returns the number of credits of a transfer that were issued and that the sender has not used yet.
    pub fn unused(&self, transfer: TransferId) -> u32 {
        self.accounts[transfer as usize].unused
    }

    /// Records that the sender of a transfer has only `left` unused credits for it, and releases the booked time of all
    /// its other credits.
    pub fn keep(&mut self, transfer: TransferId, left: u32) {
        let ReceiverAccount { sender, class, pace, unused, .. } = &mut self.accounts[transfer as usize];
        let used = unused.saturating_sub(left);
        *unused -= used;
        self.senders[*sender as usize].unused.remove(*class, *pace * u64::from(used));
    }

    /// Removes and returns the first credit request that waits for room at `sender`, if the sender now has room for it.
    /// Also returns the receiver of the request, to which the driver hands the request back with
    /// [`ReceiverCredits::reopen`].
    pub fn take_waiting(&mut self, sender: u32) -> Option<(CreditRequest, u32)> {
        let Sender { unused, waiting } = &mut self.senders[sender as usize];
        let (wish, _) = waiting.first()?;
        if unused.exceeds(wish.class, self.limits.at_sender) {
            return None;
        }
        waiting.pop_first()
    }

    /// Returns whether all issued credits were used and no credit request waits for room at a sender.
    pub fn is_idle(&self) -> bool {
        self.senders.iter().all(|sender| sender.unused.is_empty() && sender.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACE: Time = Time::from_ns(100);

    struct Rack {
        view: GlobalView,
        receivers: Vec<ReceiverCredits>,
        transfers: Vec<(u32, u32, Grants)>,
    }

    impl Rack {
        fn new(nodes: u32, at_sender: u64, at_receiver: u64) -> Rack {
            let limits = Limits { at_sender: PACE * at_sender, at_receiver: PACE * at_receiver };
            let receivers = vec![ReceiverCredits::default(); nodes as usize];
            Rack { view: GlobalView::new(nodes, limits), receivers, transfers: Vec::new() }
        }

        fn open(&mut self, src: u32, dst: u32, segments: u32) {
            let transfer = self.transfers.len() as u32;
            self.view.create(transfer, (src, dst), PACE, transfer);
            self.transfers.push((src, dst, Grants::new(segments, 0, transfer, (0, 64))));
            self.update(transfer);
        }

        fn update(&mut self, transfer: u32) {
            let (_, dst, grants) = &self.transfers[transfer as usize];
            self.view.update(&mut self.receivers[*dst as usize], transfer, grants);
        }

        fn choose(&mut self, receiver: u32) -> Option<u32> {
            self.view.choose(&mut self.receivers[receiver as usize], Time::ZERO)
        }

        fn grant(&mut self, transfer: u32) -> u32 {
            let segment = self.transfers[transfer as usize].2.grant().unwrap();
            self.view.issue(transfer);
            self.update(transfer);
            segment
        }

        /// Uses one credit of a transfer at its sender. Receivers that waited for room at this sender then try again to
        /// issue a credit. Returns the transfers that they give credits to.
        fn send(&mut self, transfer: u32) -> Vec<u32> {
            self.view.keep(transfer, self.view.unused(transfer) - 1);
            let mut turns = Vec::new();
            while let Some((wish, receiver)) = self.view.take_waiting(self.transfers[transfer as usize].0) {
                if self.receivers[receiver as usize].reopen(self.transfers[transfer as usize].0, wish)
                    && let Some(chosen) = self.choose(receiver)
                {
                    self.grant(chosen);
                    turns.push(chosen);
                }
            }
            turns
        }

        /// Returns the transfer that a receiver should give its next credit to, which this function finds by a scan of
        /// all transfers.
        fn scan(&self, receiver: u32) -> Option<u32> {
            let class = |grants: &Grants| SizeClass::new(grants.remaining(), PACE);
            let sum = |filter: &dyn Fn(u32, u32) -> bool, most: SizeClass, count: &dyn Fn(usize) -> u32| {
                let all = self.transfers.iter().enumerate();
                let counted =
                    all.filter(|(_, (src, dst, grants))| filter(*src, *dst) && class(grants) <= most);
                counted.map(|(number, _)| u64::from(count(number))).sum::<u64>()
            };
            let unused = |number: usize| self.view.unused(number as u32);
            let outstanding = |number: usize| self.transfers[number].2.outstanding();
            let mine = self.transfers.iter().enumerate().filter(|(_, (_, dst, _))| *dst == receiver);
            mine.filter(|(_, (src, _, grants))| {
                let at_sender = PACE * sum(&|from, _| from == *src, class(grants), &unused);
                let at_receiver = PACE * sum(&|_, to| to == receiver, class(grants), &outstanding);
                let Limits { at_sender: most, at_receiver: budget } = self.view.limits;
                grants.is_pending() && at_sender <= most && at_receiver <= budget
            })
            .min_by_key(|(number, (_, _, grants))| (grants.remaining(), *number))
            .map(|(number, _)| number as u32)
        }
    }

    #[test]
    fn a_sender_takes_eight_credits_and_then_those_of_smaller_transfers() {
        let mut rack = Rack::new(12, 7, 1_000);
        (1..11).for_each(|receiver| rack.open(0, receiver, 40));
        for receiver in 1..9 {
            let chosen = rack.choose(receiver).unwrap();
            rack.grant(chosen);
        }
        assert_eq!((rack.choose(9), rack.choose(10)), (None, None));
        // A smaller transfer from the same sender can still get a credit, and so can a transfer from another sender.
        rack.open(0, 9, 2);
        assert_eq!(rack.choose(9), Some(10));
        rack.open(11, 10, 50);
        assert_eq!(rack.choose(10), Some(11));
        // The sender still has no room for large transfers after it has used the credit of the small one.
        rack.grant(10);
        assert!(rack.send(10).is_empty());
        assert_eq!(rack.choose(9), Some(10));
    }

    #[test]
    fn a_receiver_that_found_no_room_is_told_of_it_the_smallest_wish_first() {
        let mut rack = Rack::new(5, 0, 1_000);
        rack.open(0, 1, 9);
        rack.grant(0);
        for (receiver, segments) in [(2, 15), (3, 12), (4, 14)] {
            rack.open(0, receiver, segments);
            assert_eq!(rack.choose(receiver), None);
        }
        assert_eq!(rack.send(0), [2], "12 segments go before 14 and 15");
        assert_eq!(rack.send(2), [3], "then the next: the first has had its turn");
    }

    #[test]
    fn what_is_outstanding_of_large_transfers_does_not_hold_up_a_small_one() {
        let mut rack = Rack::new(3, 100, 3);
        rack.open(0, 1, 40);
        for _ in 0..4 {
            assert_eq!(rack.choose(1), Some(0));
            rack.grant(0);
        }
        assert_eq!(rack.choose(1), None);
        rack.open(2, 1, 1);
        assert_eq!(rack.choose(1), Some(1));
    }

    proptest! {
        /// After any sequence of events, a receiver gives its credit to the same transfer that a scan of all transfers
        /// finds. A receiver waits only if it can give a credit to no transfer. In the end all accounts are empty.
        #[test]
        fn a_turn_is_that_of_a_scan(
            at_sender in 0u64..9, at_receiver in 0u64..9,
            steps in prop::collection::vec((0u8..6, any::<u16>(), 1u32..40), 1..200),
        ) {
            let nodes = 4;
            let mut rack = Rack::new(nodes, at_sender, at_receiver);
            for (what, at, segments) in steps {
                let at = u32::from(at);
                let (src, dst) = (at % nodes, at / 7 % nodes);
                let some = rack.transfers.len().checked_sub(1).map(|last| at as usize % (last + 1));
                match (what, some) {
                    (0, _) | (_, None) => rack.open(src, dst, segments),
                    (1 | 2, _) => {
                        let scanned = rack.scan(dst);
                        prop_assert_eq!(rack.choose(dst), scanned);
                        scanned.map(|transfer| rack.grant(transfer));
                    }
                    (3, Some(number)) if rack.view.unused(number as u32) > 0 => drop(rack.send(number as u32)),
                    // Packets that were sent arrive in any order, or are lost.
                    (4, Some(number)) if rack.view.unused(number as u32) == 0 => {
                        let grants = &mut rack.transfers[number].2;
                        grants.arrive(segments % grants.segments());
                        rack.update(number as u32);
                    }
                    (5, Some(number)) if segments == 1 => {
                        rack.transfers[number].2.expire();
                        rack.update(number as u32);
                    }
                    _ => {}
                }
                for receiver in 0..nodes {
                    // A waiting receiver has no transfer to give a credit to, except for transfers that were announced
                    // after its latest turn.
                    let ReceiverCredits { found_none, open, .. } = &rack.receivers[receiver as usize];
                    let misses_none = !found_none || !open.is_empty() || rack.scan(receiver).is_none();
                    prop_assert!(misses_none);
                }
            }
            for number in 0..rack.transfers.len() {
                rack.view.keep(number as u32, 0);
                for segment in 0..rack.transfers[number].2.segments() {
                    rack.transfers[number].2.arrive(segment);
                }
                rack.update(number as u32);
            }
            prop_assert!(rack.view.is_idle() && rack.receivers.iter().all(ReceiverCredits::is_idle));
        }
    }
}
