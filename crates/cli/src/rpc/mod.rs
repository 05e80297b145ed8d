//! `unrack rpc`: calls by reference over a pool.

mod ls;

use crate::failure::Failure;
use std::process::ExitCode;

pub const EXAMPLES: &str = "\
Examples:
  unrack rpc ls                               services, who offers them, and who is connected
  unrack rpc ls --json --socket /run/user/1000/unrack/pool.sock";

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Lists the services of a pool
    Ls(ls::Args),
}

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Ls(args) => ls::main(args),
    }
}
