//! Receiving end of [`mux`](super::mux): it separates memory blocks from frames, and restores the frames.
//!
//! The decoder and the MAC need the blocks of a frame one directly after the other. Therefore the blocks are kept
//! until the last block of the frame has arrived, and are then passed on in consecutive cycles. In all other cycles
//! the decoder gets idle blocks (§3.2, §3.2.3). Blocks between frames that are not idle, such as fault reports, are
//! passed on when no frame is being passed on.

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
    /// Blocks of frames that wait for the decoder. The next field is the number of those that belong to the open
    /// frame.
    kept: VecDeque<Block>,
    unfinished: usize,
    /// Whether a block outside of frames has been on the line since the last frame ended.
    gap: bool,
    wrong: WrongBlocks,
}

/// Counts of blocks that a correct sender never sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrongBlocks {
    /// Sync header 0 or 3.
    pub headers: u64,
    /// Block types that neither the standard nor EDM has.
    pub types: u64,
    /// Data blocks while neither a message nor a frame is open, and ends without a start.
    pub strays: u64,
    /// Frames that did not end, or that are longer than the longest permitted frame.
    pub frames: u64,
}

impl WrongBlocks {
    /// Returns whether any such block was counted. If so, the link is disabled (§3.3).
    pub fn any(&self) -> bool {
        *self != WrongBlocks::default()
    }
}

/// Block for the memory side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBlock {
    Block(Block),
    /// A block was lost, so that an open message is spoiled.
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
    /// Returns a receiving end for a link with this policy.
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

    /// Returns the counts of blocks that a correct sender never sends.
    pub fn wrong(&self) -> WrongBlocks {
        self.wrong
    }

    /// Returns the number of blocks that are kept because their frame has not ended, or because other blocks go first.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Processes one cycle's descrambled block.
    pub fn tick(&mut self, block: Block) -> Received {
        let (memory, passing) = self.sort(block);
        Received { memory, to_decoder: self.give(passing) }
    }

    /// Assigns a block to memory or to a frame. A standard block that is not part of a frame is returned as the second
    /// value.
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

    /// Assigns a data block, which is /D/ or /MD/; see [`mux`](super::mux).
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

    /// Handles a block from the standard's encoder, and returns it if it is not part of a frame.
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

    /// Handles a lost block, which may have belonged to the open frame or to the open message.
    fn lost(&mut self) -> Option<MemoryBlock> {
        if self.frame_open {
            self.spoil();
        }
        let was_open = std::mem::take(&mut self.message_open);
        was_open.then_some(MemoryBlock::Broken)
    }

    /// Drops the open frame, because it will never be complete.
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
