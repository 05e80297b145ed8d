//! The order of blocks: the transmit and receive state diagrams (figures 49-16 and 49-17).

use super::code::{self, Class};
use super::column::Column;
use crate::block::Block;

/// States of both diagrams, `INIT` apart: it only says what was last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Init,
    Control,
    Data,
    Terminate,
    Error,
}

/// Columns to blocks; what cannot follow becomes an error block.
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
    /// Whether a column of data becomes a block of the same data, and changes nothing.
    #[inline]
    pub(crate) fn is_in_frame(&self) -> bool {
        self.state == State::Data
    }

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

/// Blocks to columns; what cannot follow, or is no block, becomes an error column.
///
/// Figure 49-17 looks one block ahead: a frame has ended only if what comes next can follow an end. So a column
/// comes out one call after its block went in.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
    /// The block that came last, decoded, whose column is still to be told.
    held: Column,
    held_class: Class,
    errors: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { state: State::Init, held: Column::LOCAL_FAULT, held_class: Class::Control, errors: 0 }
    }
}

impl Decoder {
    /// The column of the block *before* this one: at first a local fault.
    #[inline(always)]
    pub fn decode(&mut self, block: Block) -> Column {
        let (class, column) = code::decode(block);
        let ends_well = matches!(class, Class::Start | Class::Control);
        self.state = next(self.state, self.held_class, ends_well);
        let held = self.held;
        (self.held_class, self.held) = (class, column);
        if self.state == State::Error {
            self.errors += 1;
            return Column::ERROR;
        }
        held
    }

    /// Blocks that were told as errors.
    pub fn errors(&self) -> u64 {
        self.errors
    }
}

/// The state that a block of this class leads to. An end counts only if it `ends_well`.
#[inline]
pub(crate) fn next(state: State, class: Class, ends_well: bool) -> State {
    let in_frame = matches!(state, State::Data | State::Error);
    match class {
        Class::Data if in_frame => State::Data,
        Class::Terminate if in_frame && ends_well => State::Terminate,
        Class::Control if state != State::Data => State::Control,
        Class::Start if !in_frame => State::Data,
        _ => State::Error,
    }
}
