//! What an observer is told.

use super::Edm;
use crate::engine::{Hop, LinkId, Packet};
use unrack_units::Time;
use unrack_workload::MessageId;

impl Edm {
    /// A block or several over a link: ready, started, and how long. The next step begins with the
    /// first of them.
    pub(super) fn hop(
        &self,
        link: LinkId,
        id: MessageId,
        packet: Packet,
        payload: u64,
        (ready, first, length): (Time, Time, Time),
    ) -> Hop {
        let (message, payload, last) = (Some(id), payload as u32, first + length);
        let (serial, propagation) = (Time::ZERO, self.latency.propagation);
        // A byte more than what the time is good for, if it ends within one.
        let wire = self.pace.bytes_in(length + self.pace.transmit(1) - Time::from_ps(1)) as u32;
        let (shares, repeated, onward) = (false, Time::ZERO, last);
        Hop {
            link,
            message,
            packet,
            wire,
            payload,
            ready,
            first,
            last,
            shares,
            repeated,
            serial,
            propagation,
            onward,
        }
    }
}
