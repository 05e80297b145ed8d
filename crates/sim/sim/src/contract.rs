//! The contract of a fabric that scenarios can name: its profile, its memory cost, its parameters, and its
//! construction.

use crate::cost::Cost;
use crate::job::{Finished, RunJob};
use crate::observe::wire::WireFormat;
use crate::site::FabricSite;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use unrack_engine::Fabric;
use unrack_engine::error::SetupError;
use unrack_engine::events::Split;
use unrack_engine::run::Run;
use unrack_rack::Protocol;
use unrack_units::{Bytes, Warning};

/// A fabric that scenarios can name.
pub trait Registered: Fabric + Sized + 'static {
    /// Name of the protocol, the networks on which it runs, and its limits.
    const PROTOCOL: Protocol;
    /// Memory that a run of the protocol needs.
    const COST: Cost;
    /// Format that captures use for the packets of the protocol.
    const WIRE: WireFormat = WireFormat::Plain { fabric: Self::PROTOCOL.name() };
    /// Parameters: the keys of `fabric` other than `protocol`. Their documentation is the help text of `unrack scenario
    /// explain`, and `#[serde(default, deny_unknown_fields)]` supplies the defaults.
    type Params: Default + Clone + Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Creates the fabric on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    fn build(site: &FabricSite, params: &Self::Params) -> Result<Self, SetupError>;

    /// Runs the fabric on several threads. A fabric whose profile says that it splits implements this by a call of
    /// [`SplitRun::run`]. It is never called for other fabrics, because their split runs are rejected earlier.
    ///
    /// # Errors
    /// If the run cannot be split.
    fn split(_parts: SplitRun, _params: &Self::Params) -> Result<Finished, SetupError> {
        unreachable!("`{}` does not split, or does not say how", Self::PROTOCOL.name())
    }

    /// Returns the buffer per port that the paper of the protocol expects, and the reason; `None` if any buffer is
    /// sufficient.
    fn assumed_buffer(_site: &FabricSite, _params: &Self::Params) -> Option<AssumedBuffer> {
        None
    }

    /// Returns why the rates of senders may leave links idle, and which parameter to change; `None` if they cannot.
    fn against_pacing(_params: &Self::Params) -> Option<&'static str> {
        None
    }

    /// Returns a note on each mechanism of the protocol that never acted in a run, although the protocol is known for it. Mechanisms
    /// that many protocols have, such as buffers and timers, are noted by [`notes`](crate::notes()).
    fn never_acted(_params: &Self::Params, _run: &Run) -> Vec<Warning> {
        Vec::new()
    }
}

/// Buffer per port below which the losses of a protocol differ from those in its paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssumedBuffer {
    pub bytes: Bytes,
    /// Contents of the buffer, with the section of the paper that describes them.
    pub holds: &'static str,
    /// Whether a scenario that sets no buffer gets this one. It is false for protocols of switched networks: there, all
    /// protocols have the same default, so that comparisons use the same network.
    pub is_default: bool,
}

/// Parameters of a fabric that has no parameters.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoParams {}

/// A run that is to be split over several threads.
pub struct SplitRun<'a> {
    pub(crate) job: RunJob<'a>,
    /// Part to which each switch belongs.
    pub(crate) part_of: Arc<[u32]>,
}

impl SplitRun<'_> {
    /// Runs the parts. The results equal those of a run on one thread.
    ///
    /// # Errors
    /// If a parameter is invalid, or if the network or the work cannot be split.
    pub fn run<F: Registered + Split>(self, params: &F::Params) -> Result<Finished, SetupError> {
        let site = self.job.site();
        self.job.run_parts(|| F::build(&site, params), F::PROTOCOL, &self.part_of)
    }
}
