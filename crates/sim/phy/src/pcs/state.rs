//! Checks of the order of blocks, by the transmit and receive state diagrams (figures 49-16 and 49-17).

use super::code::{self, BlockClass};
use super::column::Column;
use crate::block::Block;

/// States of both diagrams, named by the last block. `Init` is the state before the first block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Init,
    Control,
    Data,
    Terminate,
    Error,
}

/// Encoder of columns to blocks. A column that may not follow the previous one becomes an error block.
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
    /// Returns whether a data column becomes a block with the same data and leaves the state unchanged.
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

/// Decoder of blocks to columns. A block that is invalid, or that may not follow the previous one, becomes an error
/// column.
///
/// Figure 49-17 looks ahead by one block, because a frame has ended only if the next block may follow an end.
/// Therefore a column is returned one call after its block was passed in.
#[derive(Debug, Clone)]
pub struct BlockDecoder {
    state: State,
    /// Column of the last block, which was not returned yet.
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
    /// Handles a block, and returns the column of the block *before* it. The first result is a local fault.
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

    /// Returns the number of error columns returned.
    pub fn errors(&self) -> u64 {
        self.errors
    }
}

/// Returns the state that follows `state` after a block of this class. An end counts only if it `ends_well`.
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
