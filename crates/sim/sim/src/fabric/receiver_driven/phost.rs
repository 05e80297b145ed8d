//! `phost`: receivers grant tokens for the transfers that senders have announced; short transfers need no tokens.

use super::{AnnouncementTime, ReceiverDriven, ReceiverPolicy, TransferEnds, at_least_a_round_trip, ends};
use crate::contract::{Registered, SplitRun};
use crate::cost::{Cost, PACKET};
use crate::fabric::stream::StreamPlan;
use crate::job::Finished;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::network::Network;
use unrack_protocol::phost;
use unrack_protocol::receiver_driven::{Expiry, Grants, LocalScheduler, TransferId};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;

/// pHost (Gao et al., CoNEXT 2015).
pub type Phost = ReceiverDriven<PhostPolicy>;
/// Policy of pHost.
pub struct PhostPolicy {
    free_tokens: u32,
}

impl ReceiverPolicy for PhostPolicy {
    type Scheduler = phost::Tokens;
    const SPLITS: bool = true;
    const STEADY: u32 = phost::STEADY;
    fn update(&mut self, receiver: &mut phost::Tokens, transfer: TransferId, grants: &mut Grants) {
        receiver.update(transfer, grants);
    }
    fn choose(
        &mut self,
        receiver: &mut phost::Tokens,
        now: Time,
        outstanding: impl Fn(TransferId) -> u32,
    ) -> Option<(TransferId, u8)> {
        receiver.poll(now, outstanding)
    }
    #[cfg(test)]
    fn is_idle(&self, receiver: &phost::Tokens) -> bool {
        receiver.poll(Time::MAX, |_| 0).is_none()
    }
    fn unasked_rank(&self, _receiver: &phost::Tokens, segments: u32) -> u8 {
        phost::free_rank(segments, self.free_tokens)
    }
}

impl Phost {
    /// Creates pHost on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn with(network: &Network, ethernet: &Ethernet, params: &phost::Params) -> Result<Phost, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let free_tokens = plan.line_rate_window("fabric.free_tokens", params.free_tokens)?;
        let packet = network.topology.host_link().pace.transmit(plan.full_packet().get());
        let after = params.token_expiry.unwrap_or(Time::from_ps(packet.as_ps() * 3 / 2));
        let expiry = Expiry { after, pace: packet };
        let asked = params.timeout.unwrap_or(plan.round_trip() * 3);
        let timeout = at_least_a_round_trip("fabric.timeout", asked, &plan)?;
        let patience = params.timeout.unwrap_or(plan.patience());
        let how = (AnnouncementTime::ByPacket, free_tokens);
        let (nodes, policy) = (network.nodes(), PhostPolicy { free_tokens });
        let scheduler = || phost::Tokens::new(free_tokens);
        let ends = ends(policy, nodes, how, (Some(expiry), timeout), scheduler);
        let idles_after = params.timeout.is_none().then(|| plan.round_trip());
        ReceiverDriven::new(plan, TransferEnds { patience, idles_after, ..ends })
    }
}

impl Registered for Phost {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "phost",
        about: "receivers grant tokens for what senders send; short transfers need none",
        splits: PhostPolicy::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 230.0,
        port: 325.0,
        open: 600.0,
        segment: 3.0 * Cost::BIT,
        packet: 0.6 * PACKET,
        overhead: 2.0 * Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = phost::Params;

    fn build(site: &FabricSite, params: &phost::Params) -> Result<Phost, SetupError> {
        let ReceiverDriven { network } = Phost::with(site.network, site.ethernet, params)?;
        Ok(ReceiverDriven { network: network.seeded(site.seed) })
    }

    fn split(parts: SplitRun, params: &phost::Params) -> Result<Finished, SetupError> {
        parts.run::<Phost>(params)
    }
}
