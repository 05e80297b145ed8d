//! `tcp`: windows cut by loss (NewReno: RFC 5681, RFC 6582; CUBIC: RFC 9438), with selective acknowledgements (RFC
//! 6675). Switches drop packets that do not fit, and mark none.

use super::Fabric;
use super::stream::single::Single;
use super::stream::{self, Ethernet, NEVER_MARKED, Plan, Streams};
use crate::engine::{Core, Observer};
use crate::error::SetupError;
use crate::host::Counts;
use crate::network::Network;
use unrack_protocol::tcp::{Connections, LossBased, Params};
use unrack_units::Time;
use unrack_workload::{Computing, Message, MessageId};

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
        let plan = Plan::new(network, ethernet, params.initial_window, params.min_rto)?;
        let kept = params.connections == Connections::Kept;
        let plan = Plan { spraying: params.spraying, kept, ..plan };
        let kind = Single { fresh: LossBased::new(params), timeouts: params.timeouts(plan.round_trip()) };
        Ok(Tcp { streams: Streams::new(&plan, kind, |_| NEVER_MARKED) })
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> &Streams<Single<LossBased>> {
        &self.streams
    }
}

impl Fabric for Tcp {
    type Event = stream::Event;

    fn name(&self) -> &'static str {
        "tcp"
    }
    fn submit<O: Observer>(&mut self, core: &mut Core<stream::Event, O>, id: MessageId) {
        self.streams.submit(core, id);
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<stream::Event, O>, event: stream::Event) {
        self.streams.handle(core, event);
    }
    fn compute<O: Observer>(&mut self, core: &mut Core<stream::Event, O>, computing: Computing) {
        self.streams.compute(core, computing);
    }
    fn unloaded(&self, message: &Message) -> Time {
        self.streams.unloaded(message)
    }
    fn hosts(&self) -> Option<Counts> {
        self.streams.host_counts()
    }
    fn lookahead(&self) -> Time {
        self.streams.lookahead()
    }
}

super::split_by_switch!(Tcp, streams, stream::Event, stream::Parcel);
