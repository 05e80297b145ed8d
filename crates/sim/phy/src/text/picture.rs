//! Picture (SVG) of the blocks around memory messages. It has a row for each direction of each link and a column for
//! each cycle.

use super::listing;
use crate::block::{Block, types};
use crate::edm::layout::{ControlFields, G, Kind, MS, MST, N, Short, StartFields};
use crate::edm::{Demux, MuxPolicy};
use crate::stack::testbed::BlockInFlight;
use std::fmt::Write;
use std::ops::Range;
use unrack_protocol::edm::steps::PCS_CYCLE;

/// Number of cycles that the picture shows before the first memory block and after the last one.
const AROUND: u64 = 8;
/// Maximum number of cycles that the picture shows.
const MOST: u64 = 400;
/// Width of a cycle in pixels. The next constants are also in pixels: height of a row, space above the first row, space to the left, and
/// height of a block.
const CYCLE: u64 = 6;
const ROW: u64 = 44;
const TOP: u64 = 34;
const LEFT: u64 = 130;
const TALL: u64 = 18;
/// Number of cycles between two marks of the axis.
const MARK: u64 = 10;

/// Traffic to which a block belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockOwner {
    Frame,
    /// A notification, a grant or a request.
    Control,
    /// Data of a write, or of an answer.
    Data,
}

impl BlockOwner {
    const ALL: [BlockOwner; 3] = [BlockOwner::Frame, BlockOwner::Control, BlockOwner::Data];

    fn name(self) -> &'static str {
        match self {
            BlockOwner::Frame => "frame",
            BlockOwner::Control => "requests, notifications, grants",
            BlockOwner::Data => "data of memory",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            BlockOwner::Frame => "#c8d3e0",
            BlockOwner::Control => "#d95f02",
            BlockOwner::Data => "#1b7f5c",
        }
    }
}

/// A block in the picture, with the text above it.
struct DrawnBlock {
    cycle: u64,
    owner: BlockOwner,
    says: Option<String>,
}

/// Returns a picture of the blocks on the links of `nodes` nodes, as SVG. It shows the cycles from shortly before the first memory block
/// until shortly after the last one, but at most 400 cycles.
pub fn draw(crossings: &[BlockInFlight], nodes: u16, policy: MuxPolicy) -> String {
    let ways: Vec<(u16, bool)> = (0..nodes).flat_map(|node| [(node, true), (node, false)]).collect();
    let rows: Vec<Vec<DrawnBlock>> = ways.iter().map(|way| cells(crossings, *way, policy)).collect();
    let cycles = window(&rows);
    let width = LEFT + CYCLE * (cycles.end - cycles.start) + 20;
    let height = TOP + ROW * ways.len() as u64 + 40;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    legend(&mut svg);
    for (place, ((node, up), row)) in (0..).zip(ways.iter().zip(&rows)) {
        let top = TOP + ROW * place + ROW - TALL;
        let name = if *up { format!("node {node} to switch") } else { format!("switch to node {node}") };
        text(&mut svg, 8, top + 13, &name);
        draw_row(&mut svg, top, row, &cycles);
    }
    axis(&mut svg, TOP + ROW * ways.len() as u64, &cycles);
    svg + "</svg>\n"
}

/// Returns the blocks of one direction of a link that are not idle.
fn cells(crossings: &[BlockInFlight], (node, up): (u16, bool), policy: MuxPolicy) -> Vec<DrawnBlock> {
    let mut demux = Demux::new(policy);
    let mut cells = Vec::new();
    let mut next = None;
    let mut in_data = false;
    for crossing in crossings.iter().filter(|crossing| (crossing.node, crossing.up) == (node, up)) {
        // A receiver gets a block in every cycle. Idle blocks are not recorded, so they are inserted between the recorded blocks.
        (next.unwrap_or(crossing.cycle)..crossing.cycle).for_each(|_| _ = demux.tick(Block::IDLE));
        next = Some(crossing.cycle + 1);
        let block = crossing.block;
        let is_memorys = demux.tick(block).memory.is_some();
        let owner = match (is_memorys, message(block)) {
            (false, _) => BlockOwner::Frame,
            (true, Some((owner, _))) => {
                in_data = owner == BlockOwner::Data;
                owner
            }
            (true, None) if in_data => BlockOwner::Data,
            (true, None) => BlockOwner::Control,
        };
        let says = if is_memorys { message(block).map(|(_, says)| says) } else { frame(block) };
        cells.push(DrawnBlock { cycle: crossing.cycle, owner, says });
    }
    cells
}

