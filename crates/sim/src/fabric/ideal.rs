//! `ideal`: what no fabric on the same links can beat, for any message.
//!
//! Every message is alone ([`Star::ideal`]): its bits are sent at the link's rate, cross two links
//! each way, and wait for nothing. No queue, no header, no switch, no host. A bound of each message's
//! completion in open loop, and so of a program's run time in closed loop.

use super::Fabric;
use crate::engine::{Core, Observer};
use crate::network::Star;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// The lower bound on a star.
pub struct Ideal {
    star: Star,
}

impl Ideal {
    pub fn new(star: &Star) -> Ideal {
        Ideal { star: *star }
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
        core.hops(if message.kind.is_answered() { 4 } else { 2 });
        core.schedule(core.now() + self.star.ideal(&message), id);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<MessageId, O>, id: MessageId) {
        core.arrived(core.message(id).payload());
        core.complete(id);
    }

    fn unloaded(&self, message: &Message) -> Time {
        self.star.ideal(message)
    }
}
