//! The registry of fabrics. A fabric needs only one line here, or one call of [`register`]. Everything else is derived
//! from it: parameters and their help, the combinations that a scenario may use and their error messages, the memory
//! that a run needs, and the format of captures.
//!
//! A crate outside this workspace registers its fabric before the command line is read; see `docs/extending.md` and
//! `examples/own-transport`.

use crate::config::FabricConfig;
use crate::contract::Registered;
use crate::cost::Cost;
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
use crate::fabric::tcp::Tcp;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use unrack_rack::{
    Connects, KnownNames, Protocol, Scenario, ScenarioError, TopologyKind, ValidScenario, listed,
    params_schema, scenario_schema,
};

/// Fabrics of this crate, in the order in which they are listed to users.
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

/// Adds a fabric to those that scenarios can name. It must be called before a scenario is read.
///
/// # Panics
/// If a fabric with this name is already registered.
pub fn register<F: Registered>() {
    let name = F::PROTOCOL.name();
    assert!(
        entries().iter().all(|entry| entry.protocol.name() != name),
        "there is a fabric `{name}` already"
    );
    OTHERS.lock().unwrap_or_else(PoisonError::into_inner).push(Entry::new::<F>());
}

/// Adds a kind of topology to those that scenarios can name. It must be called before a scenario is read.
///
/// # Panics
/// If a kind with this name is already registered.
pub fn register_topology<T: Connects>() {
    let name = T::NAME;
    assert!(
        known().all_topologies().iter().all(|kind| kind.name != name),
        "there is a topology `{name}` already"
    );
    TOPOLOGIES.lock().unwrap_or_else(PoisonError::into_inner).push(TopologyKind::new::<T>());
}

/// Returns the protocols and topologies that a scenario can name.
pub fn known() -> KnownNames {
    let protocols = entries().iter().map(|entry| entry.protocol).collect();
    let topologies = TOPOLOGIES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    KnownNames { protocols, topologies }
}

/// Returns the JSON Schema of scenarios, with all protocols and topologies that a scenario can name.
pub fn schema() -> Value {
    let entries = entries();
    let params =
        |protocol| entries.iter().find(|entry| entry.protocol == protocol).map(|entry| (entry.schema)());
    scenario_schema(&known(), |protocol| params(protocol).unwrap_or_default())
}

/// Checks a scenario against the protocols and topologies that it can name.
///
/// # Errors
/// Returns all problems of the scenario.
pub fn check(scenario: Scenario) -> Result<ValidScenario, ScenarioError> {
    scenario.check(&known())
}

/// Returns the memory that a run with this protocol needs; [`Cost::NONE`] for a protocol that is not registered.
pub(crate) fn cost(protocol: Protocol) -> Cost {
    Entry::find(protocol).map_or(Cost::NONE, |entry| entry.cost)
}

impl FabricConfig {
    /// Returns a protocol with its default parameters, which are those of its paper.
    ///
    /// # Panics
    /// If the protocol is not registered.
    pub fn default_of(protocol: Protocol) -> FabricConfig {
        let entry = Entry::find(protocol).expect("a registered protocol");
        (entry.with_defaults)()
    }

    /// Reads the parameters that a scenario sets for its protocol.
    ///
    /// # Errors
    /// If the parameters are invalid, or the protocol is not registered.
    pub(crate) fn from_scenario(scenario: &mut ValidScenario) -> Result<FabricConfig, ScenarioError> {
        match Entry::find(scenario.protocol) {
            Some(entry) => (entry.read)(scenario),
            None => {
                let names = listed(&known().names(|_| true), "or");
                Err(scenario.error_at("fabric.protocol", format!("is not simulated; use {names}")))
            }
        }
    }
}
