//! The registry of fabrics: from one line here, or one call of [`register`], everything else derives: parameters and
//! their help, what a scenario may combine, refusals, the memory that a run takes, the format of captures.
//!
//! A crate outside of this workspace registers its own fabric before the command line is read; see
//! `docs/extending.md` and `examples/own-transport`.

use crate::fabric::cxl::Cxl;
use crate::fabric::dctcp::Dctcp;
use crate::fabric::edm::Edm;
use crate::fabric::fastpass::Fastpass;
use crate::fabric::ideal::Ideal;
use crate::fabric::mptcp::Mptcp;
use crate::fabric::ndp::Ndp;
use crate::fabric::pfabric::Pfabric;
use crate::fabric::pfc_dcqcn::PfcDcqcn;
use crate::fabric::pfq::Pfq;
use crate::fabric::r2c2::R2c2;
use crate::fabric::receiver_driven::{Homa, Ird, Phost};
use crate::fabric::stream::Ethernet;
use crate::fabric::tcp::Tcp;
use crate::memory::Cost;
use crate::observe::Watch;
use crate::observe::wire::WireFormat;
use crate::setup::{Finished, Setup, Work};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use unrack_engine::Fabric;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Progress, Split, Unobserved};
use unrack_engine::network::Network;
use unrack_rack::{
    Connects, Known, Protocol, Scenario, ScenarioError, TopologyKind, ValidScenario, listed, params_schema,
    scenario_schema,
};
use unrack_units::Bytes;

/// Fabrics of this crate, in the order in which they are listed.
static FABRICS: [Entry; 15] = [
    Entry::new::<Ideal>(),
    Entry::new::<Edm>(),
    Entry::new::<Cxl>(),
    Entry::new::<Dctcp>(),
    Entry::new::<Tcp>(),
    Entry::new::<Pfabric>(),
    Entry::new::<Phost>(),
    Entry::new::<Homa>(),
    Entry::new::<Ird>(),
    Entry::new::<Ndp>(),
    Entry::new::<PfcDcqcn>(),
    Entry::new::<Fastpass>(),
    Entry::new::<Mptcp>(),
    Entry::new::<R2c2>(),
    Entry::new::<Pfq>(),
];

/// Fabrics that other crates have registered.
static OTHERS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Topologies that other crates have registered.
static TOPOLOGIES: Mutex<Vec<TopologyKind>> = Mutex::new(Vec::new());

/// A fabric that scenarios can name.
pub trait Registered: Fabric + Sized + 'static {
    /// Name, networks and limits.
    const PROTOCOL: Protocol;
    /// Memory that a run takes.
    const COST: Cost;
    /// Format of its packets in captures.
    const WIRE: WireFormat = WireFormat::Plain { fabric: Self::PROTOCOL.name() };
    /// Parameters beside `fabric.protocol`. Their documentation is the help of `unrack scenario --explain`, and
    /// `#[serde(default, deny_unknown_fields)]` gives the defaults.
    type Params: Default + Clone + Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Creates the fabric on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    fn build(site: &Site, params: &Self::Params) -> Result<Self, SetupError>;

    /// Runs the fabric on several threads. A fabric whose profile says that it splits passes this on to
    /// [`Parts::run`].
    ///
    /// # Errors
    /// If the run cannot be split.
    fn split(parts: Parts, _params: &Self::Params) -> Result<Finished, SetupError> {
        parts.refuse()
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

/// Surroundings of a fabric that is being built.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    pub network: &'a Network,
    pub ethernet: &'a Ethernet,
    pub seed: u64,
    /// Whether the tail of the message sizes is above an exponential's.
    pub heavy_tailed: bool,
}

/// Parameters of a fabric that has none.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoParams {}

/// Registration of a fabric.
#[derive(Clone, Copy)]
struct Entry {
    protocol: Protocol,
    cost: Cost,
    schema: fn() -> Value,
    read: fn(&mut ValidScenario) -> Result<FabricConfig, ScenarioError>,
    with_defaults: fn() -> FabricConfig,
}

impl Entry {
    const fn new<F: Registered>() -> Entry {
        Entry {
            protocol: F::PROTOCOL,
            cost: F::COST,
            schema: params_schema::<F::Params>,
            read: |scenario| scenario.fabric_params().map(FabricConfig::new::<F>),
            with_defaults: || FabricConfig::new::<F>(F::Params::default()),
        }
    }

    fn find(protocol: Protocol) -> Option<Entry> {
        entries().into_iter().find(|entry| entry.protocol == protocol)
    }
}

fn entries() -> Vec<Entry> {
    let others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    FABRICS.iter().chain(others.iter()).copied().collect()
}

/// Adds a fabric to those that scenarios can name. To be called before a scenario is read.
///
/// # Panics
/// If there is a fabric of this name.
pub fn register<F: Registered>() {
    let name = F::PROTOCOL.name();
    assert!(
        entries().iter().all(|entry| entry.protocol.name() != name),
        "there is a fabric `{name}` already"
    );
    OTHERS.lock().unwrap_or_else(PoisonError::into_inner).push(Entry::new::<F>());
}

