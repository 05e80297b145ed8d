//! Descriptions of hops for observers.

use super::Edm;
use unrack_engine::events::{Hop, LinkId, ObservedPacket};
use unrack_units::Time;
use unrack_workload::MessageId;

impl Edm {
    /// Describes one or more blocks over a link: the time at which they were ready, their start and their length. The next step starts with
    /// the first block.
    pub(super) fn hop(
        &self,
        link: LinkId,
        id: MessageId,
        packet: ObservedPacket,
        payload: u64,
        (ready, first, length): (Time, Time, Time),
    ) -> Hop {
        let (message, payload, last) = (Some(id), payload as u32, first + length);
        let (serial, propagation) = (Time::ZERO, self.latency.propagation);
        // The number of bytes is rounded up.
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
