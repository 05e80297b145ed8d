//! `tcp`: senders cut their windows after losses (NewReno: RFC 5681, RFC 6582; CUBIC: RFC 9438), with selective acknowledgements (RFC
//! 6675). Switches drop packets that do not fit, and never mark packets.

use super::stream::single::Single;
use super::stream::{NEVER_MARKED, StreamPlan, Streams};
use crate::contract::{Registered, SplitRun};
use crate::cost::{Cost, PACKET};
use crate::job::Finished;
use crate::observe::wire::WireFormat;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::network::Network;
use unrack_protocol::tcp::{ConnectionLifetime, LossBased, Params};
use unrack_rack::{Networks, Profile, Protocol};

/// TCP on a network.
pub struct Tcp {
    streams: Streams<Single<LossBased>>,
}

impl Tcp {
    /// Creates TCP endpoints on a network.
    ///
    /// # Errors
    /// If a parameter does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Tcp, SetupError> {
        let plan = StreamPlan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let kept = params.connections == ConnectionLifetime::Kept;
        let plan = StreamPlan { spraying: params.spraying, kept, ..plan };
        let kind = Single { fresh: LossBased::new(params), timeouts: params.timeouts(plan.round_trip()) };
        Ok(Tcp { streams: Streams::new(&plan, kind, |_| NEVER_MARKED) })
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> &Streams<Single<LossBased>> {
        &self.streams
    }
}

impl Registered for Tcp {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "tcp",
        about: "windows cut by loss",
        networks: Networks::Any,
        several_links: true,
        hosts: true,
        splits: true,
        ..Profile::SWITCHED
    });
    const COST: Cost =
        Cost { node: 175.0, port: 65.0, open: 330.0, packet: PACKET, overhead: Cost::ETHERNET, ..Cost::NONE };
    const WIRE: WireFormat = WireFormat::Tcp { ecn: false };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Tcp, SetupError> {
        let Tcp { streams } = Tcp::new(site.network, site.ethernet, params)?;
        Ok(Tcp { streams: streams.seeded(site.seed) })
    }

    fn split(parts: SplitRun, params: &Params) -> Result<Finished, SetupError> {
        parts.run::<Tcp>(params)
    }
}

super::stream::single::fabric_of_streams!(Tcp);
