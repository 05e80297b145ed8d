//! `unrack completions`: scripts by which shells complete our command lines.

use crate::failure::Failure;
use crate::stdout::print;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  source <(unrack completions bash)                                      in ~/.bashrc
  unrack completions fish > ~/.config/fish/completions/unrack.fish
  unrack completions zsh > _unrack                                       in a folder of $fpath";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs `unrack completions`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "unrack", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
