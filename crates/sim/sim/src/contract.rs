//! The contract of a fabric that scenarios can name: its profile and its cost, its parameters, and how it is built.

use crate::cost::Cost;
use crate::job::{Finished, Job};
use crate::observe::wire::WireFormat;
use crate::site::Site;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use unrack_engine::Fabric;
use unrack_engine::error::SetupError;
use unrack_engine::events::Split;
use unrack_rack::Protocol;
use unrack_units::Bytes;

/// A fabric that scenarios can name.
pub trait Registered: Fabric + Sized + 'static {
    /// Name, networks and limits.
    const PROTOCOL: Protocol;
    /// Memory that a run takes.
    const COST: Cost;
    /// Format of its packets in captures.
    const WIRE: WireFormat = WireFormat::Plain { fabric: Self::PROTOCOL.name() };
    /// Parameters beside `fabric.protocol`. Their documentation is the help of `unrack scenario explain`, and
    /// `#[serde(default, deny_unknown_fields)]` gives the defaults.
    type Params: Default + Clone + Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Creates the fabric on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    fn build(site: &Site, params: &Self::Params) -> Result<Self, SetupError>;

    /// Runs the fabric on several threads: a fabric whose profile says that it splits passes this on to
    /// [`Parts::run`]. Others are refused before.
    ///
    /// # Errors
    /// If the run cannot be split.
    fn split(_parts: Parts, _params: &Self::Params) -> Result<Finished, SetupError> {
        unreachable!("`{}` does not split, or does not say how", Self::PROTOCOL.name())
    }

    /// Returns the buffer of a port that the protocol's paper counts on, and why; `None` if it copes with any.
    fn assumed_buffer(_site: &Site, _params: &Self::Params) -> Option<AssumedBuffer> {
        None
    }

    /// Returns the reason for rates that leave links idle, and what to change; `None` if there is no such reason.
    fn against_pacing(_params: &Self::Params) -> Option<&'static str> {
        None
    }
}

/// Buffer of a port below which a protocol's losses are not those of its paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssumedBuffer {
    pub bytes: Bytes,
    /// What the buffer holds, with the section of the paper.
    pub holds: &'static str,
    /// True if a scenario without a buffer gets this one. Not between switches: there the default is the same for all
    /// protocols, so that they are compared on the same network.
    pub is_default: bool,
}

/// Parameters of a fabric that has none.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoParams {}

/// A run to be made on several threads.
pub struct Parts<'a> {
    pub(crate) job: Job<'a>,
    /// Part of each switch.
    pub(crate) part_of: Arc<[u32]>,
}

impl Parts<'_> {
    /// Runs the parts, with the same results as on one thread.
    ///
    /// # Errors
    /// If a parameter does not fit, or the network or the work cannot be split.
    pub fn run<F: Registered + Split>(self, params: &F::Params) -> Result<Finished, SetupError> {
        let site = self.job.site();
        self.job.run_parts(|| F::build(&site, params), F::PROTOCOL, &self.part_of)
    }
}
