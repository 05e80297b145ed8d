//! `ideal`: a lower bound of the completion time of any message, on any fabric with the same links.
//!
//! Every message is alone ([`Network::ideal`]): its bits are sent at the slowest link's rate, cross the links each
//! way, and wait for nothing. There is no queue, header, switch or host. It bounds each message's completion in open
//! loop, and so a program's run time in closed loop.

use super::Fabric;
use crate::engine::{Core, Observer};
use crate::network::Network;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Lower bound on a network.
pub struct Ideal {
    network: Network,
}

impl Ideal {
    /// Creates the bound for a network.
    pub fn new(network: &Network) -> Ideal {
        Ideal { network: network.clone() }
    }
}

impl Fabric for Ideal {
    /// Completion of a message.
    type Event = MessageId;

    fn name(&self) -> &'static str {
        "ideal"
    }

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
