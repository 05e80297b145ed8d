//! Times between the events of a message: sums of steps.

use super::EdmConfig;
use unrack_protocol::edm::steps;
use unrack_units::Time;

/// Sums of steps between events.
///
/// Every block that a node puts on its link is booked `host_ahead` of its time, and every block that the switch puts
/// on a link `switch_ahead`: so bookings come in order without an event of their own.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    /// Propagation of a link.
    pub propagation: Time,
    /// Time over a link, from PCS to PCS.
    pub link: Time,
    pub host_ahead: Time,
    pub switch_ahead: Time,
    /// Time from the scheduler's grant to the switch's link, if it comes from the first iteration.
    pub granted: Time,
    /// Time from a notification's or request's start on the wire to the head of the scheduler's list.
    pub to_scheduler: Time,
    /// Time from a grant's start on the wire to the event that sends the chunk.
    pub grant_to_send: Time,
    /// Time from a request's start on the wire to that event.
    pub request_to_send: Time,
    /// Time from a chunk's start on the sender's link to the event that forwards it.
    pub to_forward: Time,
    /// Time from a chunk's start on the receiver's link to the receiver.
    pub to_receiver: Time,
}

impl Latency {
    /// Sums up the steps of this configuration.
    pub(super) fn new(config: &EdmConfig, propagation: Time) -> Latency {
        let steps = &config.steps();
        let link = steps.link(propagation);
        let host_ahead = steps.cycles(steps::MAKE_NOTIFICATION);
        Latency {
            propagation,
            link,
            host_ahead,
            switch_ahead: steps.cycles(steps::FORWARD),
            granted: steps.cycles(steps::FORWARD) - config.iteration(),
            // One cycle of SCHEDULE reaches the head of the list; the rest, and MAKE_GRANT, are
            // the `switch_ahead` of a grant.
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
