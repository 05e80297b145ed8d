//! `unrack __touch`: the program that measures the pager's cost; see `unrack_paging::calibrate`.

use crate::failure::CommandFailure;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {}

/// Touches memory in passes, and prints the time of each pass on stdout.
pub(crate) fn main(_: Args) -> Result<ExitCode, CommandFailure> {
    unrack_paging::calibrate::touch(std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
