//! Conversion of Ethernet frames to the scrambled blocks of a line and back. This module performs the steps of [`mac`](crate::mac) and
//! [`pcs`](crate::pcs) at once, for callers that have a whole frame or many blocks at a time.

use crate::block::{Block, DATA};
use crate::mac::{Deframer, FrameError, Framer};
use crate::pcs::code::{self, BlockClass};
use crate::pcs::state::{State, next};
use crate::pcs::{Column, ColumnSink, Descrambler, Encoder, Scrambler};

/// Sending side of a port.
#[derive(Debug, Clone, Default)]
pub struct Transmitter {
    framer: Framer,
    encoder: Encoder,
    scrambler: Scrambler,
}

impl Transmitter {
    /// Adds the scrambled blocks of a frame and of the gap after it to `line`; see [`Framer::frame`].
    pub fn frame(&mut self, contents: &[u8], line: &mut Vec<Block>) {
        self.send(line, |framer, coder| framer.frame(contents, coder));
    }

    /// Adds `count` idle blocks.
    pub fn idle(&mut self, count: usize, line: &mut Vec<Block>) {
        self.send(line, |framer, coder| framer.idle(count, coder));
    }

    #[inline(always)]
    fn send(&mut self, line: &mut Vec<Block>, send: impl FnOnce(&mut Framer, &mut ColumnCoder)) {
        // Local copies of the state can be kept in registers. Otherwise each block would have to wait until the state after the previous
        // block is in memory.
        let mut coder =
            ColumnCoder { encoder: self.encoder.clone(), scrambler: self.scrambler.clone(), line };
        send(&mut self.framer, &mut coder);
        (self.encoder, self.scrambler) = (coder.encoder, coder.scrambler);
    }
}

/// Conversion of columns to scrambled blocks.
struct ColumnCoder<'a> {
    encoder: Encoder,
    scrambler: Scrambler,
    line: &'a mut Vec<Block>,
}

impl ColumnSink for ColumnCoder<'_> {
    #[inline(always)]
    fn column(&mut self, column: Column) {
        let block = self.encoder.encode(column);
        self.line.push(Block { payload: self.scrambler.scramble(block.payload), ..block });
    }

    #[inline(always)]
    fn data(&mut self, words: impl ExactSizeIterator<Item = u64>) {
        if !self.encoder.is_in_frame() {
            return words.for_each(|word| self.column(Column::data(word)));
        }
        let mut scrambler = self.scrambler.clone();
        self.line.extend(words.map(|word| Block::data(scrambler.scramble(word))));
        self.scrambler = scrambler;
    }
}

/// Receiving side of a port.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    descrambler: Descrambler,
    state: State,
    /// Column in which a frame may have ended. The next block decides whether the end is valid (figure 49-17).
    end: Option<Column>,
    deframer: Deframer,
}

impl Receiver {
    /// Handles received blocks. For each frame that ends in them, calls `tell` with the frame (without preamble and FCS), or with the
    /// reason why the frame is not valid.
    ///
    /// A frame is reported only once the block after its last block has arrived.
    pub fn handle(&mut self, blocks: &[Block], mut tell: impl FnMut(Result<&[u8], FrameError>)) {
        let deframer = &mut self.deframer;
        // Local copies, which can be kept in registers.
        let (mut descrambler, mut state, mut end) = (self.descrambler.clone(), self.state, self.end);
        let mut blocks = blocks.iter();
        while let Some(block) = blocks.next() {
            let payload = descrambler.descramble(block.payload);
            let (class, column) = code::decode(Block { payload, header: block.header });
            if let Some(end) = end.take() {
                let ends_well = matches!(class, BlockClass::Start | BlockClass::Control);
                state = next(state, BlockClass::Terminate, ends_well);
                deframer.handle_class(told(state, BlockClass::Terminate), end).map(&mut tell);
            }
            if class == BlockClass::Terminate {
                end = Some(column);
                continue;
            }
            state = next(state, class, false);
            deframer.handle_class(told(state, class), column).map(&mut tell);
            if state == State::Data {
                // Most blocks of a busy line are data blocks. For a run of them, only the words in the deframer's buffer change, until the
                // run or the buffer ends.
                let data = blocks.as_slice();
                let run = data.iter().zip(deframer.room()).take_while(|(block, _)| block.header == DATA);
                let keep = |(block, room): (&Block, &mut [u8; 8])| {
                    *room = descrambler.descramble(block.payload).to_le_bytes();
                };
                let words = run.map(keep).count();
                deframer.fill(words);
                blocks = data[words..].iter();
            }
        }
        (self.descrambler, self.state, self.end) = (descrambler, state, end);
    }
}

/// Returns the class as which the deframer must handle a column of class `class` that led to the receive state `state`.
#[inline]
fn told(state: State, class: BlockClass) -> BlockClass {
    if state == State::Error { BlockClass::Error } else { class }
}
