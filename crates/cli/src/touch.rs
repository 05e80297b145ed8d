//! `unrack __touch`.

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_: Args) -> Result<std::process::ExitCode, crate::Failure> {
    Err(crate::Failure::Failed("not built yet".into()))
}