/// Returns the owner and the name of a memory block that begins a message or is a whole message. Returns `None` for other blocks.
fn message(block: Block) -> Option<(BlockOwner, String)> {
    let named = |kind: Kind| match kind {
        Kind::Read => (BlockOwner::Control, "RREQ"),
        Kind::Modify => (BlockOwner::Control, "RMWREQ"),
        Kind::Write => (BlockOwner::Data, "WREQ"),
        Kind::Response => (BlockOwner::Data, "RRES"),
    };
    let (owner, says) = match block.block_type()? {
        MS => named(StartFields::parse(block.payload)?.kind),
        MST => match Short::parse(block.payload)? {
            Short::Read { .. } => named(Kind::Read),
            Short::Response { .. } => named(Kind::Response),
        },
        kind @ (N | G) => {
            ControlFields::parse(block.payload)?;
            (BlockOwner::Control, if kind == N { "notification" } else { "grant" })
        }
        _ => return None,
    };
    Some((owner, says.to_string()))
}

/// Returns the name of a block that begins or ends a frame.
fn frame(block: Block) -> Option<String> {
    let kind = block.block_type()?;
    let is_end = types::TERMINATE.contains(&kind);
    let is_edge = is_end || matches!(kind, types::START_0 | types::START_4 | types::ORDERED_START);
    is_edge.then(|| listing::describe(block).0.to_string())
}

fn window(rows: &[Vec<DrawnBlock>]) -> Range<u64> {
    let all = || rows.iter().flatten();
    let memory = || all().filter(|cell| cell.owner != BlockOwner::Frame).map(|cell| cell.cycle);
    let first = memory().min().or(all().map(|cell| cell.cycle).min()).unwrap_or(0);
    let last = memory().max().or(all().map(|cell| cell.cycle).max()).unwrap_or(0);
    let start = first.saturating_sub(AROUND) / MARK * MARK;
    start..(last + 1 + AROUND).min(start + MOST)
}

fn draw_row(svg: &mut String, top: u64, row: &[DrawnBlock], cycles: &Range<u64>) {
    let (from, to, base) = (at(cycles.start, cycles), at(cycles.end, cycles), top + TALL);
    element(svg, format_args!("<path d=\"M{from} {base}H{to}\" stroke=\"#888\"/>"));
    let seen: Vec<&DrawnBlock> = row.iter().filter(|cell| cycles.contains(&cell.cycle)).collect();
    for run in seen.chunk_by(|a, b| a.owner == b.owner && a.cycle + 1 == b.cycle && b.says.is_none()) {
        let (x, width, colour) = (at(run[0].cycle, cycles), CYCLE * run.len() as u64, run[0].owner.colour());
        element(
            svg,
            format_args!(
                "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{TALL}\" fill=\"{colour}\" stroke=\"#fff\" \
                 stroke-width=\".5\"/>"
            ),
        );
        if let Some(says) = &run[0].says {
            text(svg, x, top - 4, says);
        }
    }
}

fn axis(svg: &mut String, top: u64, cycles: &Range<u64>) {
    for cycle in cycles.clone().filter(|cycle| cycle.is_multiple_of(MARK)) {
        let (x, below) = (at(cycle, cycles), top + 4);
        element(svg, format_args!("<path d=\"M{x} {top}V{below}\" stroke=\"#888\"/>"));
        if cycle.is_multiple_of(2 * MARK) {
            text(svg, x, top + 16, &cycle.to_string());
        }
    }
    let unit = format!("cycle ({} ns)", PCS_CYCLE.as_ns_f64());
    text(svg, 8, top + 16, &unit);
}

fn legend(svg: &mut String) {
    let mut x = LEFT;
    for owner in BlockOwner::ALL {
        let (colour, name) = (owner.colour(), owner.name());
        element(svg, format_args!("<rect x=\"{x}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"));
        text(svg, x + 18, 18, name);
        x += 40 + 7 * name.len() as u64;
    }
}

/// Returns the x coordinate of a cycle.
fn at(cycle: u64, cycles: &Range<u64>) -> u64 {
    LEFT + CYCLE * (cycle - cycles.start)
}

fn text(svg: &mut String, x: u64, y: u64, says: &str) {
    element(svg, format_args!("<text x=\"{x}\" y=\"{y}\">{says}</text>"));
}

fn element(svg: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(svg, "{element}").expect("strings take all");
}
