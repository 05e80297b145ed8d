//! The `unrack` command: thin, no logic of its own.
//!
//! A verb is a variant of [`Verb`], with its help text there, and a module of its name with
//! `pub struct Args` and `pub fn main(args: Args) -> Result<ExitCode, Failure>`.

mod failure;
mod run;
mod touch;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Takes a program's memory away and says what every fabric would do to it.
#[derive(Parser)]
#[command(name = "unrack", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done, 1 failed while running, 2 bad usage or scenario, 3 the machine \
                        lacks something needed; `unrack run` else ends with the program's own."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs a program with part of its memory remote
    #[command(after_help = run::EXAMPLES)]
    Run(run::Args),
    /// Touches memory in a circle; `unrack` runs it to find out what its own pager costs
    #[command(name = "__touch", hide = true)]
    Touch(touch::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Run(args) => run::main(args),
        Verb::Touch(args) => touch::main(args),
    };
    done.unwrap_or_else(|failure| failure.tell())
}
