//! `unrack phy`: frames and memory messages as the blocks on a line.

mod decode;
mod encode;
mod trace;

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_input::{WIDTH, clipped_to};

pub(crate) const EXAMPLES: &str = "\
Examples:
  echo 'read node=1 id=2 address=0x40 bytes=64' | unrack phy encode     a line for each block
  unrack phy encode frames.txt | unrack phy decode                      and back
  unrack phy trace examples/phy.txt                                     cycle by cycle, through a switch
  unrack phy trace examples/phy.txt --pcap run.pcapng --vcd run.vcd

docs/phy.md has the verbs of these files, and every bit of the blocks.";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Lists the blocks of frames and messages, one a cycle
    Encode(encode::Args),
    /// Reads such a list, and says what frames and messages are in it
    Decode(decode::Args),
    /// Runs requests and frames through nodes and a switch, and lists what crosses each link
    Trace(trace::Args),
}

/// Runs `unrack phy`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Encode(args) => encode::main(args),
        Verb::Decode(args) => decode::main(args),
        Verb::Trace(args) => trace::main(args),
    }
}

/// Maximum bytes of input: some million blocks or frames.
const MOST_BYTES: u64 = 256 << 20;

/// Input: a file, or stdin.
#[derive(clap::Args)]
struct Input {
    /// File to read; stdin by default
    file: Option<PathBuf>,
}

impl Input {
    /// Parses each line that is not empty. An error names the file and the line.
    fn lines<T>(&self, parse: impl Fn(&str) -> Result<Option<T>, String>) -> Result<Vec<T>, Failure> {
        let name = self.file.as_deref().unwrap_or(Path::new("stdin")).display().to_string();
        let text = match &self.file {
            Some(path) => unrack_input::read_text(path, MOST_BYTES),
            None => unrack_input::read_stdin(MOST_BYTES),
        };
        let text = text.map_err(|why| Failure::Usage(why.to_string()))?;
        let mut items = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let refused = |why: String| {
                Failure::Usage(format!("{name}, line {number}: {}", clipped_to(&why, 2 * WIDTH)))
            };
            items.extend(parse(line).map_err(refused)?);
        }
        Ok(items)
    }
}
