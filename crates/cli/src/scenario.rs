//! `unrack scenario`: whether a scenario can be run, and what it says in full.

use crate::failure::Failure;
use crate::sim::work::{self, MOST_TRANSFERS};
use crate::stdout::print;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_rack::{Scenario, ScenarioError, ValidScenario};
use unrack_sim::Setup;

pub const EXAMPLES: &str = "\
Examples:
  unrack scenario --check rack.toml
  unrack scenario --explain rack.toml --set network.link.rate=400Gbps

What is wrong is shown with its line, and the exit status is 2. --check also reads the files that the \
scenario names. What --explain prints is a scenario itself, with every default.";

#[derive(clap::Args)]
pub struct Args {
    /// Say whether this scenario can be run
    #[arg(long, value_name = "FILE", conflicts_with = "explain", required_unless_present = "explain")]
    check: Option<PathBuf>,
    /// Print this scenario with every value, and where each comes from
    #[arg(long, value_name = "FILE")]
    explain: Option<PathBuf>,
    /// Replace a value of the file
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let text = match (&args.check, &args.explain) {
        (Some(file), _) => check(file, &args.set)?,
        (_, Some(file)) => load(file, &args.set)?.0.explain(),
        (None, None) => return Err(Failure::Usage("give either --check or --explain".into())),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A scenario file with overrides, and the network and fabric it describes.
pub fn load(file: &Path, set: &[String]) -> Result<(ValidScenario, Setup), ScenarioError> {
    let mut scenario = Scenario::load(file, &set.iter().collect())?.check()?;
    let setup = Setup::from_scenario(&mut scenario)?;
    Ok((scenario, setup))
}

fn check(file: &Path, set: &[String]) -> Result<String, ScenarioError> {
    let (scenario, setup) = load(file, set)?;
    work::checked(&scenario, &setup, MOST_TRANSFERS)?;
    let (nodes, fabric, kind) = (setup.network.nodes(), scenario.protocol, scenario.workload.kind());
    let (file, hash) = (file.display(), scenario.hash());
    Ok(format!("{file}: can be run: {nodes} nodes, {fabric}, {kind}; scenario {hash}\n"))
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Failure {
        Failure::Usage(format!("this scenario cannot be run\n\n{error}"))
    }
}
