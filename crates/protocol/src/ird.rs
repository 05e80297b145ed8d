//! IRD: the idealized receiver-driven transport of EDM §4.3.
//!
//! It "notifies each receiver of new flows in zero time" and "combines the best features of existing protocols":
//! smallest remaining transfer first (Homa, pHost), and the credits of ExpressPass (Cho et al., SIGCOMM 2017), which
//! are limited where they meet, not where they are issued. A receiver issues one credit per packet time, and so never
//! more than its link takes; it does not know of other receivers. At a sender, the credits of all receivers wait in one
//! short queue, which is served at the rate of the sender's link. A credit that finds [`MOST_CREDITS`] there is
//! dropped, and the time reserved for its packet is lost (EDM §2.4: what no receiver can know).
//!
//! Idealized: a receiver learns of a dropped credit at once, and issues it again when its turn comes.
//!
//! Departure: ExpressPass has a first-in-first-out credit queue at each switch port. Here only the last port, before
//! the sender, has a queue, and the sender takes from it the credit of its smallest transfer; credits are not limited
//! between switches. Nor is there a feedback loop: receivers always grant their best candidate.

use crate::receiver_driven::{Grants, Scheduler, TransferId};
use crate::turns::Turns;
use unrack_units::Time;

/// Maximum number of credits, from all receivers, that wait at one sender (ExpressPass §3.1: a queue of eight).
pub const MOST_CREDITS: u32 = 8;

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

    fn poll(&self, now: Time, _outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)> {
        let first = self.pending.first().filter(|_| now >= self.next_at);
        first.map(|transfer| (transfer, 1))
    }

    fn granted(&mut self, now: Time, pace: Time) {
        self.next_at = now + pace;
    }

    fn next(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.next_at)
    }
}
