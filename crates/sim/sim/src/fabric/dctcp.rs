//! `dctcp`: senders cut their windows in proportion to marked packets (Alizadeh et al., SIGCOMM 2010; RFC 8257).

use super::stream::single::Single;
use super::stream::{StreamPlan, Streams};
use crate::acted::unless_acted;
use crate::contract::{Registered, SplitRun};
use crate::cost::{Cost, PACKET};
use crate::job::Finished;
use crate::observe::wire::WireFormat;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::events::Mechanism;
use unrack_engine::network::Network;
use unrack_engine::run::Run;
use unrack_protocol::dctcp::{Params, WindowControl};
use unrack_protocol::tcp::ConnectionLifetime;
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::Warning;

/// DCTCP on a network.
pub struct Dctcp {
    streams: Streams<Single<WindowControl>>,
}

impl Dctcp {
    /// Creates DCTCP endpoints on a network.
    ///
    /// # Errors
    /// If a parameter does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Dctcp, SetupError> {
        let plan = StreamPlan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let plan = StreamPlan { kept: params.connections == ConnectionLifetime::Kept, ..plan };
        let round_trip = plan.round_trip();
        let threshold = |rate| params.threshold(rate, round_trip, plan.full_packet());
        let kind = Single { fresh: WindowControl::new(params), timeouts: params.timeouts(round_trip) };
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
    const COST: Cost =
        Cost { node: 175.0, port: 65.0, open: 330.0, packet: PACKET, overhead: Cost::ETHERNET, ..Cost::NONE };
    const WIRE: WireFormat = WireFormat::Tcp { ecn: true };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Dctcp, SetupError> {
        let Dctcp { streams } = Dctcp::new(site.network, site.ethernet, params)?;
        Ok(Dctcp { streams: streams.seeded(site.seed) })
    }

    fn split(parts: SplitRun, params: &Params) -> Result<Finished, SetupError> {
        parts.run::<Dctcp>(params)
    }

    fn never_acted(_params: &Params, run: &Run) -> Vec<Warning> {
        let text =
            "dctcp ran as tcp: nothing was marked, because no queue was longer than `fabric.mark_threshold`";
        unless_acted(run, Mechanism::Mark, "marks", text)
    }
}

super::stream::single::fabric_of_streams!(Dctcp);
