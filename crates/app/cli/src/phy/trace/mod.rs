//! `unrack phy trace`: runs requests and frames through nodes and a switch, cycle by cycle.

mod files;

use super::input::BlockInput;
use crate::failure::CommandFailure;
use crate::stdout::print;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_phy::edm::{Body, MuxPolicy};
use unrack_phy::mac::Framer;
use unrack_phy::pcs::Encoder;
use unrack_phy::stack::{Completion, HostConfig, Request, RequestOutcome, SwitchConfig, Testbed};
use unrack_phy::text::script::{self, Fields};
use unrack_phy::text::{hex, listing, picture};
use unrack_protocol::edm::{GrantPolicy as Order, steps};
use unrack_record::atomic_write;
use unrack_record::waves::{Fst, Vcd};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: BlockInput,
    /// Nodes at the switch
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=512))]
    nodes: u16,
    /// Bytes that one grant allows
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    chunk: u16,
    /// Memory messages have priority, instead of taking turns with a frame
    #[arg(long)]
    strict: bool,
    /// Cycles that a block takes between two PCS
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    wire: u16,
    /// Cycles after which the run stops, even if messages are still in flight
    #[arg(long, default_value_t = 100_000)]
    cycles: u64,
    /// Write messages and frames to a capture
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write the blocks of each link as waveforms
    #[arg(long, value_name = "FILE")]
    vcd: Option<PathBuf>,
    /// Write the same waveforms as fast signal trace (FST), which is much smaller
    #[arg(long, value_name = "FILE")]
    fst: Option<PathBuf>,
    /// Draw the blocks of each link as SVG, around the blocks of memory messages
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// An action and its cycle.
struct Step {
    at: u64,
    what: TraceAction,
}

enum TraceAction {
    Request { from: u16, request: Request },
    Frame { node: u16, up: bool, contents: Vec<u8> },
}

/// Runs `unrack phy trace`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let mut steps = args.input.lines(|line| parse(line, args.nodes))?;
    steps.sort_by_key(|step| step.at);
    let mut bed = testbed(&args);
    bed.crossings = Some(Vec::new());
    let mut completions = Vec::new();
    let mut steps = steps.into_iter().peekable();
    while bed.now() < args.cycles && (steps.peek().is_some() || !bed.is_idle()) {
        let now = bed.now();
        while let Some(step) = steps.next_if(|step| step.at <= now) {
            begin(&mut bed, step);
        }
        bed.tick();
        for (node, host) in bed.hosts.iter_mut().enumerate() {
            completions.extend(host.completions().map(|completion| (node, completion)));
        }
    }
    let crossings = bed.crossings.take().unwrap_or_default();
    let period = steps::PCS_CYCLE.as_ps();
    if let Some(path) = &args.pcap {
        files::capture(path, &crossings, policy(&args))?;
    }
    if let Some(path) = &args.vcd {
        files::waves(Vcd::create(path, period)?, &crossings, args.nodes, bed.now())?;
    }
    if let Some(path) = &args.fst {
        files::waves(Fst::create(path, period)?, &crossings, args.nodes, bed.now())?;
    }
    if let Some(path) = &args.svg {
        atomic_write(path, picture::draw(&crossings, args.nodes, policy(&args)).as_bytes())?;
    }
    let mut text = String::new();
    for crossing in &crossings {
        let way = if crossing.up { "up" } else { "down" };
        let line = listing::line(crossing.cycle, crossing.block);
        writeln!(text, "node {:<3} {way:<4} {line}", crossing.node).expect("strings take all");
    }
    for (node, completion) in &completions {
        writeln!(text, "node {node:<3} {}", done(completion)).expect("strings take all");
    }
    for (node, memory) in bed.memory.iter().enumerate() {
        for (address, bytes, first, at) in &memory.writes {
            writeln!(
                text,
                "node {node:<3} {bytes} B written at {address:#x}: first block in cycle {first}, last in {at}"
            )
            .expect("strings take all");
        }
    }
    print(&text)?;
    match steps.peek().is_some() || !bed.is_idle() {
        true => Err(CommandFailure::Failed(format!(
            "not finished after {} cycles: allow more with --cycles",
            args.cycles
        ))),
        false => Ok(ExitCode::SUCCESS),
    }
}

fn testbed(args: &Args) -> Testbed {
    let switch = SwitchConfig {
        ports: args.nodes,
        chunk: args.chunk,
        policy: Order::Srpt,
        cycle: steps::PCS_CYCLE,
        counts_control: true,
    };
    let host = HostConfig { node: 0, chunk: args.chunk, max_active: 3, mega: None, timeout: Some(50_000) };
    Testbed::new(switch, host, policy(args), usize::from(args.wire))
}

fn policy(args: &Args) -> MuxPolicy {
    if args.strict { MuxPolicy::Strict } else { MuxPolicy::Fair }
}

fn parse(line: &str, nodes: u16) -> Result<Option<Step>, String> {
    let Some(mut fields) = Fields::parse(line)? else { return Ok(None) };
    let at = fields.number_or("at", u64::MAX, 0)?;
    let last = u64::from(nodes) - 1;
    let what = if fields.verb == "frame" {
        let up = fields.has("from");
        let node = fields.number(if up { "from" } else { "to" }, last)? as u16;
        TraceAction::Frame { node, up, contents: script::frame(&mut fields)? }
    } else {
        let (from, dst) = (fields.number("from", last)? as u16, fields.number("node", last)? as u16);
        if from == dst {
            return Err(format!("node {from} asks itself"));
        }
        let request = match script::body(&mut fields)? {
            Body::Read { address, bytes } => Request::Read { dst, address, bytes },
            Body::Write { address, data, .. } => Request::Write { dst, address, data },
            Body::Modify { address, operation } => Request::Modify { dst, address, operation },
            Body::Response { .. } => return Err("a response comes by itself".into()),
        };
        TraceAction::Request { from, request }
    };
    fields.finish()?;
    Ok(Some(Step { at, what }))
}

fn begin(bed: &mut Testbed, step: Step) {
    match step.what {
        TraceAction::Request { from, request } => {
            let now = bed.now();
            bed.hosts[usize::from(from)].submit(now, request);
        }
        TraceAction::Frame { node, up, contents } => {
            let (mut framer, mut encoder, mut columns) = (Framer::default(), Encoder::default(), Vec::new());
            framer.frame(&contents, &mut columns);
            framer.idle(1, &mut columns);
            let blocks = columns.into_iter().map(|column| encoder.encode(column));
            if up { bed.stars[0].send_up(node, blocks) } else { bed.stars[0].send_down(node, blocks) }
        }
    }
}

fn done(completion: &Completion) -> String {
    let Completion { ticket, outcome, first, at } = completion;
    let what = match outcome {
        RequestOutcome::Answer(data) => {
            format!("answered with {} B {}", data.len(), hex(&data[..data.len().min(16)]))
        }
        RequestOutcome::Sent => "sent".into(),
        RequestOutcome::Null => "answered with NULL".into(),
    };
    format!("request {ticket} {what}: first block in cycle {first}, last in {at}")
}
