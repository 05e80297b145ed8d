//! Times between the events of a message, which are sums of steps.

use super::EdmConfig;
use unrack_protocol::edm::steps;
use unrack_units::Time;

/// Sums of steps between events.
///
/// Every block that a node sends is booked `host_ahead` before its time, and every block that the switch sends is booked `switch_ahead`
/// before its time. Because these times are constant, bookings come in order without separate events.
#[derive(Clone, Copy)]
pub(super) struct StepSums {
    /// Propagation of a link.
    pub propagation: Time,
    /// Time over a link, from PCS to PCS.
    pub link: Time,
    pub host_ahead: Time,
    pub switch_ahead: Time,
    /// Time from the scheduler's grant to the switch's link, if the grant comes from the first iteration.
    pub granted: Time,
    /// Time from the start of a notification or request on the wire until it reaches the head of the scheduler's list.
    pub to_scheduler: Time,
    /// Time from the start of a grant on the wire to the event that sends the chunk.
    pub grant_to_send: Time,
    /// Time from the start of a request on the wire to the event that sends the chunk.
    pub request_to_send: Time,
    /// Time from the start of a chunk on the sender's link to the event that forwards it.
    pub to_forward: Time,
    /// Time from the start of a chunk on the receiver's link to its arrival at the receiver.
    pub to_receiver: Time,
}

impl StepSums {
    /// Computes the sums for this configuration.
    pub(super) fn new(config: &EdmConfig, propagation: Time) -> StepSums {
        let steps = &config.steps();
        let link = steps.link(propagation);
        let host_ahead = steps.cycles(steps::MAKE_NOTIFICATION);
        StepSums {
            propagation,
            link,
            host_ahead,
            switch_ahead: steps.cycles(steps::FORWARD),
            granted: steps.cycles(steps::FORWARD) - config.iteration(),
            // One cycle of SCHEDULE reads the head of the list. The remaining cycles and MAKE_GRANT are the `switch_ahead` of a grant.
            to_scheduler: link + steps.cycles(steps::CLASSIFY + 1),
            grant_to_send: link + steps.grant_to_data() - host_ahead,
            request_to_send: link + steps.request_to_data() - host_ahead,
            to_forward: link + steps.cycles(steps::CLASSIFY),
            to_receiver: link + steps.cycles(steps::RECEIVE_DATA),
        }
    }
}

// A grant and a forwarded block reach the switch's link after the same number of cycles.
const _: () = assert!(steps::SCHEDULE - 1 + steps::MAKE_GRANT == steps::FORWARD);
