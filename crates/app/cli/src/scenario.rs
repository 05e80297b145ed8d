//! `unrack scenario`: checks whether a scenario can be run, prints its complete text, or draws its network.

use crate::completions;
use crate::failure::Failure;
use crate::stdout::print;
use clap_complete::engine::ArgValueCompleter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_grid::memory_left::rounded;
use unrack_grid::work::{self, MOST_TRANSFERS};
use unrack_grid::{ScenarioOrigin, ScenarioRunError};
use unrack_rack::{ScenarioError, ValidScenario};
use unrack_sim::memory::NeedPart;
use unrack_sim::topology::MOST_DRAWN;
use unrack_sim::{Need, Setup};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack scenario --check rack.toml
  unrack scenario --explain rack.toml --set network.link.rate=400Gbps
  unrack scenario --draw rack.toml > rack.svg

Errors are shown with their line, and end with status 2; a scenario that needs more memory than there is ends with \
3. \
--check says how much memory a run will take, and also reads the files that the \
scenario names. The output of --explain is itself a scenario, with every default; keys and tables without a value \
are comments that say what they mean.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check whether this scenario can be run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["explain", "draw"])]
    check: Option<PathBuf>,
    /// Print this scenario with every value and its origin
    #[arg(long, value_name = "FILE", conflicts_with = "draw")]
    explain: Option<PathBuf>,
    /// Print a picture of its network as SVG
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
    /// Replace a value of the file
    #[arg(long, value_name = "KEY=VALUE", add = ArgValueCompleter::new(completions::settings))]
    set: Vec<String>,
}

/// Runs `unrack scenario`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    let text = match (&args.check, &args.explain, &args.draw) {
        (Some(file), ..) => check(file, &args.set)?,
        (_, Some(file), _) => load(file, &args.set)?.0.explain(),
        (.., Some(file)) => draw(file, &args.set)?,
        (None, None, None) => return Err(Failure::Usage("give --check, --explain or --draw".into())),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads a scenario file with settings, and builds its network and fabric. Fails if there is too little memory.
pub(crate) fn load(file: &Path, set: &[String]) -> Result<(ValidScenario, Setup), Failure> {
    Ok(ScenarioOrigin::named(file)?.load(set)?)
}

fn check(file: &Path, set: &[String]) -> Result<String, Failure> {
    let (scenario, setup) = load(file, set)?;
    let (_, need) = work::checked(&scenario, &setup, MOST_TRANSFERS)?;
    let (nodes, fabric, kind) = (setup.network.nodes(), scenario.protocol, scenario.workload.kind());
    let (file, hash) = (file.display(), scenario.hash());
    let memory = words(&need);
    Ok(format!("{file}: can be run: {nodes} nodes, {fabric}, {kind}; scenario {hash}\n{memory}\n"))
}

/// Describes the memory that a scenario will need, and the largest parts of it.
fn words(need: &Need) -> String {
    let parts = need.parts.iter().filter(|part| !part.key.is_empty() && part.bytes >= 1024.0);
    let part = |part: &NeedPart| format!("{} {} ({})", part.what, rounded(part.bytes), part.key);
    let parts: Vec<String> = parts.take(MOST_PARTS).map(part).collect();
    let rest = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("memory: about {}{rest}", rounded(need.bytes()))
}

/// Maximum number of parts that are listed.
const MOST_PARTS: usize = 4;

fn draw(file: &Path, set: &[String]) -> Result<String, Failure> {
    let topology = load(file, set)?.1.network.topology;
    match topology.nodes() {
        nodes if nodes > MOST_DRAWN => Err(Failure::Usage(format!(
            "a picture of {nodes} nodes is illegible: draw at most {MOST_DRAWN}, by --set network.topology..."
        ))),
        _ => Ok(topology.draw()),
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Failure {
        ScenarioRunError::from(error).into()
    }
}
