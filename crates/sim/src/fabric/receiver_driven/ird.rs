//! `ird`: credits for transfers that receivers know of at once, to senders of which they know how busy they are.

use super::{Announced, ReceiverDriven, ReceiverPolicy, ends};
use crate::fabric::stream::{Ethernet, StreamPlan};
use crate::memory::Cost;
use crate::registry::{NoParams, Registered, Site};
use unrack_engine::error::SetupError;
use unrack_engine::network::Network;
use unrack_protocol::ird;
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;

/// Idealized receiver-driven transport of EDM §4.3.
pub type Ird = ReceiverDriven<IrdPolicy>;
/// Policy of the idealized transport.
pub struct IrdPolicy {
    senders: ird::Senders,
}

impl ReceiverPolicy for IrdPolicy {
    type Scheduler = ird::Credits;
    /// Always false: receivers know at once what senders have.
    const SPLITS: bool = false;
    fn unasked_rank(&self, _receiver: &ird::Credits, _segments: u32) -> u8 {
        unreachable!("all of it is granted")
    }
    fn senders(&mut self) -> Option<&mut ird::Senders> {
        Some(&mut self.senders)
    }
}

/// Least timeout of `ird`. No packet is lost where credits come at the rate of the link; where the core is narrower,
/// some may be.
const IRD_TIMEOUT: Time = Time::from_us(1_000);

impl Ird {
    /// Creates the idealized transport on a network.
    ///
    /// # Errors
    /// If a parameter of the network is out of range.
    pub fn with(network: &Network, ethernet: &Ethernet) -> Result<Ird, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let timeout = IRD_TIMEOUT.max(plan.patience());
        let (how, nodes) = ((Announced::AtOnce, 0), network.nodes());
        let flight = plan.alone(0, nodes - 1).packet(plan.framing.wire(0).get());
        let policy = IrdPolicy { senders: ird::Senders::new(nodes, flight) };
        let mut ends = ends(policy, nodes, how, (None, timeout), ird::Credits::default);
        ends.most_outstanding = most_outstanding(&plan);
        ReceiverDriven::new(plan, ends)
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
        port: 400.0,
        open: 460.0,
        segment: 3.0 * Cost::BIT,
        overhead: 2.0 * Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = NoParams;

    fn build(site: &Site, _params: &NoParams) -> Result<Ird, SetupError> {
        Ird::with(site.network, site.ethernet)
    }
}

/// Returns the time on a receiver's link of what a receiver of `ird` has outstanding at most: what its port's buffer
/// holds beside one packet, or a round trip if that is more.
fn most_outstanding(plan: &StreamPlan) -> Time {
    let room = plan.buffer.of_port().get().saturating_sub(plan.full_packet().get());
    let pace = plan.network.topology.host_link().pace;
    let empties = if room < MOST_ROOM { pace.transmit(room) } else { Time::MAX };
    plan.round_trip().max(empties)
}

/// Buffer in bytes from which on a port counts as unlimited.
const MOST_ROOM: u64 = 1 << 32;
