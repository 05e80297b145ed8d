//! `ideal`: a lower bound of the completion time of any message, on any fabric with the same links.
//!
//! Every message is alone ([`Network::ideal`]): its bits are sent at the rate of the slowest link, cross the links in each direction, and
//! never wait. There is no queue, header, switch or host. The result bounds the completion time of each message in open loop, and therefore
//! the run time of a program in closed loop.

use crate::contract::{NoParams, Registered};
use crate::cost::Cost;
use crate::site::FabricSite;
use unrack_engine::Fabric;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Observer};
use unrack_engine::network::Network;
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Fabric that completes each message at its lower bound on a network.
pub struct Ideal {
    network: Network,
}

impl Ideal {
    /// Creates the bound for a network.
    pub fn new(network: &Network) -> Ideal {
        Ideal { network: network.clone() }
    }
}

impl Registered for Ideal {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "ideal",
        about: "lower bound that no fabric on the same links can beat: each message is alone, and only its bits take time",
        networks: Networks::Any,
        several_links: true,
        no_shared_buffer: Some("`ideal` is a bound without switches"),
        no_faults: Some("`ideal` is a bound without links"),
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 10.0, open: 10.0, ..Cost::NONE };
    type Params = NoParams;

    fn build(site: &FabricSite, _params: &NoParams) -> Result<Ideal, SetupError> {
        Ok(Ideal::new(site.network))
    }
}

impl Fabric for Ideal {
    /// Completion of a message.
    type Event = MessageId;

    fn submit<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        let message = *core.message(id);
        core.sent(message.payload());
        let links = self.network.links(message.src, message.dst).count() as u64;
        core.hops(if message.kind.is_answered() { 2 * links } else { links });
        core.schedule(core.now() + self.network.ideal(&message), id);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        core.arrived(core.message(id).payload());
        core.complete(id);
    }

    fn unloaded(&self, message: &Message) -> Time {
        self.network.ideal(message)
    }
}
