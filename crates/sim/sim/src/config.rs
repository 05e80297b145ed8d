//! A fabric and its parameters as one value. Its type does not depend on the fabric.

use crate::contract::{AssumedBuffer, Registered, SplitRun};
use crate::job::{Finished, RunJob};
use crate::observe::Views;
use crate::observe::wire::WireFormat;
use crate::site::FabricSite;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use unrack_engine::error::SetupError;
use unrack_engine::events::Unobserved;
use unrack_engine::run::Run;
use unrack_rack::Protocol;
use unrack_units::Warning;

/// A fabric and its parameters.
#[derive(Debug, Clone)]
pub struct FabricConfig(Arc<dyn ConfiguredFabric>);

impl FabricConfig {
    /// Creates the configuration of a fabric with these parameters.
    pub fn new<F: Registered>(params: F::Params) -> FabricConfig {
        FabricConfig(Arc::new(Configured::<F> { params }))
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> Protocol {
        self.0.protocol()
    }

    /// Returns the parameters; `None` if they belong to another fabric.
    pub fn params<F: Registered>(&self) -> Option<&F::Params> {
        self.0.params().downcast_ref()
    }

    /// Returns the format that captures use for the packets of this fabric.
    pub fn wire(&self) -> WireFormat {
        self.0.wire()
    }

    /// Returns why the rates of senders may leave links idle, and which parameter to change; `None` if they cannot.
    pub(crate) fn against_pacing(&self) -> Option<&'static str> {
        self.0.against_pacing()
    }

    /// Returns a note on each mechanism of the protocol that never acted in a run.
    pub(crate) fn never_acted(&self, run: &Run) -> Vec<Warning> {
        self.0.never_acted(run)
    }

    /// Returns the buffer per port that the protocol expects; `None` if it works with any buffer.
    pub(crate) fn assumed_buffer(&self, site: &FabricSite) -> Option<AssumedBuffer> {
        self.0.assumed_buffer(site)
    }

    pub(crate) fn run(&self, job: RunJob) -> Result<Finished, SetupError> {
        self.0.run(job)
    }

    pub(crate) fn watched(&self, job: RunJob, watch: &mut Views) -> Result<Finished, SetupError> {
        self.0.watched(job, watch)
    }

    pub(crate) fn split(&self, parts: SplitRun) -> Result<Finished, SetupError> {
        self.0.split(parts)
    }
}

/// Configuration of a fabric, behind a trait object. The event loops of a fabric are compiled in its implementation,
/// once without an observer and once with one, instead of once per caller.
trait ConfiguredFabric: Debug + Send + Sync {
    fn protocol(&self) -> Protocol;
    fn params(&self) -> &dyn Any;
    fn wire(&self) -> WireFormat;
    fn against_pacing(&self) -> Option<&'static str>;
    fn never_acted(&self, run: &Run) -> Vec<Warning>;
    fn assumed_buffer(&self, site: &FabricSite) -> Option<AssumedBuffer>;
    fn run(&self, job: RunJob) -> Result<Finished, SetupError>;
    fn watched(&self, job: RunJob, watch: &mut Views) -> Result<Finished, SetupError>;
    fn split(&self, parts: SplitRun) -> Result<Finished, SetupError>;
}

struct Configured<F: Registered> {
    params: F::Params,
}

impl<F: Registered> Debug for Configured<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} {:?}", F::PROTOCOL, self.params)
    }
}

impl<F: Registered> ConfiguredFabric for Configured<F> {
    fn protocol(&self) -> Protocol {
        F::PROTOCOL
    }

    fn params(&self) -> &dyn Any {
        &self.params
    }

    fn wire(&self) -> WireFormat {
        F::WIRE
    }

    fn against_pacing(&self) -> Option<&'static str> {
        F::against_pacing(&self.params)
    }

    fn never_acted(&self, run: &Run) -> Vec<Warning> {
        F::never_acted(&self.params, run)
    }

    fn assumed_buffer(&self, site: &FabricSite) -> Option<AssumedBuffer> {
        F::assumed_buffer(site, &self.params)
    }

    fn run(&self, job: RunJob) -> Result<Finished, SetupError> {
        let fabric = F::build(&job.site(), &self.params)?;
        job.run_on(fabric, F::PROTOCOL, Unobserved)
    }

    fn watched(&self, job: RunJob, watch: &mut Views) -> Result<Finished, SetupError> {
        let fabric = F::build(&job.site(), &self.params)?;
        job.run_on(fabric, F::PROTOCOL, watch)
    }

    fn split(&self, parts: SplitRun) -> Result<Finished, SetupError> {
        F::split(parts, &self.params)
    }
}
