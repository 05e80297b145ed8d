//! The order of blocks: the transmit and receive state diagrams (figures 49-16 and 49-17).

use super::code::{self, Class};
use super::column::Column;
use crate::block::{Block, DATA};

/// States of both diagrams, `INIT` apart: it only says what was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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
    #[inline]
    pub fn encode(&mut self, column: Column) -> Block {
        if column.control == 0 && self.state == State::Data {
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
    held: (Class, Column),
    errors: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { state: State::Init, held: (Class::Control, Column::LOCAL_FAULT), errors: 0 }
    }
}

impl Decoder {
    /// The column of the block *before* this one: at first a local fault.
    #[inline]
    pub fn decode(&mut self, block: Block) -> Column {
        if block.header == DATA && self.held.0 == Class::Data && self.state == State::Data {
            let next_held = (Class::Data, Column::data(block.payload));
            return std::mem::replace(&mut self.held, next_held).1; // most of a line
        }
        let next_held = code::decode(block);
        let (class, column) = std::mem::replace(&mut self.held, next_held);
        let ends_well = matches!(next_held.0, Class::Start | Class::Control);
        self.state = next(self.state, class, ends_well);
        if self.state == State::Error {
            self.errors += 1;
            return Column::ERROR;
        }
        column
    }

    /// Blocks that were told as errors.
    pub fn errors(&self) -> u64 {
        self.errors
    }
}

/// The state that a block of this class leads to. An end counts only if it `ends_well`.
#[inline]
fn next(state: State, class: Class, ends_well: bool) -> State {
    let in_frame = matches!(state, State::Data | State::Error);
    match class {
        Class::Data if in_frame => State::Data,
        Class::Terminate if in_frame && ends_well => State::Terminate,
        Class::Control if state != State::Data => State::Control,
        Class::Start if !in_frame => State::Data,
        _ => State::Error,
    }
}
