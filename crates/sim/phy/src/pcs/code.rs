//! Conversion of single columns to blocks and back (figure 49-7). The encoder sets unused bits to zero, and the decoder ignores them
//! (§49.2.4.3).

use super::column::{Column, IDLE, LOW_POWER, SEQUENCE, SIGNAL, START, TERMINATE};
use crate::block::{Block, DATA, types};

/// Class of a column or block: `T_TYPE` and `R_TYPE` of §49.2.13.2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockClass {
    /// Control characters or ordered sets between frames.
    Control,
    Start,
    Data,
    Terminate,
    Error,
}

/// Reserved control characters and their codes (table 49-1).
const RESERVED: [(u8, u8); 6] =
    [(0x1c, 0x2d), (0x3c, 0x33), (0x7c, 0x4b), (0xbc, 0x55), (0xdc, 0x66), (0xf7, 0x78)];
/// Code of an error character.
const ERROR_CODE: u64 = 0x1e;

/// Returns the block of a column, or an error block if the standard has no block for the column.
#[inline(always)]
pub fn encode(column: Column) -> (BlockClass, Block) {
    if column.control == 0 {
        return (BlockClass::Data, Block::data(column.data));
    }
    if column == Column::IDLE {
        return (BlockClass::Control, Block::IDLE);
    }
    if column.control == 0x01 && column.lane(0) == START {
        return (BlockClass::Start, Block::control(u64::from(types::START_0) | column.data & !0xff));
    }
    if column.control == 0x1f && column.data & UP_TO_START_4 == STARTED_4 {
        return (BlockClass::Start, Block::control(u64::from(types::START_4) | column.data & !UP_TO_START_4));
    }
    let end = column.control.trailing_zeros() as usize;
    let before = below(end);
    if column.control == 0xff << end && column.data & !before == ENDED << (8 * end) {
        let data = (column.data & before) << 8;
        return (BlockClass::Terminate, Block::control(u64::from(types::TERMINATE[end]) | data));
    }
    encode_rest(column).unwrap_or((BlockClass::Error, Block::ERROR))
}

/// End of a frame in lane 0, followed by idle characters.
const ENDED: u64 = Column::IDLE.data & !0xff | TERMINATE as u64;

/// Four idle characters, followed by the start of a frame.
const STARTED_4: u64 = Column::IDLE.data >> 32 | (START as u64) << 32;
const UP_TO_START_4: u64 = 0xff_ffff_ffff;

/// Returns a mask of the bits of all lanes below `lane`, which is at most 7.
#[inline]
fn below(lane: usize) -> u64 {
    (1 << (8 * lane)) - 1
}

/// Encodes the rarer columns: those with control characters that do not occur in every frame.
#[inline(never)]
fn encode_rest(column: Column) -> Option<(BlockClass, Block)> {
    let is_start = |lane: usize| column.is_control(lane) && column.lane(lane) == START;
    let built = |class, kind: u8, fields: u64| Some((class, Block::control(u64::from(kind) | fields)));
    match column.control {
        0x11 => {
            let first = ordered(column, 0)? << 32;
            let sets = column.data & 0xffff_ff00 | column.data & 0xffff_ff00_0000_0000;
            if is_start(4) {
                return built(BlockClass::Start, types::ORDERED_START, sets | first);
            }
            built(BlockClass::Control, types::ORDERED_0_4, sets | first | ordered(column, 4)? << 36)
        }
        0x1f => {
            let (codes, rest) = (codes(column, 0..4, 8)?, column.data & 0xffff_ff00_0000_0000);
            if is_start(4) {
                return built(BlockClass::Start, types::START_4, codes | rest);
            }
            built(BlockClass::Control, types::ORDERED_4, codes | rest | ordered(column, 4)? << 36)
        }
        0xf1 => {
            let set = column.data & 0xffff_ff00 | ordered(column, 0)? << 32;
            built(BlockClass::Control, types::ORDERED_0, set | codes(column, 4..8, 36)?)
        }
        mask => {
            let end = mask.trailing_zeros() as usize;
            if mask != 0xff << end {
                return None;
            }
            if column.lane(end) == TERMINATE {
                let data = (column.data & below(end)) << 8;
                let codes = codes(column, end + 1..8, 15 + 7 * end)?;
                return built(BlockClass::Terminate, types::TERMINATE[end], data | codes);
            }
            if end == 0 { built(BlockClass::Control, types::CONTROLS, codes(column, 0..8, 8)?) } else { None }
        }
    }
}

/// Returns the code of the ordered set that begins in `lane`.
fn ordered(column: Column, lane: usize) -> Option<u64> {
    match column.lane(lane) {
        SEQUENCE => Some(0x0),
        SIGNAL => Some(0xf),
        _ => None,
    }
}

/// Returns the 7-bit codes of the control characters in these lanes, placed from bit `at` on.
fn codes(column: Column, lanes: std::ops::Range<usize>, at: usize) -> Option<u64> {
    let of_lanes = lanes_mask(&lanes);
    if column.data & of_lanes == Column::IDLE.data & of_lanes {
        return Some(0); // most gaps
    }
    let mut fields = 0;
    for (index, lane) in lanes.enumerate() {
        fields |= u64::from(code_of(column.lane(lane))?) << (at + 7 * index);
    }
    Some(fields)
}

