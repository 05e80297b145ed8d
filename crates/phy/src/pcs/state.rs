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

impl Encoder {
    /// Adds the blocks of columns that follow each other, each as `finish` makes it: scrambling hides its own waits behind
    /// encoding if both are done in one go.
    pub fn encode_all(
        &mut self,
        columns: &[Column],
        blocks: &mut Vec<Block>,
        mut finish: impl FnMut(Block) -> Block,
    ) {
        blocks.reserve(columns.len());
        let mut rest = columns;
        while !rest.is_empty() {
            let run = if self.state == State::Data { leading(rest, |column| column.control == 0) } else { 0 };
            let (data, others) = rest.split_at(run);
            blocks.extend(data.iter().map(|column| finish(Block::data(column.data))));
            rest = match others.split_first() {
                Some((column, rest)) => {
                    blocks.push(finish(self.encode(*column)));
                    rest
                }
                None => &[],
            };
        }
    }
}

/// How many of the first are so.
#[inline]
fn leading<T>(all: &[T], is_so: impl Fn(&T) -> bool) -> usize {
    all.iter().position(|one| !is_so(one)).unwrap_or(all.len())
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

    /// Adds the columns of blocks that follow each other, each as [`decode`](Decoder::decode) tells it.
    pub fn decode_all(&mut self, blocks: &[Block], columns: &mut Vec<Column>) {
        columns.reserve(blocks.len());
        let mut rest = blocks;
        while !rest.is_empty() {
            let in_frame = self.state == State::Data && self.held.0 == Class::Data;
            let run = if in_frame { leading(rest, |block| block.header == DATA) } else { 0 };
            let (data, others) = rest.split_at(run);
            if let Some((last, before)) = data.split_last() {
                columns.push(self.held.1);
                columns.extend(before.iter().map(|block| Column::data(block.payload)));
                self.held.1 = Column::data(last.payload);
            }
            rest = match others.split_first() {
                Some((block, rest)) => {
                    columns.push(self.decode(*block));
                    rest
                }
                None => &[],
            };
        }
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
