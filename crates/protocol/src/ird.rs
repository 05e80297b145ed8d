//! IRD: the idealized receiver-driven transport of EDM §4.3.
//!
//! It "notifies each receiver of new flows in zero time" and "combines the best features of existing protocols": the
//! smallest remaining transfer first (Homa, pHost), and the credits of ExpressPass (Cho et al., SIGCOMM 2017), which
//! are limited where they meet, not where they are made. A receiver gives one credit in the time of a packet, and so
//! never more than its link takes; it knows nothing of other receivers. Before a sender, the credits of all wait in
//! one short queue, which it serves at the rate of its link; a credit that finds [`MOST_CREDITS`] there is dropped,
//! and the time that was set aside for its packet is lost (EDM §2.4: what no receiver can know).
//!
//! Idealized: a receiver learns of a dropped credit at once, and gives it again when its turn comes.
//!
//! Departure: ExpressPass has a credit queue at each switch port, first in, first out. Here there is the one of the
//! last port, before the sender, and the sender takes from it the credit of its smallest transfer; between switches
//! credits are not limited. Nor is there a feedback loop: receivers always try the best they know.

use crate::receiver_driven::{Grants, Scheduler, TransferId};
use crate::turns::Turns;
use unrack_units::Time;

/// Credits of all receivers that one sender has at most (ExpressPass §3.1: a queue of eight).
pub const MOST_CREDITS: u32 = 8;

/// Who gets a receiver's next credit.
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
