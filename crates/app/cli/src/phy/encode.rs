//! `unrack phy encode`: prints the blocks of frames and messages.

use super::input::BlockInput;
use crate::failure::CommandFailure;
use crate::stdout::print;
use std::fmt::Write;
use std::process::ExitCode;
use unrack_phy::Block;
use unrack_phy::edm::layout;
use unrack_phy::mac::Framer;
use unrack_phy::pcs::{Encoder, Scrambler};
use unrack_phy::text::listing;
use unrack_phy::text::script::{self, Item};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: BlockInput,
    /// Scramble the payloads, as they are on the line
    #[arg(long)]
    scrambled: bool,
}

/// Runs `unrack phy encode`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let (mut framer, mut encoder) = (Framer::default(), Encoder::default());
    let mut scrambler = Scrambler::default();
    let mut blocks = Vec::new();
    let mut columns = Vec::new();
    for item in args.input.lines(script::parse)? {
        match item {
            Item::Frame(contents) => framer.frame(&contents, &mut columns),
            Item::Idle(count) => framer.idle(count, &mut columns),
            Item::Message(message) => message.blocks(&mut blocks),
            Item::Notification(control) => blocks.push(control.block(layout::N)),
            Item::Grant(control) => blocks.push(control.block(layout::G)),
        }
        blocks.extend(columns.drain(..).map(|column| encoder.encode(column)));
    }
    // The last column of a frame may be the first of the next frame, so an idle column completes the last frame.
    framer.idle(1, &mut columns);
    blocks.extend(columns.drain(..).map(|column| encoder.encode(column)));
    let mut text = String::new();
    for (cycle, block) in (0..).zip(blocks) {
        let line = if args.scrambled {
            let block = Block { payload: scrambler.scramble(block.payload), ..block };
            format!("{cycle:>8}  {:02b} {:016x}", block.header, block.payload)
        } else {
            listing::line(cycle, block)
        };
        writeln!(text, "{line}").expect("strings take all");
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
