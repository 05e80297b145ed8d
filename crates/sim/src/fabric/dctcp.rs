//! `dctcp`: windows cut in proportion to marks (Alizadeh et al., SIGCOMM 2010; RFC 8257).

use super::stream::single::Single;
use super::stream::{self, Ethernet, Plan, Streams};
use crate::memory::Cost;
use crate::observe::wire::Wire;
use crate::registry::{Parts, Registered, Site};
use crate::setup::Finished;
use unrack_engine::Fabric;
use unrack_engine::HostCounts;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Observer};
use unrack_engine::network::Network;
use unrack_protocol::dctcp::{Control, Params};
use unrack_protocol::tcp::Connections;
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Computing, Message, MessageId};

pub use super::stream::Event;

/// DCTCP on a network.
pub struct Dctcp {
    streams: Streams<Single<Control>>,
}

impl Dctcp {
    /// Creates DCTCP endpoints on a network.
    ///
    /// # Errors
    /// If a parameter does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Dctcp, SetupError> {
        let plan = Plan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let plan = Plan { kept: params.connections == Connections::Kept, ..plan };
        let round_trip = plan.round_trip();
        let threshold = |rate| params.threshold(rate, round_trip, plan.full_packet());
        let kind = Single { fresh: Control::new(params), timeouts: params.timeouts(round_trip) };
        Ok(Dctcp { streams: Streams::new(&plan, kind, threshold) })
    }
}

impl Registered for Dctcp {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "dctcp",
        about: "windows cut in proportion to the marks of switches",
        networks: Networks::Any,
        several_links: true,
        hosts: true,
        splits: true,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 80.0, open: 550.0, overhead: Cost::ETHERNET, ..Cost::NONE };
    const WIRE: Wire = Wire::Tcp { ecn: true };
    type Params = Params;

    fn build(site: &Site, params: &Params) -> Result<Dctcp, SetupError> {
        Dctcp::new(site.network, site.ethernet, params)
    }

    fn split(parts: Parts, params: &Params) -> Result<Finished, SetupError> {
        parts.run::<Dctcp>(params)
    }
}

impl Fabric for Dctcp {
    type Event = stream::Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        self.streams.submit(core, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        self.streams.handle(core, event);
    }
    fn compute<O: Observer>(&mut self, core: &mut Core<stream::Event, O>, computing: Computing) {
        self.streams.compute(core, computing);
    }
    fn unloaded(&self, message: &Message) -> Time {
        self.streams.unloaded(message)
    }
    fn hosts(&self) -> Option<HostCounts> {
        self.streams.host_counts()
    }
    fn lookahead(&self) -> Time {
        self.streams.lookahead()
    }
}

super::split_by_switch!(Dctcp, streams, stream::Event, stream::Parcel);
