//! `unrack phy`: frames and memory messages as the blocks of a line.

mod decode;
mod encode;
mod trace;

use crate::failure::Failure;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const EXAMPLES: &str = "\
Examples:
  echo 'read node=1 id=2 address=0x40 bytes=64' | unrack phy encode     a line for each block
  unrack phy encode frames.txt | unrack phy decode                      and back
  unrack phy trace examples/phy.txt                                     cycle by cycle, through a switch
  unrack phy trace examples/phy.txt --pcap run.pcapng --vcd run.vcd

docs/phy.md has the verbs of these files, and every bit of the blocks.";

#[derive(clap::Args)]
pub struct Args {
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

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Encode(args) => encode::main(args),
        Verb::Decode(args) => decode::main(args),
        Verb::Trace(args) => trace::main(args),
    }
}

/// What to read: a file, or stdin.
#[derive(clap::Args)]
struct Input {
    /// A file; stdin if there is none
    file: Option<PathBuf>,
}

impl Input {
    /// What `parse` makes of each line that says something. A refusal names file and line.
    fn lines<T>(&self, parse: impl Fn(&str) -> Result<Option<T>, String>) -> Result<Vec<T>, Failure> {
        let name = self.file.as_deref().unwrap_or(Path::new("stdin")).display().to_string();
        let mut bytes = Vec::new();
        match &self.file {
            Some(path) => std::fs::read(path).map(|read| bytes = read),
            None => std::io::stdin().lock().read_to_end(&mut bytes).map(drop),
        }
        .map_err(|why| Failure::Usage(format!("cannot read {name}: {why}")))?;
        let text = String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("{name} is no text")))?;
        let mut items = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let parsed =
                parse(line).map_err(|why| Failure::Usage(format!("{name}, line {number}: {why}")))?;
            items.extend(parsed);
        }
        Ok(items)
    }
}
