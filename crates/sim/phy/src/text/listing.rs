//! Text listing of blocks, one per line: cycle, sync header (bit 1, then bit 0), payload, name, meaning.

use crate::block::{Block, CONTROL, DATA, types};
use crate::edm::Kind;
use crate::edm::layout::{ControlFields, G, MS, MST, MT, N, Short, StartFields};

/// Returns the line of the listing for a block. Every data block has the name `/D/`, because only the position of a data block shows
/// whether it belongs to a memory message (/MD/).
pub fn line(cycle: u64, block: Block) -> String {
    let (name, text) = describe(block);
    let line = format!("{cycle:>8}  {:02b} {:016x}  {name:<5} {text}", block.header, block.payload);
    line.trim_end().to_string()
}

/// Parses a line of a listing. Returns `None` if the line is empty. A line may begin with a cycle number or directly with the sync header.
///
/// # Errors
/// If the cycle, the sync header or the payload is wrong or missing. The error describes it.
pub fn parse(line: &str) -> Result<Option<Block>, String> {
    let mut words = line.split('#').next().unwrap_or("").split_whitespace();
    let Some(first) = words.clone().next() else { return Ok(None) };
    // The payload is the second word, or the third one if there is a cycle.
    if words.clone().nth(1).is_some_and(|second| second.len() != 16) {
        words.next();
        first
            .parse::<u64>()
            .map_err(|_| format!("`{first}` is neither a cycle nor a sync header of two bits"))?;
    }
    let header = words.next().ok_or("a sync header of two bits is missing")?;
    let header = match header {
        "00" => 0,
        "01" => CONTROL,
        "10" => DATA,
        "11" => 3,
        other => return Err(format!("`{other}` is no sync header: write 01 for control, 10 for data")),
    };
    let payload = words.next().ok_or("a payload of 16 hex digits is missing")?;
    let digits = payload.len() == 16 && payload.bytes().all(|digit| digit.is_ascii_hexdigit());
    let payload = u64::from_str_radix(payload, 16).ok().filter(|_| digits);
    let payload = payload.ok_or("a payload has 16 hex digits, the bits that leave last first")?;
    Ok(Some(Block { header, payload }))
}

/// Returns the name of a block, as in the EDM paper or in clause 49, and a description of the block's fields.
pub fn describe(block: Block) -> (&'static str, String) {
    let Some(kind) = block.block_type() else {
        return if block.header == DATA { ("/D/", String::new()) } else { ("?", "bad sync header".into()) };
    };
    let payload = block.payload;
    match kind {
        MS => ("/MS/", StartFields::parse(payload).map_or("malformed".into(), |start| start_text(&start))),
        MT => ("/MT/", String::new()),
        MST => ("/MST/", Short::parse(payload).map_or("malformed".into(), |short| short_text(&short))),
        N => (
            "/N/",
            ControlFields::parse(payload).map_or("malformed".into(), |control| control_text(&control)),
        ),
        G => (
            "/G/",
            ControlFields::parse(payload).map_or("malformed".into(), |control| control_text(&control)),
        ),
        types::START_0 => ("/S/", "frame from lane 0".into()),
        types::START_4 | types::ORDERED_START => ("/S/", "frame from lane 4".into()),
        types::CONTROLS if block == Block::IDLE => ("/I/", String::new()),
        types::CONTROLS if block == Block::ERROR => ("/E/", "error".into()),
        types::CONTROLS => ("/C/", "control characters".into()),
        types::ORDERED_0 | types::ORDERED_4 | types::ORDERED_0_4 => ("/O/", "ordered set".into()),
        kind => match types::TERMINATE.iter().position(|known| *known == kind) {
            Some(lane) => ("/T/", format!("frame to lane {lane}")),
            None => ("?", "no block type".into()),
        },
    }
}

fn start_text(start: &StartFields) -> String {
    let StartFields { kind, last, node, id, size, .. } = start;
    let size = if *kind == Kind::Modify { format!("opcode {size}") } else { format!("{size} B") };
    let more = if *last { "" } else { ", more follows" };
    format!("{} node {node} id {id}, {size}{more}", kind.name())
}

fn short_text(short: &Short) -> String {
    match short {
        Short::Read { node, id, bytes, address } => {
            format!("RREQ node {node} id {id}, {bytes} B at {address:#x}")
        }
        Short::Response { node, id, length: 0, .. } => format!("RRES node {node} id {id}, NULL"),
        Short::Response { node, id, length, data, .. } => {
            let data = super::hex(&data[..usize::from(*length)]);
            format!("RRES node {node} id {id}, {length} B {data}")
        }
    }
}

fn control_text(control: &ControlFields) -> String {
    let ControlFields { kind, node, id, size } = control;
    format!("{} to node {node} id {id}, {size} B", kind.name())
}
