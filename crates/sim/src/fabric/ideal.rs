//! `ideal`: what no fabric on the same links can beat, for any message.
//!
//! Every message is alone ([`Network::ideal`]): its bits are sent at the slowest link's rate, cross the
//! links each way, and wait for nothing. No queue, no header, no switch, no host. A bound of each message's
//! completion in open loop, and so of a program's run time in closed loop.

use super::Fabric;
use crate::engine::{Core, Observer};
use crate::network::Network;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// The lower bound on a network.
pub struct Ideal {
    network: Network,
}

impl Ideal {
    pub fn new(network: &Network) -> Ideal {
        Ideal { network: network.clone() }
    }
}

impl Fabric for Ideal {
    /// The message is complete.
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
