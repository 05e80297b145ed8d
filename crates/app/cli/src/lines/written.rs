//! Output of `unrack lines run` and `unrack lines map`.

use crate::failure::CommandFailure;
use crate::stdout::print_answer;
use std::path::Path;
use std::process::ExitCode;
use unrack_record::{LinesSummary, write_json};

/// Prints an answer, and also writes it to the file `json` if one is named.
pub(super) fn write(summary: &LinesSummary, json: Option<&Path>) -> Result<ExitCode, CommandFailure> {
    json.map(|path| write_json(path, summary)).transpose()?;
    print_answer(&unrack_report::lines_text(summary))?;
    Ok(ExitCode::SUCCESS)
}
