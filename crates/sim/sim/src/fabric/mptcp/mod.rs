//! `mptcp`: Multipath TCP (RFC 8684), with one subflow for each NIC of a pool (DRack §4.3).
//!
//! Each message has a connection, either a separate or a kept one, which is open with all its subflows when the message starts. A read has
//! one connection for its request and then one for its answer, as in [`super::stream`]. Between racks that pool their NICs, subflow k
//! leaves by the k-th NIC, counted from a NIC that the connection's hash selects. Otherwise, subflows differ only in their hashes. Switches
//! drop packets that do not fit.

mod multipath;
mod unloaded;

use self::multipath::Multipath;
use self::unloaded::Patterns;
use super::stream::{NEVER_MARKED, StreamPlan, Streams};
use crate::contract::Registered;
use crate::cost::Cost;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Observer};
use unrack_engine::network::Network;
use unrack_engine::{Fabric, HostCounts, Largest};
use unrack_protocol::mptcp::{Params, Subflows};
use unrack_protocol::tcp::{ConnectionLifetime, SubflowSet};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Computing, Message, MessageId, NodeId};

pub use super::stream::Event;

/// Multipath TCP on a network.
pub struct Mptcp {
    streams: Streams<Multipath>,
    /// Completion times of messages that are alone, as far as they are known.
    patterns: Patterns,
}

impl Mptcp {
    /// Creates Multipath TCP on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Mptcp, SetupError> {
        let plan = StreamPlan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let plan = StreamPlan { kept: params.connections == ConnectionLifetime::Kept, ..plan };
        let timeouts = params.timeouts(plan.round_trip());
        let kind = Multipath { params: params.clone(), timeouts, subflows: subflows(network, params)? };
        let streams = Streams::new(&plan, kind, |_| NEVER_MARKED);
        Ok(Mptcp { streams, patterns: Patterns::default() })
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> &Streams<Multipath> {
        &self.streams
    }
}

/// Returns the number of subflows of a connection between racks.
fn subflows(network: &Network, params: &Params) -> Result<u32, SetupError> {
    let pooled = network.topology.pooled();
    let subflows = params.subflows.unwrap_or(pooled.min(Subflows::MOST));
    let most = if pooled > 1 { pooled.min(Subflows::MOST) } else { Subflows::MOST };
    if !(1..=most).contains(&subflows) {
        let rule = "is from 1 to the virtual NICs of a host (64 at most)";
        let given = format!("{subflows}, with {pooled} NICs to a rack");
        return Err(SetupError::new("fabric.subflows", rule, given));
    }
    Ok(subflows)
}

impl Registered for Mptcp {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "mptcp",
        about: "subflows over each NIC of a pool",
        several_links: true,
        hosts: true,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 150.0, open: 950.0, overhead: Cost::ETHERNET, ..Cost::NONE };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Mptcp, SetupError> {
        let fabric = Mptcp::new(site.network, site.ethernet, params)?;
        Ok(Mptcp { streams: fabric.streams.seeded(site.seed), ..fabric })
    }
}

impl Fabric for Mptcp {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        self.streams.submit(core, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        self.streams.handle(core, event);
    }
    fn compute<O: Observer>(&mut self, core: &mut Core<Event, O>, computing: Computing) {
        self.streams.compute(core, computing);
    }
    fn pause<O: Observer>(&mut self, core: &mut Core<Event, O>, node: NodeId, is_paused: bool) {
        self.streams.pause(core, node, is_paused);
    }
    fn largest(&self) -> Option<Largest> {
        Some(self.streams.largest())
    }
    fn hosts(&self) -> Option<HostCounts> {
        self.streams.host_counts()
    }

    // Departure from the contract: the message is simulated ([`alone`]).
    fn unloaded(&self, message: &Message) -> Time {
        // The time depends on earlier messages, so a bound that holds for all of them is returned.
        match self.streams.plan.kept {
            true => self.streams.plan.network.ideal(message),
            false => self.carried_alone(message),
        }
    }
}
