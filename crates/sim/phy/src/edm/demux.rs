//! Demultiplexer, the receiving counterpart of [`mux`](super::mux): it separates the memory blocks of a line from the blocks of Ethernet
//! frames, and restores the frames.
//!
//! The PCS decoder and the MAC need the blocks of a frame in consecutive cycles. Therefore the demultiplexer buffers the blocks of a frame
//! until the last one has arrived, and then passes them to the decoder in consecutive cycles. In all other cycles it passes idle blocks to
//! the decoder (§3.2, §3.2.3). Other blocks between frames, such as fault reports, it passes on when it is not passing on a frame.

use super::layout::TYPES;
use super::mux::{MuxPolicy, opens_frame, opens_message};
use crate::block::{Block, DATA, types};
use crate::mac::MAX_FRAME;
use std::collections::VecDeque;

/// Receiving end of a link.
#[derive(Debug, Clone)]
pub struct Demux {
    policy: MuxPolicy,
    frame_open: bool,
    message_open: bool,
    memory_was_last: bool,
    /// Buffered blocks of frames, which wait for the decoder. The next field is the number of these blocks that belong to the frame that
    /// has not ended yet.
    kept: VecDeque<Block>,
    unfinished: usize,
    /// Whether a block that belongs to no frame has arrived since the last frame ended.
    gap: bool,
    wrong: WrongBlocks,
}

/// Numbers of received blocks that a correct sender never sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrongBlocks {
    /// Sync header 0 or 3.
    pub headers: u64,
    /// Control blocks with a type that neither the standard nor EDM defines.
    pub types: u64,
    /// Data blocks that arrive while neither a message nor a frame is open, and end blocks without a preceding start block.
    pub strays: u64,
    /// Frames without an end, and frames that are longer than the longest permitted frame.
    pub frames: u64,
}

impl WrongBlocks {
    /// Returns whether the receiver has counted any such block. If so, the node disables the link (§3.3).
    pub fn any(&self) -> bool {
        *self != WrongBlocks::default()
    }
}

/// Block for the memory side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBlock {
    Block(Block),
    /// A block was lost, which invalidates an open message.
    Broken,
}

impl MemoryBlock {
    /// Returns whether this is a control block of type `kind`.
    pub fn is_of_type(self, kind: u8) -> bool {
        matches!(self, MemoryBlock::Block(block) if block.block_type() == Some(kind))
    }
}

/// Output of one cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub memory: Option<MemoryBlock>,
    pub to_decoder: Block,
}

/// Number of blocks in the longest frame: start, contents with FCS, end.
const MOST: usize = 2 + (MAX_FRAME + 4).div_ceil(8);

impl Demux {
    /// Returns a demultiplexer for a link whose multiplexer has this policy.
    pub fn new(policy: MuxPolicy) -> Demux {
        Demux {
            policy,
            frame_open: false,
            message_open: false,
            memory_was_last: false,
            kept: VecDeque::new(),
            unfinished: 0,
            gap: false,
            wrong: WrongBlocks::default(),
        }
    }

    /// Returns the numbers of received blocks that a correct sender never sends.
    pub fn wrong(&self) -> WrongBlocks {
        self.wrong
    }

    /// Returns the number of buffered blocks: their frame has not ended yet, or blocks before them have not been passed on yet.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Processes one cycle's descrambled block.
    pub fn tick(&mut self, block: Block) -> Received {
        let (memory, passing) = self.sort(block);
        Received { memory, to_decoder: self.give(passing) }
    }

    /// Assigns a block to a memory message or to a frame. The first returned value is the block if it is a memory block. The second is the
    /// block if it is a standard block outside of frames, and otherwise an idle block.
    fn sort(&mut self, block: Block) -> (Option<MemoryBlock>, Block) {
        let idle = Block::IDLE;
        let Some(kind) = block.block_type() else {
            return match block.header {
                DATA => (self.data(block), idle),
                _ => {
                    self.wrong.headers += 1;
                    (self.lost(), idle)
                }
            };
        };
        if TYPES.contains(&kind) {
            self.message_open = opens_message(block, self.message_open);
            self.memory_was_last = true;
            self.gap = true;
            return (Some(MemoryBlock::Block(block)), idle);
        }
        if !types::ALL.contains(&kind) {
            self.wrong.types += 1;
            return (self.lost(), idle);
        }
        if self.frame_open && self.message_open && block == Block::IDLE {
            self.memory_was_last = true; // it fills memory's turn
            return (None, idle);
        }
        self.memory_was_last = false;
        (None, self.standard(block, kind))
    }

    /// Assigns a data block to the open frame (/D/) or to the open memory message (/MD/), by the rule that [`mux`](super::mux) describes.
    fn data(&mut self, block: Block) -> Option<MemoryBlock> {
        let is_memorys = match (self.frame_open, self.message_open) {
            (true, true) => self.policy == MuxPolicy::Strict || !self.memory_was_last,
            (frame, message) => message && !frame,
        };
        self.memory_was_last = is_memorys;
        if is_memorys {
            self.gap = true;
            return Some(MemoryBlock::Block(block));
        }
        if self.frame_open {
            self.keep(block);
        } else {
            self.wrong.strays += 1;
            self.gap = true;
        }
        None
    }

    /// Handles a control block of the Ethernet standard. Returns the block if it is not part of a frame.
    fn standard(&mut self, block: Block, kind: u8) -> Block {
        let was_open = self.frame_open;
        self.frame_open = opens_frame(block, was_open);
        if self.frame_open && block != Block::ERROR {
            if was_open {
                self.spoil();
                self.frame_open = true;
            } else if std::mem::take(&mut self.gap) && !self.kept.is_empty() {
                self.kept.push_back(Block::IDLE);
                self.unfinished += 1;
            }
            self.keep(block);
        } else if was_open && types::TERMINATE.contains(&kind) {
            self.keep(block);
            (self.unfinished, self.gap) = (0, false);
        } else if was_open && block == Block::ERROR {
            self.keep(block);
        } else if was_open {
            self.spoil();
        } else if types::TERMINATE.contains(&kind) {
            self.wrong.strays += 1;
        } else {
            self.gap = true;
            return block;
        }
        Block::IDLE
    }

    fn keep(&mut self, block: Block) {
        if self.unfinished > MOST {
            return self.spoil();
        }
        self.kept.push_back(block);
        self.unfinished += 1;
    }

    /// Handles a lost block, which may have belonged to the open frame or to the open memory message.
    fn lost(&mut self) -> Option<MemoryBlock> {
        if self.frame_open {
            self.spoil();
        }
        let was_open = std::mem::take(&mut self.message_open);
        was_open.then_some(MemoryBlock::Broken)
    }

    /// Drops the blocks of the open frame, because the frame will never be complete.
    fn spoil(&mut self) {
        self.wrong.frames += 1;
        self.frame_open = false;
        self.gap = true;
        self.kept.truncate(self.kept.len() - std::mem::take(&mut self.unfinished));
    }

    fn give(&mut self, passing: Block) -> Block {
        let has_whole = self.kept.len() > self.unfinished;
        if has_whole { self.kept.pop_front().expect("it has one") } else { passing }
    }
}
