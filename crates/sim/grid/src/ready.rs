//! Scenarios that are ready to run: they are read and checked, and their work is known.

use crate::error::ScenarioRunError;
use crate::memory_left::MemoryLeft;
use crate::work;
use std::io::Read;
use std::path::{Path, PathBuf};
use unrack_rack::{MOST_BYTES, Scenario, ValidScenario};
use unrack_sim::{Need, Setup, Work};

/// Scenario that is ready to run.
pub struct ReadyScenario {
    pub scenario: ValidScenario,
    pub setup: Setup,
    pub work: Work,
    /// Memory that the run will need.
    pub need: Need,
}

/// Scenario that is named and not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioSource {
    pub origin: ScenarioOrigin,
    /// Largest number of transfers to replay from a captured trace.
    pub transfers: u64,
}

/// Where the text of a scenario comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScenarioOrigin {
    File(PathBuf),
    /// Text, with a name for errors. Files that it names are relative to the current folder.
    Text {
        name: String,
        text: String,
    },
}

impl ScenarioSource {
    /// Reads and checks this scenario with the settings `KEY=VALUE`, and prepares it to run.
    ///
    /// # Errors
    /// If the scenario cannot be run, or if there is too little memory.
    pub fn ready(&self, set: &[String]) -> Result<ReadyScenario, ScenarioRunError> {
        let (scenario, setup) = self.origin.load(set)?;
        let (work, need) = work::checked(&scenario, &setup, self.transfers)?;
        Ok(ReadyScenario { scenario, setup, work, need })
    }

    /// Returns the options on which a result depends, in addition to the scenario.
    pub fn asked(&self) -> String {
        format!("transfers={}", self.transfers)
    }
}

impl ScenarioOrigin {
    /// Loads the scenario with the settings `KEY=VALUE`, and builds its network and fabric.
    ///
    /// # Errors
    /// If the scenario cannot be run, or if there is too little memory for the network.
    pub fn load(&self, set: &[String]) -> Result<(ValidScenario, Setup), ScenarioRunError> {
        let overrides = set.iter().collect();
        let scenario = match self {
            ScenarioOrigin::File(path) => Scenario::load(path, &overrides)?,
            ScenarioOrigin::Text { name, text } => Scenario::parse(name, text, &overrides)?,
        };
        let mut scenario = unrack_sim::check(scenario)?;
        MemoryLeft::now().check(&Need::from_scenario(&scenario))?;
        let setup = Setup::from_scenario(&mut scenario)?;
        Ok((scenario, setup))
    }
}

/// Name of a scenario that is read from standard input.
const STDIN: &str = "-";

impl ScenarioOrigin {
    /// Returns the scenario in a file. If the path is `-`, it reads the scenario from standard input.
    ///
    /// # Errors
    /// If standard input cannot be read, is longer than a scenario may be, or is not text.
    pub fn named(path: &Path) -> Result<ScenarioOrigin, ScenarioRunError> {
        if path != Path::new(STDIN) {
            return Ok(ScenarioOrigin::File(path.into()));
        }
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MOST_BYTES + 1).read_to_string(&mut text);
        match read {
            Ok(_) if text.len() as u64 > MOST_BYTES => Err(ScenarioRunError::Refused(format!(
                "standard input has more than {MOST_BYTES} bytes: no scenario"
            ))),
            Ok(_) => Ok(ScenarioOrigin::Text { name: STDIN.into(), text }),
            Err(why) => {
                Err(ScenarioRunError::Refused(format!("cannot read a scenario from standard input: {why}")))
            }
        }
    }
}
