//! Question of a comparison.

use super::rack::{ComparedRack, scenario};
use crate::error::Error;
use crate::lines::placed::PlacementRule;
use crate::runs::program::check_repeat;
use std::ffi::OsString;
use std::path::PathBuf;
use unrack_rack::{Blades, Profile, Protocol, Scope};
use unrack_record::{AccessUnit, RunPurpose};
use unrack_units::nearest::hint;
use unrack_units::{Rate, Share, Time};

/// Question how much each fabric slows a program down that has part of its memory remote.
#[derive(Debug, Clone)]
pub struct ComparisonQuestion {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Unit in which the program accesses remote memory.
    pub access: AccessUnit,
    /// Memory that stays local.
    pub local: Share,
    /// Rule that selects the pages in local memory, for loads and stores.
    pub placement: PlacementRule,
    /// Fabrics to simulate.
    pub fabrics: Vec<Protocol>,
    /// Network between the nodes.
    pub rack: ComparedRack,
    /// Whether a compute blade uses the memory of its rack or of the whole datacenter.
    pub scope: Scope,
    /// Number of nodes of the rack, 2 to 1024. Half of them are compute blades, which all run the program; the others are memory blades.
    pub nodes: u32,
    /// Rate of every link, in the simulation and for injected delays.
    pub rate: Rate,
    /// Maximum number of pages or cache lines to simulate for each fabric, over all blades.
    pub transfers: u64,
    /// Rounds of runs, 1 to 100.
    pub repeat: u32,
    /// Time budget of the whole answer. Without a budget, only the planned runs are made.
    pub budget: Option<Time>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Run folder. It is created, or rewritten if it belongs to the same question.
    pub out: PathBuf,
    /// Whether an existing run in that folder is replaced, even if it belongs to another question.
    pub replace: bool,
}

/// Fabrics that are compared by default.
const USUAL_FABRICS: [&str; 4] = ["ideal", "edm", "cxl", "dctcp"];
/// Default share of the program's memory that stays local.
const USUAL_LOCAL: &str = "25%";

impl ComparisonQuestion {
    /// Returns the question with the default values of `unrack compare`.
    pub fn of(command: Vec<OsString>) -> ComparisonQuestion {
        let known = unrack_sim::known();
        let fabrics = USUAL_FABRICS.iter().filter_map(|name| known.protocol(name)).collect();
        ComparisonQuestion {
            command,
            access: AccessUnit::Pages,
            local: USUAL_LOCAL.parse().expect("a percentage is a share"),
            placement: PlacementRule::Interleaved,
            fabrics,
            rack: ComparedRack::Star,
            scope: Scope::Datacenter,
            nodes: 16,
            rate: Rate::from_gbps(100),
            transfers: 300_000,
            repeat: 2,
            budget: None,
            seed: 1,
            out: "unrack-compare".into(),
            replace: false,
        }
    }

    /// Returns an error if a number is out of its range.
    pub(super) fn check(&self) -> Result<(), Error> {
        check_repeat(self.repeat)?;
        match self.nodes {
            2..=1024 => Ok(()),
            nodes => Err(Error::Usage(format!("a rack of {nodes} nodes cannot be compared: give 2 to 1024"))),
        }
    }

    /// Returns the rack as a scenario file, for the manifest and for `unrack sim`.
    ///
    /// # Errors
    /// If the rack cannot have this number of nodes.
    pub(super) fn scenario(&self) -> Result<String, Error> {
        scenario(&self.fabrics, self.rack, self.nodes, self.rate, self.seed)
    }

    /// Returns the blades: half of the nodes are compute blades.
    pub(super) fn blades(&self) -> Blades {
        Blades { scope: self.scope, ..Blades::half(self.nodes) }
    }

    /// Returns the purpose of the run; runs with the same purpose may replace each other. The amount of work is not part of the purpose.
    pub(super) fn purpose(&self, words: &[String]) -> RunPurpose {
        let fabrics: Vec<_> = self.fabrics.iter().map(|fabric| fabric.name()).collect();
        let question = serde_json::json!({
            "command": words, "folder": std::env::current_dir().ok(), "local": self.local.to_string(),
            "fabrics": fabrics, "rack": format!("{:?} {:?}", self.rack, self.scope), "nodes": self.nodes, "rate": self.rate.to_string(), "seed": self.seed,
            "access": self.access, "placement": self.placement.name(),
        });
        let object = format!("--local {} --fabric {} -- {}", self.local, fabrics.join(","), words.join(" "));
        RunPurpose::new("compare", object, question.to_string())
    }
}

/// Returns the protocol with this name, if it runs on networks with switches, because the racks of a comparison have switches.
///
/// # Errors
/// If there is no such protocol: the text suggests a similar name.
pub fn compared_fabric(name: &str) -> Result<Protocol, String> {
    let known = unrack_sim::known();
    let around_a_switch = |profile: &Profile| profile.networks.have_switches();
    let found = known.protocol(name).filter(|protocol| around_a_switch(protocol.profile()));
    found.ok_or_else(|| {
        let names = known.names(around_a_switch);
        format!("this version has no such fabric for a network with switches{}", hint(name, &names))
    })
}
