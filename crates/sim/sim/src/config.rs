//! A fabric and its parameters as one value, whatever the fabric.

use crate::contract::{AssumedBuffer, Parts, Registered};
use crate::job::{Finished, Job};
use crate::observe::Watch;
use crate::observe::wire::WireFormat;
use crate::site::Site;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use unrack_engine::error::SetupError;
use unrack_engine::events::Unobserved;
use unrack_rack::Protocol;

/// A fabric and its parameters.
#[derive(Debug, Clone)]
pub struct FabricConfig(Arc<dyn Carrier>);

impl FabricConfig {
    /// Creates the configuration of a fabric with these parameters.
    pub fn new<F: Registered>(params: F::Params) -> FabricConfig {
        FabricConfig(Arc::new(Configured::<F> { params }))
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> Protocol {
        self.0.protocol()
    }

    /// Returns the parameters, if they are those of this fabric.
    pub fn params<F: Registered>(&self) -> Option<&F::Params> {
        self.0.params().downcast_ref()
    }

    /// Returns the format of the packets in captures.
    pub fn wire(&self) -> WireFormat {
        self.0.wire()
    }

    /// Returns the reason for rates that leave links idle, and what to change.
    pub(crate) fn against_pacing(&self) -> Option<&'static str> {
        self.0.against_pacing()
    }

    /// Returns the buffer of a port that the protocol counts on.
    pub(crate) fn assumed_buffer(&self, site: &Site) -> Option<AssumedBuffer> {
        self.0.assumed_buffer(site)
    }

    pub(crate) fn run(&self, job: Job) -> Result<Finished, SetupError> {
        self.0.run(job)
    }

    pub(crate) fn watched(&self, job: Job, watch: &mut Watch) -> Result<Finished, SetupError> {
        self.0.watched(job, watch)
    }

    pub(crate) fn split(&self, parts: Parts) -> Result<Finished, SetupError> {
        self.0.split(parts)
    }
}

/// Configuration of some fabric. The loops of a fabric are compiled here, once without an observer and once with one,
/// and not once per caller.
trait Carrier: Debug + Send + Sync {
    fn protocol(&self) -> Protocol;
    fn params(&self) -> &dyn Any;
    fn wire(&self) -> WireFormat;
    fn against_pacing(&self) -> Option<&'static str>;
    fn assumed_buffer(&self, site: &Site) -> Option<AssumedBuffer>;
    fn run(&self, job: Job) -> Result<Finished, SetupError>;
    fn watched(&self, job: Job, watch: &mut Watch) -> Result<Finished, SetupError>;
    fn split(&self, parts: Parts) -> Result<Finished, SetupError>;
}

struct Configured<F: Registered> {
    params: F::Params,
}

impl<F: Registered> Debug for Configured<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} {:?}", F::PROTOCOL, self.params)
    }
}

impl<F: Registered> Carrier for Configured<F> {
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

    fn assumed_buffer(&self, site: &Site) -> Option<AssumedBuffer> {
        F::assumed_buffer(site, &self.params)
    }

    fn run(&self, job: Job) -> Result<Finished, SetupError> {
        let fabric = F::build(&job.site(), &self.params)?;
        job.run_on(fabric, F::PROTOCOL, Unobserved)
    }

    fn watched(&self, job: Job, watch: &mut Watch) -> Result<Finished, SetupError> {
        let fabric = F::build(&job.site(), &self.params)?;
        job.run_on(fabric, F::PROTOCOL, watch)
    }

    fn split(&self, parts: Parts) -> Result<Finished, SetupError> {
        F::split(parts, &self.params)
    }
}
