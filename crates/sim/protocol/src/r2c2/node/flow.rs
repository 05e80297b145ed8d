//! A flow at its source.

use super::RackSetup;
use crate::r2c2::Routing;
use crate::r2c2::bucket::TokenBucket;
use crate::r2c2::demand::Demand;
use crate::r2c2::host::ProgramBytes;
use crate::r2c2::packet::Broadcast;
use crate::r2c2::terms::Terms;
use crate::r2c2::transfer::{RetransmissionTimer, Sender};
use unrack_units::Time;

/// State of a flow that a node sends.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Last announcement of the flow to other nodes.
    pub told: Broadcast,
    /// Routing that was requested for the flow. The routing in `told` differs if the links that are up do not allow the requested one.
    pub(super) routing: Routing,
    pub bytes: u64,
    pub transfer: Sender,
    pub(super) bucket: TokenBucket,
    /// Number of the timer that sends the flow's next packet, or 0 if no such timer is set.
    pub(super) turn: u32,
    /// Number of the timer that ends the wait for an acknowledgement, or 0 if no such timer is set.
    pub(super) alarm: u32,
    pub(super) patience: RetransmissionTimer,
    /// Number of timeouts in a row without a new acknowledgement.
    pub(super) silence: u32,
    pub(super) host: ProgramBytes,
    pub(super) demand: Demand,
    /// Bytes of the flow sent since the node last computed rates.
    pub(super) sent: u64,
    /// Rate in Kb/s that the controller has assigned to the flow, or `None` if it has assigned none.
    pub(super) given_kbps: Option<u32>,
}

impl Flow {
    /// Creates a flow of `bytes` bytes that starts to send at `first_kbps` Kb/s.
    pub(super) fn new(
        setup: &RackSetup,
        now: Time,
        (told, terms): (Broadcast, Terms),
        bytes: u64,
        first_kbps: u32,
    ) -> Flow {
        let params = &setup.params;
        Flow {
            told,
            routing: terms.routing,
            bytes,
            transfer: Sender::new(setup.segments(bytes)).within(setup.limits.window),
            bucket: TokenBucket::new(first_kbps, setup.depth(first_kbps)),
            turn: 0,
            alarm: 0,
            patience: RetransmissionTimer::new(
                params.timeout,
                u32::from(told.src) << 16 | u32::from(told.flow),
            ),
            silence: 0,
            host: ProgramBytes::new(terms.demand, now),
            demand: Demand::new(params.demand_gain.get()),
            sent: 0,
            given_kbps: None,
        }
    }
}
