//! `unrack scenario`: checks whether a scenario can be run, prints its complete text, or draws its network.

use crate::completions;
use crate::failure::CommandFailure;
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
  unrack scenario check rack.toml
  unrack scenario explain rack.toml --set network.link.rate=400Gbps
  unrack scenario draw rack.toml > rack.svg

Errors are shown with their line, and end with status 2; a scenario that needs more memory than there is ends with \
3. \
`check` estimates the memory of a run, and also reads the files that the \
scenario names. The output of `explain` is itself a scenario, with every default; keys and tables without a value \
are comments that explain them.";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Checks whether a scenario can be run, and estimates the memory of the run
    Check(ScenarioArgs),
    /// Prints a scenario with every value and its origin
    Explain(ScenarioArgs),
    /// Prints a picture of the scenario's network as SVG
    Draw(ScenarioArgs),
}

#[derive(clap::Args)]
struct ScenarioArgs {
    /// The scenario file, or - for standard input
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Replace a value of the file
    #[arg(long, value_name = "KEY=VALUE", add = ArgValueCompleter::new(completions::settings))]
    set: Vec<String>,
}

/// The verbs as the flags that they were before, for scripts that still use them.
#[derive(clap::Args)]
struct Flags {
    #[arg(long, hide = true, value_name = "FILE", conflicts_with_all = ["explain", "draw"])]
    check: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE", conflicts_with = "draw")]
    explain: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE")]
    draw: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Flags {
    /// Returns the verb that the flags name.
    fn verb(self) -> Option<Verb> {
        let Flags { check, explain, draw, set } = self;
        let given = |file| ScenarioArgs { file, set: set.clone() };
        let explain = || explain.map(|file| Verb::Explain(given(file)));
        check
            .map(|file| Verb::Check(given(file)))
            .or_else(explain)
            .or_else(|| draw.map(|file| Verb::Draw(given(file))))
    }
}

/// Runs `unrack scenario`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let Some(verb) = args.verb.or_else(|| args.flags.verb()) else {
        return Err(CommandFailure::Usage("give a verb: check, explain or draw".into()));
    };
    let text = match verb {
        Verb::Check(ScenarioArgs { file, set }) => check(&file, &set)?,
        Verb::Explain(ScenarioArgs { file, set }) => load(&file, &set)?.0.explain(),
        Verb::Draw(ScenarioArgs { file, set }) => draw(&file, &set)?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads a scenario file with settings, and builds its network and fabric. Fails if there is too little memory.
pub(crate) fn load(file: &Path, set: &[String]) -> Result<(ValidScenario, Setup), CommandFailure> {
    Ok(ScenarioOrigin::named(file)?.load(set)?)
}

fn check(file: &Path, set: &[String]) -> Result<String, CommandFailure> {
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

fn draw(file: &Path, set: &[String]) -> Result<String, CommandFailure> {
    let topology = load(file, set)?.1.network.topology;
    match topology.nodes() {
        nodes if nodes > MOST_DRAWN => Err(CommandFailure::Usage(format!(
            "a picture of {nodes} nodes is illegible: draw at most {MOST_DRAWN}, by --set network.topology..."
        ))),
        _ => Ok(topology.draw()),
    }
}

impl From<ScenarioError> for CommandFailure {
    fn from(error: ScenarioError) -> CommandFailure {
        ScenarioRunError::from(error).into()
    }
}
