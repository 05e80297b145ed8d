//! `unrack schema`: prints the JSON Schema of scenario files, for editors.

use crate::failure::CommandFailure;
use crate::stdout::print;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack schema > unrack.schema.json
  taplo lint --schema file://$PWD/unrack.schema.json rack.toml

Editors that use taplo or another TOML language server complete and check scenarios by it; a first line
  #:schema ./unrack.schema.json
in a scenario names it. It says which keys there are, of which type; `unrack scenario check` checks the rest.";

#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs `unrack schema`.
pub(crate) fn main(Args {}: Args) -> Result<ExitCode, CommandFailure> {
    let text = serde_json::to_string_pretty(&unrack_sim::schema()).expect("JSON values are printed");
    print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
