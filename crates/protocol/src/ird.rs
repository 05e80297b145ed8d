//! IRD: the idealized receiver-driven transport of EDM §4.3.
//!
//! It "notifies each receiver of new flows in zero time" and takes the best of the known ones: the smallest
//! remaining transfer first, and credits at the rate at which data can arrive. What is left is what no
//! receiver can know: that a sender has credits of several, and can use one at a time.

use crate::receiver_driven::{Grants, Scheduler, TransferId};
use crate::turns::Turns;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of IRD.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Credits of one receiver that may be under way or with senders that are busy. Default: one
    /// bandwidth-delay product, what keeps its link full if no sender is.
    pub credits: Option<u32>,
}

/// Who gets a receiver's next credit.
#[derive(Debug, Clone)]
pub struct Credits {
    pending: Turns,
    limit: u32,
    next_at: Time,
}

impl Credits {
    pub fn new(limit: u32) -> Credits {
        Credits { pending: Turns::default(), limit, next_at: Time::ZERO }
    }
}

impl Scheduler for Credits {
    fn update(&mut self, transfer: TransferId, grants: &mut Grants) {
        let size = grants.is_pending().then(|| grants.remaining());
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(
        &self,
        now: Time,
        all: u32,
        _outstanding: impl Fn(TransferId) -> u32,
    ) -> Option<(TransferId, u8)> {
        let first = self.pending.first().filter(|_| now >= self.next_at && all < self.limit);
        first.map(|transfer| (transfer, 1))
    }

    fn granted(&mut self, now: Time, pace: Time) {
        self.next_at = now + pace;
    }

    fn next(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.next_at)
    }
}
