//! `unrack rpc`: calls by reference over a pool.

mod bench;
mod between;
mod check;
mod ls;

use crate::failure::CommandFailure;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack rpc ls                               services, who offers them, and who is connected
  unrack rpc ls --json --socket /run/user/1000/unrack/pool.sock
  unrack rpc bench                            what calls cost here";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Lists the services of a pool
    Ls(ls::Args),
    /// Measures calls between two processes on this machine
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::Args),
    /// Compares every byte of calls and streams, between processes or hosts that share a pool
    #[command(after_help = check::EXAMPLES)]
    Check(check::Args),
    /// The server of `unrack rpc bench`
    #[command(name = "__serve", hide = true)]
    Serve(bench::ServeArgs),
}

/// Runs `unrack rpc`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        Verb::Ls(args) => ls::main(args),
        Verb::Bench(args) => bench::main(args),
        Verb::Check(args) => check::main(args),
        Verb::Serve(args) => bench::serve(args),
    }
}

impl From<unrack_rpc::Error> for CommandFailure {
    fn from(error: unrack_rpc::Error) -> CommandFailure {
        match error {
            unrack_rpc::Error::Pool(error) => error.into(),
            unrack_rpc::Error::Version { .. } => CommandFailure::Lacking(error.to_string()),
            error => CommandFailure::Failed(error.to_string()),
        }
    }
}
