//! `unrack phy decode`: prints the frames and messages in a list of blocks.

use super::input::BlockInput;
use crate::failure::CommandFailure;
use crate::stdout::print;
use std::process::ExitCode;
use unrack_phy::Block;
use unrack_phy::edm::demux::{MemoryBlock, WrongBlocks};
use unrack_phy::edm::{
    Assembler, Body, ControlFields, Demux, Event, Malformed, MemoryMessage, MuxPolicy, RmwOperation,
};
use unrack_phy::mac::{Deframer, FrameError};
use unrack_phy::pcs::{BlockDecoder, Descrambler};
use unrack_phy::text::{hex, listing};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: BlockInput,
    /// The payloads are scrambled, as they are on the line
    #[arg(long)]
    scrambled: bool,
    /// Memory messages had priority, instead of taking turns with a frame
    #[arg(long)]
    strict: bool,
}

/// Runs `unrack phy decode`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let policy = if args.strict { MuxPolicy::Strict } else { MuxPolicy::Fair };
    let (mut demux, mut assembler) = (Demux::new(policy), Assembler::default());
    let (mut decoder, mut deframer, mut descrambler) =
        (BlockDecoder::default(), Deframer::default(), Descrambler::default());
    let mut text = String::new();
    let mut say = |cycle: u64, what: String| text.push_str(&format!("{cycle:>8}  {what}\n"));
    let mut damaged = false;
    let mut cycle = 0;
    let mut blocks = args.input.lines(listing::parse)?.into_iter();
    let mut idle = 3;
    loop {
        // After the last line of input, idle blocks push out the blocks that the demultiplexer still holds.
        let block = match blocks.next() {
            Some(block) if args.scrambled => {
                Block { payload: descrambler.descramble(block.payload), ..block }
            }
            Some(block) => block,
            None if demux.kept() > 0 || idle > 0 => {
                idle -= usize::from(demux.kept() == 0);
                Block::IDLE
            }
            None => break,
        };
        let before = demux.wrong();
        let received = demux.tick(block);
        let event = match received.memory {
            Some(MemoryBlock::Block(block)) => assembler.handle(block),
            Some(MemoryBlock::Broken) => assembler.broken().map(Err),
            None => None,
        };
        match &event {
            Some(Ok(event)) => say(cycle, event_text(event)),
            Some(Err(why)) => say(cycle, format!("damaged: {}", malformed_text(*why))),
            None => {}
        }
        if demux.wrong() != before {
            say(cycle, format!("damaged: {}", wrong_text(before, demux.wrong())));
        }
        damaged |= demux.wrong() != before || matches!(event, Some(Err(_)));
        match deframer.handle(decoder.decode(received.to_decoder)) {
            Some(Ok(frame)) => say(cycle, format!("frame hex={}", hex(frame))),
            Some(Err(why)) => {
                damaged = true;
                say(cycle, format!("damaged: {}", frame_text(why)));
            }
            None => {}
        }
        cycle += 1;
    }
    print(&text)?;
    // Damaged input is a usage error.
    Ok(ExitCode::from(if damaged { 2 } else { 0 }))
}

/// Formats an event as a line of a script.
fn event_text(event: &Event) -> String {
    let control =
        |ControlFields { node, id, size, .. }: &ControlFields| format!("node={node} id={id} bytes={size}");
    match event {
        Event::Notification(notification) => format!("notify {}", control(notification)),
        Event::Grant(grant) => {
            let of = if grant.kind == unrack_phy::edm::Kind::Write { "write" } else { "response" };
            format!("grant {} of={of}", control(grant))
        }
        Event::Message(MemoryMessage { node, id, body }) => {
            let (verb, rest) = body_text(body);
            format!("{verb} node={node} id={id}{rest}")
        }
    }
}

fn body_text(body: &Body) -> (&'static str, String) {
    match body {
        Body::Read { address, bytes } => ("read", format!(" address={address:#x} bytes={bytes}")),
        Body::Write { address, data, last } => {
            let last = if *last { "" } else { " last=no" };
            ("write", format!(" address={address:#x}{last} hex={}", hex(data)))
        }
        Body::Modify { address, operation } => {
            let (verb, operands) = match operation {
                RmwOperation::CompareSwap { expected, new } => {
                    ("cas", format!(" expected={expected:#x} new={new:#x}"))
                }
                RmwOperation::FetchAdd { addend } => ("add", format!(" addend={addend:#x}")),
                RmwOperation::Swap { new } => ("swap", format!(" new={new:#x}")),
            };
            (verb, format!(" address={address:#x}{operands}"))
        }
        Body::Response { last, data } => {
            let last = if *last { "" } else { " last=no" };
            let data = if data.is_empty() { String::new() } else { format!(" hex={}", hex(data)) };
            ("response", format!("{last}{data}"))
        }
    }
}

fn malformed_text(why: Malformed) -> &'static str {
    match why {
        Malformed::Field => "an invalid field, or a field whose check fails",
        Malformed::Unfinished => "a message that begins before the previous one has ended",
        Malformed::Short => "a message that ends before its last byte",
        Malformed::Long => "a message that continues after its last byte",
        Malformed::Stray => "a part of no message",
        Malformed::Check => "a message whose check fails",
        Malformed::Broken => "a message that lost a block",
        Malformed::Marked => "a message that the switch ended",
    }
}

fn wrong_text(before: WrongBlocks, after: WrongBlocks) -> &'static str {
    if after.headers > before.headers {
        "a sync header of 00 or 11"
    } else if after.types > before.types {
        "an unknown block type"
    } else if after.strays > before.strays {
        "data or an end outside of frames and messages"
    } else {
        "a frame that does not end, or is too long"
    }
}

fn frame_text(why: FrameError) -> &'static str {
    match why {
        FrameError::Broken => "a frame that is broken off",
        FrameError::Preamble => "a frame without delimiter",
        FrameError::Short => "a frame of less than 64 B",
        FrameError::Long => "a frame that is too long",
        FrameError::Fcs => "a frame whose FCS fails",
    }
}
