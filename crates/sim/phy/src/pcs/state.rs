//! Encoder and decoder that also check the order of blocks, by the transmit and receive state diagrams (figures 49-16 and 49-17).

use super::code::{self, BlockClass};
use super::column::Column;
use crate::block::Block;

/// States of the transmit and receive diagrams, named after the class of the last block. `Init` is the state before the first block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Init,
    Control,
    Data,
    Terminate,
    Error,
}

/// Encodes columns as blocks. A column that may not follow the previous column becomes an error block.
#[derive(Debug, Clone)]
pub struct Encoder {
    state: State,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder { state: State::Init }
    }
}

impl Encoder {
    /// Returns whether the last column was the start or the data of a frame. If so, a further data column becomes a block with the same
    /// data and leaves the state unchanged.
    #[inline]
    pub(crate) fn is_in_frame(&self) -> bool {
        self.state == State::Data
    }

    /// Returns the block of the next column.
    #[inline(always)]
    pub fn encode(&mut self, column: Column) -> Block {
        if column.control == 0 && self.is_in_frame() {
            return Block::data(column.data); // most of a line
        }
        let (class, block) = code::encode(column);
        self.state = next(self.state, class, true);
        match self.state {
            State::Error => Block::ERROR,
            _ => block,
        }
    }
}

/// Decodes blocks to columns. A block that is invalid, or that may not follow the previous block, becomes an error column.
///
/// The diagram in figure 49-17 looks ahead by one block, because an end of a frame is valid only if the next block may follow an end.
/// Therefore the decoder returns the column of a block one call later.
#[derive(Debug, Clone)]
pub struct BlockDecoder {
    state: State,
    /// Column of the last block, which the decoder has not returned yet.
    held: Column,
    held_class: BlockClass,
    errors: u64,
}

impl Default for BlockDecoder {
    fn default() -> Self {
        BlockDecoder {
            state: State::Init,
            held: Column::LOCAL_FAULT,
            held_class: BlockClass::Control,
            errors: 0,
        }
    }
}

impl BlockDecoder {
    /// Handles a block, and returns the column of the *previous* block. The first call returns a local fault.
    #[inline(always)]
    pub fn decode(&mut self, block: Block) -> Column {
        let (class, column) = code::decode(block);
        let ends_well = matches!(class, BlockClass::Start | BlockClass::Control);
        self.state = next(self.state, self.held_class, ends_well);
        let held = self.held;
        (self.held_class, self.held) = (class, column);
        if self.state == State::Error {
            self.errors += 1;
            return Column::ERROR;
        }
        held
    }

    /// Returns the number of error columns that the decoder has returned.
    pub fn errors(&self) -> u64 {
        self.errors
    }
}

/// Returns the state that follows `state` after a block of this class. `ends_well` is whether the next block may follow an end of a frame;
/// otherwise an end is an error.
#[inline]
pub(crate) fn next(state: State, class: BlockClass, ends_well: bool) -> State {
    let in_frame = matches!(state, State::Data | State::Error);
    match class {
        BlockClass::Data if in_frame => State::Data,
        BlockClass::Terminate if in_frame && ends_well => State::Terminate,
        BlockClass::Control if state != State::Data => State::Control,
        BlockClass::Start if !in_frame => State::Data,
        _ => State::Error,
    }
}
