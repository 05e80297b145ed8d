//! `unrack __touch`: see `unrack_paging::calibrate`.

use crate::failure::Failure;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_: Args) -> Result<ExitCode, Failure> {
    unrack_paging::calibrate::touch(std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
