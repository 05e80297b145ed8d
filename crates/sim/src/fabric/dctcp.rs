//! `dctcp`: windows cut in proportion to marks (Alizadeh et al., SIGCOMM 2010; RFC 8257).

use super::Fabric;
use super::stream::{self, Plan, Streams};
use crate::engine::{Core, Observer};
use crate::error::SetupError;
use crate::network::Network;
use unrack_protocol::dctcp::{Control, Params};
use unrack_protocol::tcp::Framing;
use unrack_units::{Bytes, Time};
use unrack_workload::{Message, MessageId};

pub use super::stream::Event;

/// What DCTCP asks of the network besides its topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet {
    /// Largest packet, IP header included.
    pub mtu: Bytes,
    /// Of each switch port. What does not fit is dropped.
    pub buffer: Bytes,
    /// The switch passes a packet on while it comes in; else when it has come in.
    pub cut_through: bool,
}

/// DCTCP.
pub struct Dctcp {
    streams: Streams<Control>,
}

impl Dctcp {
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Dctcp, SetupError> {
        let plan = plan(network, ethernet, params)?;
        let round_trip = plan.round_trip();
        let threshold = |rate| params.threshold(rate, round_trip, plan.full_packet());
        let (control, timeouts) = (Control::new(params), params.timeouts(round_trip));
        Ok(Dctcp { streams: Streams::new(&plan, control, timeouts, threshold) })
    }
}

fn plan(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Plan, SetupError> {
    let Ethernet { mtu, buffer, cut_through } = *ethernet;
    let framing = Framing::ethernet(mtu)
        .filter(|_| mtu <= MAX_MTU)
        .ok_or_else(|| SetupError::new("mtu", "is from 53B (one byte beside the headers) to 64KiB", mtu))?;
    if params.initial_window == 0 {
        return Err(SetupError::new("fabric.initial_window", "is at least 1", 0));
    }
    if params.min_rto == Time::ZERO {
        return Err(SetupError::new("fabric.min_rto", "is above 0", params.min_rto));
    }
    let (network, initial_window) = (network.clone(), params.initial_window);
    let plan = Plan { network, framing, buffer, cut_through, initial_window };
    let (host, core) = (plan.network.topology.host_link().pace, plan.network.topology.core_link().pace);
    if core.rate() < host.rate() {
        return Err(SetupError::new("network.core_link.rate", "is at least network.link.rate", core.rate()));
    }
    if buffer < plan.full_packet() {
        return Err(SetupError::new("switch.buffer", "holds at least one full packet", buffer));
    }
    Ok(plan)
}

/// IPv4's length field ends here.
const MAX_MTU: Bytes = Bytes::new(65_536);

impl Fabric for Dctcp {
    type Event = stream::Event;

    fn name(&self) -> &'static str {
        "dctcp"
    }
    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        self.streams.submit(core, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        self.streams.handle(core, event);
    }
    fn unloaded(&self, message: &Message) -> Time {
        self.streams.unloaded(message)
    }
}
