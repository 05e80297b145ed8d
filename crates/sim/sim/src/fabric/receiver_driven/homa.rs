//! `homa`: a receiver grants to several senders at once, with a separate priority for each.

use super::{AnnouncementTime, ReceiverDriven, ReceiverPolicy, at_least_a_round_trip, ends};
use crate::contract::{AssumedBuffer, Registered};
use crate::cost::{Cost, PACKET};
use crate::fabric::stream::StreamPlan;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::network::Network;
use unrack_protocol::homa;
use unrack_protocol::receiver_driven::{Grants, LocalScheduler, TransferId};
use unrack_rack::{Profile, Protocol};
use unrack_units::{Bytes, Time};

/// Homa (Montazeri et al., SIGCOMM 2018).
pub type Homa = ReceiverDriven<HomaPolicy>;
/// Policy of Homa.
pub struct HomaPolicy;

impl ReceiverPolicy for HomaPolicy {
    type Scheduler = homa::Overcommitment;
    /// Always false, because senders learn in zero time which ranks their receivers have chosen.
    const SPLITS: bool = false;
    fn update(&mut self, receiver: &mut homa::Overcommitment, transfer: TransferId, grants: &mut Grants) {
        receiver.update(transfer, grants);
    }
    fn choose(
        &mut self,
        receiver: &mut homa::Overcommitment,
        now: Time,
        outstanding: impl Fn(TransferId) -> u32,
    ) -> Option<(TransferId, u8)> {
        receiver.poll(now, outstanding)
    }
    #[cfg(test)]
    fn is_idle(&self, receiver: &homa::Overcommitment) -> bool {
        receiver.poll(Time::MAX, |_| 0).is_none()
    }
    fn unasked_rank(&self, receiver: &homa::Overcommitment, segments: u32) -> u8 {
        receiver.unasked_rank(segments)
    }
    fn count(&self, receiver: &mut homa::Overcommitment, segments: u32) {
        receiver.count(segments);
    }
}

impl Homa {
    /// Creates Homa on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn with(network: &Network, ethernet: &Ethernet, params: &homa::Params) -> Result<Homa, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let window = plan.line_rate_window("fabric.unscheduled", params.unscheduled)?;
        let waiting = plan.window_of_every_node(window, plan.full_packet());
        let usual = plan.three_trips_or(waiting.saturating_mul(homa::RANKS.into()));
        let timeout = at_least_a_round_trip("fabric.resend", params.resend.unwrap_or(usual), &plan)?;
        let (how, nodes) = ((AnnouncementTime::ByData, window), network.nodes());
        let ends = ends(HomaPolicy, nodes, how, (None, timeout), || homa::Overcommitment::new(window));
        ReceiverDriven::new(plan, ends)
    }
}

impl Registered for Homa {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "homa",
        about: "receivers grant to several senders at once, each at a different priority",
        splits: HomaPolicy::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 550.0,
        port: 315.0,
        open: 520.0,
        segment: 3.0 * Cost::BIT,
        packet: 0.5 * PACKET,
        overhead: Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = homa::Params;

    fn build(site: &FabricSite, params: &homa::Params) -> Result<Homa, SetupError> {
        let ReceiverDriven { network } = Homa::with(site.network, site.ethernet, params)?;
        Ok(ReceiverDriven { network: network.seeded(site.seed) })
    }

    /// Returns the bytes of one window for each priority: a receiver grants that many windows at once (§3.5), less the priorities that
    /// unscheduled packets use.
    fn assumed_buffer(site: &FabricSite, params: &homa::Params) -> Option<AssumedBuffer> {
        let plan = StreamPlan::at_line_rate(site.network, site.ethernet).ok()?;
        let window = plan.line_rate_window("fabric.unscheduled", params.unscheduled).ok()?;
        let bytes = plan.full_packet().get() * u64::from(window) * u64::from(homa::RANKS);
        let holds = "RTTbytes for each of seven priorities, Homa §3.5";
        Some(AssumedBuffer { bytes: Bytes::new(bytes), holds, is_default: false })
    }
}
