//! The `unrack` command. It parses arguments, calls the other crates, and prints their results; it contains no logic beyond that.
//!
//! A verb (subcommand) is a variant of [`Verb`], which has its help text, and a module of the same name with `pub struct Args` and `pub fn
//! main(args: Args) -> Result<ExitCode, Failure>`. To follow a verb through the code, start at its variant. The main verb is `compare`.
//!
//! The command is also a library: a program that implements additional fabrics registers them ([`unrack_sim::register`]) and calls
//! [`main`], and thereby has the same command line (`docs/extending.md`).

mod budget;
mod compare;
mod completions;
mod definition;
mod diff;
mod docs;
mod doctor;
mod fail_if;
mod failure;
mod folder;
mod keys;
mod last_words;
mod lines;
mod man;
mod map;
mod memory;
mod parent;
mod phy;
mod points_bar;
mod pool;
mod rack;
mod report;
mod rpc;
mod run;
mod runs;
mod scenario;
mod schema;
mod separator;
mod sim;
mod sockets;
mod stdout;
mod steps;
mod study;
mod swap;
mod sweep;
mod touch;

use clap::{CommandFactory, Parser, Subcommand};
use failure::CommandFailure;
use std::process::ExitCode;
use unrack_paging::Placeholder;
use unrack_swap::Undo;

/// Runs programs with part of their memory remote, and predicts their slowdown on network fabrics.
#[derive(Parser)]
#[command(name = "unrack", version, long_version = unrack_build::version(), arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done; 1 failed while running, or --fail-if held; 2 bad usage or scenario; 3 the \
    machine lacks something needed; of `unrack run` otherwise the program's own."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compares fabrics by the slowdown of a program with part of its memory remote: the main job
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Args),
    /// Maps a program's slowdown over latency, bandwidth and local share
    #[command(after_help = map::EXAMPLES)]
    Map(map::Args),
    /// Records a program's loads and stores, and measures this machine's caches
    #[command(after_help = lines::EXAMPLES)]
    Lines(lines::Args),
    /// Validates the predicted slowdown against the kernel's swap
    #[command(after_help = swap::EXAMPLES)]
    Swap(swap::Args),
    /// Runs a program with part of its memory remote
    #[command(after_help = run::EXAMPLES)]
    Run(run::Args),
    /// Serves memory to programs that page from it over TCP or shared memory
    #[command(after_help = memory::EXAMPLES)]
    Memory(memory::Args),
    /// Makes and trusts the keys of connections beyond this machine
    #[command(after_help = keys::EXAMPLES)]
    Keys(keys::Args),
    /// Serves and lists memory that programs share by reference
    #[command(after_help = pool::EXAMPLES)]
    Pool(pool::Args),
    /// Builds racks on this machine, and runs programs in them
    #[command(after_help = rack::EXAMPLES)]
    Rack(rack::Args),
    /// Shows and measures calls by reference over a pool
    #[command(after_help = rpc::EXAMPLES)]
    Rpc(rpc::Args),
    /// Runs a program whose stream sockets pass bytes by reference
    #[command(after_help = sockets::EXAMPLES)]
    Sockets(sockets::Args),
    /// Shows frames and memory messages as the 66-bit blocks of a line, and runs them through a switch
    #[command(after_help = phy::EXAMPLES)]
    Phy(phy::Args),
    /// Simulates a scenario
    #[command(after_help = sim::EXAMPLES)]
    Sim(sim::Args),
    /// Simulates a scenario over a grid of values, on all cores
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(sweep::Args),
    /// Reproduces published results of papers, and compares ours with them
    #[command(after_help = study::EXAMPLES)]
    Study(study::Args),
    /// Checks a scenario, or prints it in full
    #[command(after_help = scenario::EXAMPLES)]
    Scenario(scenario::Args),
    /// Prints the JSON Schema of scenarios, for editors
    #[command(after_help = schema::EXAMPLES)]
    Schema(schema::Args),
    /// Compares two run folders, and shows which differences exceed the noise
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::Args),
    /// Makes one HTML page from run folders
    #[command(after_help = report::EXAMPLES)]
    Report(report::Args),
    /// Lists the verbs that can run on this machine, and the requirements that are missing for the others
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Args),
    /// Opens the documentation
    #[command(after_help = docs::EXAMPLES)]
    Docs(docs::Args),
    /// Writes manual pages
    #[command(after_help = man::EXAMPLES)]
    Man(man::Args),
    /// Prints scripts for shell completion
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::Args),
    /// Prints verbs and their arguments as JSON; Python's functions are made from it
    #[command(name = "__definition", hide = true)]
    Definition,
    /// Makes runs of a program for the library that asks for them
    #[command(name = unrack_compare::RUNS_VERB, hide = true)]
    Runs,
    /// Touches memory in a circle; `unrack` runs it to find out what its own pager costs
    #[command(name = "__touch", hide = true)]
    Touch(touch::Args),
    /// Touches memory; `unrack swap` runs it to find out what the kernel's faults cost
    #[command(name = "__touch-swap", hide = true)]
    TouchSwap(swap::TouchArgs),
}