/// Adds a kind of topology to those that scenarios can name. To be called before a scenario is read.
///
/// # Panics
/// If there is a kind of this name.
pub fn register_topology<T: Connects>() {
    let name = T::NAME;
    assert!(
        known().all_topologies().iter().all(|kind| kind.name != name),
        "there is a topology `{name}` already"
    );
    TOPOLOGIES.lock().unwrap_or_else(PoisonError::into_inner).push(TopologyKind::new::<T>());
}

/// Returns all that a scenario can name.
pub fn known() -> Known {
    let protocols = entries().iter().map(|entry| entry.protocol).collect();
    let topologies = TOPOLOGIES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Known { protocols, topologies }
}

/// Returns the JSON Schema of scenarios: of all that one can name.
pub fn schema() -> Value {
    let entries = entries();
    let params =
        |protocol| entries.iter().find(|entry| entry.protocol == protocol).map(|entry| (entry.schema)());
    scenario_schema(&known(), |protocol| params(protocol).unwrap_or_default())
}

/// Checks a scenario against all that it can name.
///
/// # Errors
/// All problems of the scenario.
pub fn check(scenario: Scenario) -> Result<ValidScenario, ScenarioError> {
    scenario.check(&known())
}

/// Returns the memory that a run with this protocol takes; nothing for one that is not registered.
pub(crate) fn cost(protocol: Protocol) -> Cost {
    Entry::find(protocol).map_or(Cost::NONE, |entry| entry.cost)
}

/// A fabric and its parameters.
#[derive(Debug, Clone)]
pub struct FabricConfig(Arc<dyn Carrier>);

impl FabricConfig {
    /// Creates the configuration of a fabric with these parameters.
    pub fn new<F: Registered>(params: F::Params) -> FabricConfig {
        FabricConfig(Arc::new(Configured::<F> { params }))
    }

    /// Returns a protocol with its default parameters, those of its paper.
    ///
    /// # Panics
    /// If the protocol is not registered.
    pub fn default_of(protocol: Protocol) -> FabricConfig {
        let entry = Entry::find(protocol).expect("a registered protocol");
        (entry.with_defaults)()
    }

    /// Reads the parameters that a scenario gives its protocol.
    ///
    /// # Errors
    /// If they are wrong, or the protocol is not registered.
    pub(crate) fn from_scenario(scenario: &mut ValidScenario) -> Result<FabricConfig, ScenarioError> {
        match Entry::find(scenario.protocol) {
            Some(entry) => (entry.read)(scenario),
            None => {
                let names = listed(&known().names(|_| true), "or");
                Err(scenario.error_at("fabric.protocol", format!("is not simulated; use {names}")))
            }
        }
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

/// A run to be made: the setup, its work, and who hears of the progress.
pub(crate) struct Job<'a> {
    pub setup: &'a Setup,
    pub work: &'a Work,
    pub progress: &'a mut dyn FnMut(Progress),
}

/// A run to be made on several threads.
pub struct Parts<'a> {
    pub(crate) job: Job<'a>,
    /// Part of each switch.
    pub(crate) part_of: Arc<[u32]>,
    pub(crate) protocol: Protocol,
}

impl Parts<'_> {
    /// Runs the parts, with the same results as on one thread.
    ///
    /// # Errors
    /// If a parameter does not fit, or the network or the work cannot be split.
    pub fn run<F: Registered + Split>(self, params: &F::Params) -> Result<Finished, SetupError> {
        let site = self.job.setup.site(self.job.work);
        self.job.setup.run_parts(|| F::build(&site, params), self.job.work, &self.part_of, self.job.progress)
    }

    /// Returns the error of a fabric that cannot be split.
    ///
    /// # Errors
    /// Always.
    pub fn refuse(self) -> Result<Finished, SetupError> {
        let whole = listed(&known().names(|it| !it.splits), "and");
        let rule = format!("is 1 for {whole} (docs/decisions/0007-split-runs.md)");
        let threads = self.part_of.iter().max().map_or(1, |last| last + 1);
        Err(SetupError::new("--threads", rule, format!("{threads} with {}", self.protocol)))
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

    fn run(&self, Job { setup, work, progress }: Job) -> Result<Finished, SetupError> {
        let fabric = F::build(&setup.site(work), &self.params)?;
        setup.run_on(fabric, work, Unobserved, progress)
    }

    fn watched(&self, Job { setup, work, progress }: Job, watch: &mut Watch) -> Result<Finished, SetupError> {
        let fabric = F::build(&setup.site(work), &self.params)?;
        setup.run_on(fabric, work, watch, progress)
    }

    fn split(&self, parts: Parts) -> Result<Finished, SetupError> {
        F::split(parts, &self.params)
    }
}
