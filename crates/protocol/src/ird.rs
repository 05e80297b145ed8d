//! IRD: the idealized receiver-driven transport of EDM §4.3.
//!
//! It "notifies each receiver of new flows in zero time" and "combines the best features of existing protocols":
//! smallest remaining transfer first (Homa, pHost), and the credits of ExpressPass (Cho et al., SIGCOMM 2017), which
//! are limited where they meet. A receiver issues one credit per packet time, and so never more than its link takes. At
//! a sender, the credits of all receivers wait in one short queue of [`MOST_CREDITS`], which is served at the rate of the
//! sender's link.
//!
//! Idealized: receivers have one global view, [`Senders`]. They know at once how many credits each sender has, and
//! give the next to the smallest transfer whose sender has room for it. So no credit is dropped, no time of a receiver
//! is reserved for a packet that does not come, and a sender is idle only if the links of all its receivers are booked.
//! What is left of decentralized scheduling (EDM §2.4): each receiver takes what is best for itself, so that the
//! credits form no matching, and the data of several senders may meet at a receiver's port. To bound that,
//! a receiver has no more credits outstanding than its port's buffer holds, or a round trip if that is more.
//!
//! Departure: ExpressPass has a credit queue at each switch port, drops credits beyond eight, and adapts the
//! rate of each flow's credits to the loss (§3.2). Receivers that always grant their best candidate, without that
//! feedback, keep choosing the same sender and lose their turns; the global view replaces the feedback.

use crate::receiver_driven::{Grants, Scheduler, TransferId};
use crate::turns::Turns;
use std::collections::BTreeSet;
use unrack_units::Time;

/// Maximum number of credits, from all receivers, that wait at one sender (ExpressPass §3.1: a queue of eight).
pub const MOST_CREDITS: u64 = 8;

/// Scheduler of a receiver's next credit.
#[derive(Debug, Clone, Default)]
pub struct Credits {
    pending: Turns,
    next_at: Time,
}

impl Scheduler for Credits {
    fn could_grant(&self, grants: &Grants) -> bool {
        grants.is_pending()
    }

    fn update(&mut self, transfer: TransferId, grants: &mut Grants) {
        let size = grants.size();
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(
        &self,
        now: Time,
        _outstanding: impl Fn(TransferId) -> u32,
        mut has_room: impl FnMut(TransferId) -> bool,
    ) -> Option<(TransferId, u8)> {
        if now < self.next_at {
            return None;
        }
        self.pending.iter().find(|transfer| has_room(*transfer)).map(|transfer| (transfer, 1))
    }

    fn granted(&mut self, now: Time, pace: Time) {
        self.next_at = now + pace;
    }

    fn next(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.next_at)
    }
}

/// Credits of all senders, as all receivers know them.
#[derive(Debug, Clone)]
pub struct Senders {
    senders: Vec<Sender>,
    /// Time that a credit takes to its sender, at most.
    flight: Time,
}

#[derive(Debug, Clone, Default)]
struct Sender {
    /// Time on the sender's link of the packets whose credits were issued and not used.
    unused: Time,
    /// Number of these packets.
    count: u64,
    /// Receivers that found no room, by the size of the transfer that they would have granted.
    waiting: BTreeSet<(u32, u32)>,
}

impl Senders {
    /// Creates the view of `nodes` senders without credits. A credit takes `flight` to its sender, at most.
    pub fn new(nodes: u32, flight: Time) -> Senders {
        Senders { senders: vec![Sender::default(); nodes as usize], flight }
    }

    /// Returns whether a sender has room for one more credit, for a packet of this time on its link: beside those that
    /// may be in flight, [`MOST_CREDITS`] wait there at most, of this size or of the mean size of those that it has,
    /// whichever is larger. So eight credits for full packets do not keep out a request of a few bytes, which goes
    /// before them.
    pub fn has_room(&self, sender: u32, pace: Time) -> bool {
        let Sender { unused, count, .. } = self.senders[sender as usize];
        let waiting = (unused + pace).saturating_sub(self.flight);
        let of_mean = |waiting: Time| u128::from(waiting.as_ps()) * u128::from(count);
        waiting <= pace * MOST_CREDITS
            || of_mean(waiting) <= u128::from(unused.as_ps()) * u128::from(MOST_CREDITS)
    }

    /// Notes that a receiver waits until a sender has room, for a transfer with `size` segments left.
    pub fn wait(&mut self, sender: u32, size: u32, receiver: u32) {
        self.senders[sender as usize].waiting.insert((size, receiver));
    }

    /// Removes the receivers that wait for a sender, and returns them with the sizes of their transfers, in order.
    pub fn take_waiting(&mut self, sender: u32) -> BTreeSet<(u32, u32)> {
        std::mem::take(&mut self.senders[sender as usize].waiting)
    }

    /// Notes that a credit for a packet of this time was issued to a sender.
    pub fn issue(&mut self, sender: u32, pace: Time) {
        let Sender { unused, count, .. } = &mut self.senders[sender as usize];
        *unused += pace;
        *count += 1;
    }

    /// Notes that `credits` for packets of this time were used, or are lost.
    pub fn settle(&mut self, sender: u32, pace: Time, credits: u64) {
        let Sender { unused, count, .. } = &mut self.senders[sender as usize];
        debug_assert!(*count >= credits && *unused >= pace * credits, "a credit is used once");
        *unused = unused.saturating_sub(pace * credits);
        *count = count.saturating_sub(credits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_room_for_eight_credits_beside_those_in_flight() {
        let pace = Time::from_ns(100);
        for flight in [0u64, 1_000] {
            let mut senders = Senders::new(2, Time::from_ns(flight));
            let most = 8 + flight / 100;
            for _ in 0..most {
                assert!(senders.has_room(1, pace));
                senders.issue(1, pace);
            }
            assert!(!senders.has_room(1, pace) && senders.has_room(0, pace));
            senders.wait(1, 9, 4);
            senders.wait(1, 2, 7);
            senders.settle(1, pace, 1);
            assert!(senders.has_room(1, pace));
            assert_eq!(senders.take_waiting(1).into_iter().collect::<Vec<_>>(), [(2, 7), (9, 4)]);
            assert!(senders.take_waiting(1).is_empty());
        }
    }

    #[test]
    fn credits_for_full_packets_do_not_keep_out_those_for_requests() {
        let (full, request) = (Time::from_ns(120), Time::from_ns(1));
        let mut senders = Senders::new(1, Time::from_ns(10));
        (0..8).for_each(|_| senders.issue(0, full));
        assert!(!senders.has_room(0, full) && senders.has_room(0, request));
        (0..20).for_each(|_| senders.issue(0, request));
        assert!(!senders.has_room(0, request), "nor is there room for any number");
    }

    #[test]
    fn the_smallest_transfer_whose_sender_has_room_is_granted() {
        let mut receiver = Credits::default();
        let mut all: Vec<_> = (0..3).map(|n| Grants::new(10 + n, 0, n)).collect();
        for (n, grants) in all.iter_mut().enumerate() {
            receiver.update(n as u32, grants);
        }
        let above = |most: u32| move |transfer: TransferId| transfer > most;
        assert_eq!(receiver.poll(Time::ZERO, |_| 0, above(0)), Some((1, 1)));
        assert_eq!(receiver.poll(Time::ZERO, |_| 0, above(2)), None);
        receiver.granted(Time::ZERO, Time::from_ns(5));
        assert_eq!(receiver.poll(Time::from_ns(4), |_| 0, above(0)), None);
        assert_eq!(receiver.next(), Some(Time::from_ns(5)));
    }
}