#[global_allocator]
static ALLOCATOR: last_words::Noting = last_words::Noting;

/// Parses the arguments of the process, runs the subcommand, and returns the exit status.
pub fn main() -> ExitCode {
    parent::end_with_it();
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    last_words::install();
    let arguments: Vec<_> = std::env::args_os().collect();
    let verb = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli.verb,
        Err(error) => {
            match separator::missing(&error, &arguments, |tried| Cli::try_parse_from(tried).is_ok()) {
                Some(failure) => return failure.tell(),
                None => error.exit(),
            }
        }
    };
    let begun = match begin(&verb) {
        Ok(begun) => begun,
        Err(failure) => return failure.tell(),
    };
    let status = run_verb(verb, begun.undo, begun.placeholder.as_ref()).unwrap_or_else(CommandFailure::tell);
    // The placeholder is dropped last, because the program's parent then learns that the program has ended.
    drop(begun.placeholder);
    status
}

/// Preparations of a subcommand, made before its work.
#[derive(Default)]
struct PreparedVerb {
    /// Seat of the program that `run` becomes.
    placeholder: Option<Placeholder>,
    /// Shell that reverts the changes that `swap` makes to the machine.
    undo: Option<Undo>,
}

/// Removes the remains of killed processes, and starts the guard for subcommands that run programs.
fn begin(verb: &Verb) -> Result<PreparedVerb, CommandFailure> {
    // These subcommands are part of another process's run.
    if let Verb::Touch(_) | Verb::TouchSwap(_) = verb {
        return Ok(PreparedVerb::default());
    }
    unrack_paging::sweep();
    match verb {
        Verb::Run(args) if args.pid.is_some() => {
            unrack_paging::stand_aside()?;
            Ok(PreparedVerb::default())
        }
        Verb::Run(args) => {
            Ok(PreparedVerb { placeholder: unrack_paging::become_placeholder(&args.command)?, undo: None })
        }
        Verb::Compare(_) | Verb::Map(_) | Verb::Lines(_) | Verb::Runs => {
            unrack_paging::stand_guard()?;
            Ok(PreparedVerb::default())
        }
        Verb::Swap(_) => {
            // The shell that undoes changes is started before the guard, because the guard later ends all of its children except those that
            // existed before it.
            let undo = Undo::stand_by()?;
            unrack_paging::stand_guard()?;
            Ok(PreparedVerb { placeholder: None, undo: Some(undo) })
        }
        _ => Ok(PreparedVerb::default()),
    }
}

fn run_verb(
    verb: Verb,
    undo: Option<Undo>,
    placeholder: Option<&Placeholder>,
) -> Result<ExitCode, CommandFailure> {
    match verb {
        Verb::Compare(args) => compare::main(args),
        Verb::Map(args) => map::main(args),
        Verb::Lines(args) => lines::main(args),
        Verb::Run(args) => run::main(args, placeholder),
        Verb::Swap(args) => swap::main(args, undo.expect("it was begun with the verb")),
        Verb::Memory(args) => memory::main(args),
        Verb::Keys(args) => keys::main(args),
        Verb::Pool(args) => pool::main(args),
        Verb::Rack(args) => rack::main(args),
        Verb::Rpc(args) => rpc::main(args),
        Verb::Sockets(args) => sockets::main(args),
        Verb::Phy(args) => phy::main(args),
        Verb::Sim(args) => sim::main(args),
        Verb::Sweep(args) => sweep::main(args),
        Verb::Study(args) => study::main(args),
        Verb::Scenario(args) => scenario::main(args),
        Verb::Schema(args) => schema::main(args),
        Verb::Diff(args) => diff::main(args),
        Verb::Report(args) => report::main(args),
        Verb::Doctor(args) => doctor::main(args),
        Verb::Docs(args) => docs::main(args),
        Verb::Man(args) => man::main(args, Cli::command()),
        Verb::Completions(args) => completions::main(args),
        Verb::Definition => definition::main(Cli::command()),
        Verb::Runs => runs::main(),
        Verb::Touch(args) => touch::main(args),
        Verb::TouchSwap(args) => args.main(),
    }
}