/// Returns the code of a control character (table 49-1). Returns `None` for an error character, because a column with one is sent as
/// [`Block::ERROR`] (§49.2.13.2.3).
fn code_of(character: u8) -> Option<u8> {
    match character {
        IDLE => Some(0),
        LOW_POWER => Some(6),
        other => RESERVED.iter().find(|(reserved, _)| *reserved == other).map(|(_, code)| *code),
    }
}

/// For each block type, the lane in which a frame ends, or 8 if no frame ends in such a block.
const END_LANES: [u8; 256] = {
    let mut lanes = [8; 256];
    let mut lane = 0;
    while lane < 8 {
        lanes[types::TERMINATE[lane] as usize] = lane as u8;
        lane += 1;
    }
    lanes
};

/// Returns the class and the column of a block. The column is an error column if the block is not one of the standard.
#[inline(always)]
pub fn decode(block: Block) -> (BlockClass, Column) {
    if block.header == DATA {
        return (BlockClass::Data, Column::data(block.payload));
    }
    if block == Block::IDLE {
        return (BlockClass::Control, Column::IDLE);
    }
    let payload = block.payload;
    let kind = block.block_type().unwrap_or(0);
    if kind == types::START_0 {
        return (BlockClass::Start, Column { data: payload & !0xff | u64::from(START), control: 0x01 });
    }
    if kind == types::START_4 && payload & UP_TO_START_4 & !0xff == 0 {
        return (BlockClass::Start, Column { data: payload & !0xff | STARTED_4, control: 0x1f });
    }
    let end = usize::from(END_LANES[usize::from(kind)]);
    if end < 8 && payload >> 8 & !below(end) == 0 {
        return (
            BlockClass::Terminate,
            Column { data: payload >> 8 | ENDED << (8 * end), control: 0xff << end },
        );
    }
    decode_rest(block).unwrap_or((BlockClass::Error, Column::ERROR))
}

/// Decodes the rarer blocks: control blocks that do not occur in every frame.
#[inline(never)]
fn decode_rest(block: Block) -> Option<(BlockClass, Column)> {
    let payload = block.payload;
    let high = payload & 0xffff_ff00_0000_0000;
    let low = payload & 0xffff_ff00;
    let start = u64::from(START);
    let built = |class, data, control| Some((class, Column { data, control }));
    match block.block_type()? {
        types::CONTROLS => built(BlockClass::Control, characters(payload >> 8, 0..8)?, 0xff),
        types::START_4 => {
            built(BlockClass::Start, characters(payload >> 8, 0..4)? | start << 32 | high, 0x1f)
        }
        types::ORDERED_4 => {
            let set = set_of(payload >> 36)? << 32;
            built(BlockClass::Control, characters(payload >> 8, 0..4)? | set | high, 0x1f)
        }
        types::ORDERED_0 => {
            let set = set_of(payload >> 32)? | low;
            built(BlockClass::Control, set | characters(payload >> 36, 4..8)?, 0xf1)
        }
        types::ORDERED_0_4 => {
            let sets = set_of(payload >> 32)? | set_of(payload >> 36)? << 32;
            built(BlockClass::Control, sets | low | high, 0x11)
        }
        types::ORDERED_START => {
            built(BlockClass::Start, set_of(payload >> 32)? | low | start << 32 | high, 0x11)
        }
        kind => {
            let end = usize::from(END_LANES[usize::from(kind)]);
            if end == 8 {
                return None;
            }
            let data = payload >> 8 & below(end);
            let after = characters(payload >> (15 + 7 * end).min(63), end + 1..8)?;
            built(BlockClass::Terminate, data | u64::from(TERMINATE) << (8 * end) | after, 0xff << end)
        }
    }
}

/// Returns the first character of the ordered set whose code is in the low four bits of `bits`.
fn set_of(bits: u64) -> Option<u64> {
    match bits & 0xf {
        0x0 => Some(u64::from(SEQUENCE)),
        0xf => Some(u64::from(SIGNAL)),
        _ => None,
    }
}

/// Converts the 7-bit codes in the low bits of `bits` to control characters, and returns these characters placed in `lanes`.
fn characters(bits: u64, lanes: std::ops::Range<usize>) -> Option<u64> {
    let codes = bits & ((1 << (7 * lanes.len())) - 1);
    if codes == 0 {
        return Some(Column::IDLE.data & lanes_mask(&lanes)); // most gaps
    }
    let mut data = 0;
    for (index, lane) in lanes.enumerate() {
        data |= u64::from(character_of(bits >> (7 * index) & 0x7f)?) << (8 * lane);
    }
    Some(data)
}

/// Returns the bits of these lanes.
fn lanes_mask(lanes: &std::ops::Range<usize>) -> u64 {
    let below = |lane: usize| if lane == 8 { u64::MAX } else { below(lane) };
    below(lanes.end) & !below(lanes.start)
}

fn character_of(code: u64) -> Option<u8> {
    match code {
        0 => Some(IDLE),
        6 => Some(LOW_POWER),
        // The code is valid, but a block that contains it is an error: §49.2.13.2.3.
        ERROR_CODE => None,
        other => RESERVED.iter().find(|(_, code)| u64::from(*code) == other).map(|(character, _)| *character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_characters_are_no_part_of_a_block() {
        assert_eq!(decode(Block::ERROR), (BlockClass::Error, Column::ERROR));
        assert_eq!(encode(Column::ERROR), (BlockClass::Error, Block::ERROR));
        let codes = (0..8).fold(0x1e, |payload, lane| payload | ERROR_CODE << (8 + 7 * lane));
        assert_eq!(Block::ERROR.payload, codes, "eight times table 49-1's code of an error");
    }
}
