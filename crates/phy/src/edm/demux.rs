//! The receiving end of [`mux`](super::mux): memory blocks out, frames put together again.
//!
//! The decoder and the MAC want a frame's blocks one after the other. So they are kept until the frame's last one
//! is there, and then given in consecutive cycles; in all others the decoder gets idle (§3.2, §3.2.3). Blocks
//! between frames that are not idle, such as fault reports, go on when no frame does.

use super::layout::TYPES;
use super::mux::{Policy, opens_frame, opens_message};
use crate::block::{Block, DATA, types};
use crate::mac::MAX_FRAME;
use std::collections::VecDeque;

/// The receiving end.
#[derive(Debug, Clone)]
pub struct Demux {
    policy: Policy,
    frame_open: bool,
    message_open: bool,
    memory_was_last: bool,
    /// Blocks of frames, and of these how many the open one has.
    kept: VecDeque<Block>,
    unfinished: usize,
    /// Something else than frames was on the line since the last one ended.
    gap: bool,
    wrong: Wrong,
}

/// What a link brought that no sender sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Sync header 0 or 3.
    pub headers: u64,
    /// Types that neither the standard nor EDM has.
    pub types: u64,
    /// Data where nothing is open, and ends of nothing.
    pub strays: u64,
    /// Frames that did not end, or that are longer than any.
    pub frames: u64,
}

impl Wrong {
    /// §3.3: a link with any is disabled.
    pub fn any(&self) -> bool {
        *self != Wrong::default()
    }
}

/// What a block is to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Block(Block),
    /// A block was lost: an open message is spoiled.
    Broken,
}

impl Memory {
    /// Whether it is a control block of this type.
    pub fn is_of_type(self, kind: u8) -> bool {
        matches!(self, Memory::Block(block) if block.block_type() == Some(kind))
    }
}

/// What a cycle brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub memory: Option<Memory>,
    pub to_decoder: Block,
}

/// Blocks of the longest frame: start, contents with FCS, end.
const MOST: usize = 2 + (MAX_FRAME + 4).div_ceil(8);

impl Demux {
    pub fn new(policy: Policy) -> Demux {
        Demux {
            policy,
            frame_open: false,
            message_open: false,
            memory_was_last: false,
            kept: VecDeque::new(),
            unfinished: 0,
            gap: false,
            wrong: Wrong::default(),
        }
    }

    pub fn wrong(&self) -> Wrong {
        self.wrong
    }

    /// Blocks that wait for their frame's end, or for those before them.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// One cycle: a descrambled block.
    pub fn tick(&mut self, block: Block) -> Received {
        let (memory, passing) = self.sort(block);
        Received { memory, to_decoder: self.give(passing) }
    }

    /// Whose the block is; one of the standard that is no part of a frame is handed back.
    fn sort(&mut self, block: Block) -> (Option<Memory>, Block) {
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
            return (Some(Memory::Block(block)), idle);
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

    /// /D/ or /MD/: see [`mux`](super::mux).
    fn data(&mut self, block: Block) -> Option<Memory> {
        let is_memorys = match (self.frame_open, self.message_open) {
            (true, true) => self.policy == Policy::Strict || !self.memory_was_last,
            (frame, message) => message && !frame,
        };
        self.memory_was_last = is_memorys;
        if is_memorys {
            self.gap = true;
            return Some(Memory::Block(block));
        }
        if self.frame_open {
            self.keep(block);
        } else {
            self.wrong.strays += 1;
            self.gap = true;
        }
        None
    }

    /// A block of the standard's encoder; handed on if it is no part of a frame.
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

    /// A block is lost, and nobody knows whose.
    fn lost(&mut self) -> Option<Memory> {
        if self.frame_open {
            self.spoil();
        }
        let was_open = std::mem::take(&mut self.message_open);
        was_open.then_some(Memory::Broken)
    }

    /// The open frame will never be whole: nothing of it is given.
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
