//! `unrack phy`: frames and memory messages as the blocks on a line.

mod decode;
mod encode;
mod input;
mod trace;

use crate::failure::CommandFailure;
use std::process::ExitCode;

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
    /// Reads such a list, and shows the frames and messages in it
    Decode(decode::Args),
    /// Runs requests and frames through nodes and a switch, and lists what crosses each link
    Trace(trace::Args),
}

/// Runs `unrack phy`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        Verb::Encode(args) => encode::main(args),
        Verb::Decode(args) => decode::main(args),
        Verb::Trace(args) => trace::main(args),
    }
}
