//! `ird`: receivers learn of transfers in zero time, and give credits to senders whose load they know.

use super::{AnnouncementTime, Receiver, ReceiverDriven, ReceiverPolicy, ends};
use crate::contract::{NoParams, Registered};
use crate::cost::{Cost, PACKET};
use crate::fabric::stream::StreamPlan;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::network::Network;
use unrack_protocol::ird;
use unrack_protocol::receiver_driven::{Grants, TransferId};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::NodeId;

/// Idealized receiver-driven transport of EDM §4.3.
pub type Ird = ReceiverDriven<IrdPolicy>;
/// Policy of the idealized transport.
pub struct IrdPolicy {
    view: ird::GlobalView,
}

impl ReceiverPolicy for IrdPolicy {
    type Scheduler = ird::ReceiverCredits;
    /// Always false, because receivers learn in zero time which credits the senders have.
    const SPLITS: bool = false;
    fn unasked_rank(&self, _receiver: &ird::ReceiverCredits, _segments: u32) -> u8 {
        unreachable!("all of it is granted")
    }
    fn view(&mut self) -> Option<&mut ird::GlobalView> {
        Some(&mut self.view)
    }
    fn update(&mut self, receiver: &mut ird::ReceiverCredits, transfer: TransferId, grants: &mut Grants) {
        self.view.update(receiver, transfer, grants);
    }
    fn choose(
        &mut self,
        receiver: &mut ird::ReceiverCredits,
        now: Time,
        _outstanding: impl Fn(TransferId) -> u32,
    ) -> Option<(TransferId, u8)> {
        self.view.choose(receiver, now).map(|transfer| (transfer, RANK))
    }
    fn next_waiting(
        &mut self,
        receivers: &mut [Receiver<ird::ReceiverCredits>],
        sender: NodeId,
    ) -> Option<NodeId> {
        while let Some((wish, receiver)) = self.view.take_waiting(sender) {
            if receivers[receiver as usize].scheduler.reopen(sender, wish) {
                return Some(receiver);
            }
        }
        None
    }
    #[cfg(test)]
    fn is_idle(&self, receiver: &ird::ReceiverCredits) -> bool {
        receiver.is_idle() && self.view.is_idle()
    }
}

/// Minimum timeout of `ird` if buffers are unlimited, because the credits that a receiver has outstanding are then unlimited too. No packet
/// is lost if credits are issued at the rate of the links, but packets may be lost if the core is narrower.
const UNBOUNDED: Time = Time::from_us(1_000);

impl Ird {
    /// Creates the idealized transport on a network.
    ///
    /// # Errors
    /// If a parameter of the network is out of range.
    pub fn with(network: &Network, ethernet: &Ethernet) -> Result<Ird, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let (how, nodes, limits) = ((AnnouncementTime::AtOnce, 0), network.nodes(), limits(&plan));
        let is_bounded = limits.at_receiver < Time::MAX;
        let timeout = plan.patience().max(if is_bounded { Time::ZERO } else { UNBOUNDED });
        let policy = IrdPolicy { view: ird::GlobalView::new(nodes, limits) };
        ReceiverDriven::new(plan, ends(policy, nodes, how, (None, timeout), ird::ReceiverCredits::default))
    }
}

impl Registered for Ird {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "ird",
        about: "idealized receiver-driven transport: receivers learn of everything at once (EDM §4.3)",
        splits: IrdPolicy::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 1270.0,
        port: 340.0,
        open: 980.0,
        segment: 3.0 * Cost::BIT,
        packet: 0.7 * PACKET,
        overhead: 2.0 * Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = NoParams;

    fn build(site: &FabricSite, _params: &NoParams) -> Result<Ird, SetupError> {
        let ReceiverDriven { network } = Ird::with(site.network, site.ethernet)?;
        Ok(ReceiverDriven { network: network.seeded(site.seed) })
    }
}

/// Rank of all segments.
const RANK: u8 = 1;

/// Returns the limits of credits on a network.
fn limits(plan: &StreamPlan) -> ird::Limits {
    let pace = plan.network.topology.host_link().pace;
    let flight = plan.alone(0, plan.network.nodes() - 1).packet(plan.framing.wire(0).get());
    // One more credit may wait in addition to these.
    let at_sender = flight + pace.transmit(plan.full_packet().get()) * (ird::MOST_CREDITS - 1);
    let room = plan.buffer.of_port().get().saturating_sub(plan.full_packet().get()) / 2;
    let empties = if room < MOST_ROOM { pace.transmit(room) } else { Time::MAX };
    ird::Limits { at_sender, at_receiver: plan.round_trip().max(empties) }
}

/// Room of a port, in bytes, from which on the port counts as unlimited.
const MOST_ROOM: u64 = 1 << 31;
