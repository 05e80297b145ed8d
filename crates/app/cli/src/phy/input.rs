//! Input of `unrack phy`, line by line.

use crate::failure::CommandFailure;
use std::path::{Path, PathBuf};
use unrack_input::{WIDTH, clipped_to};

/// Maximum bytes of input: some million blocks or frames.
const MOST_BYTES: u64 = 256 << 20;

/// Input: a file, or stdin.
#[derive(clap::Args)]
pub(super) struct BlockInput {
    /// File to read; stdin by default
    file: Option<PathBuf>,
}

impl BlockInput {
    /// Parses each line that is not empty. An error names the file and the line.
    pub(super) fn lines<T>(
        &self,
        parse: impl Fn(&str) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, CommandFailure> {
        let name = self.file.as_deref().unwrap_or(Path::new("stdin")).display().to_string();
        let text = match &self.file {
            Some(path) => unrack_input::read_text(path, MOST_BYTES),
            None => unrack_input::read_stdin(MOST_BYTES),
        };
        let text = text.map_err(|why| CommandFailure::Usage(why.to_string()))?;
        let mut items = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let refused = |why: String| {
                CommandFailure::Usage(format!("{name}, line {number}: {}", clipped_to(&why, 2 * WIDTH)))
            };
            items.extend(parse(line).map_err(refused)?);
        }
        Ok(items)
    }
}
