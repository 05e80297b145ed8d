//! Multiplexer of memory blocks and a frame's blocks on one line, one block per cycle (§3.2.3).
//!
//! The bits of a data block do not tell /MD/ from /D/; the order does. While a message and a frame are both open, a
//! link that is [`MuxPolicy::Fair`] takes turns, memory after each block of the frame and the frame after each of
//! memory's; one that is [`MuxPolicy::Strict`] finishes the message first. Both ends of a link have one policy. If it is
//! memory's turn and it has no block (a message on its way through the switch has gaps), an idle block fills the turn.
//! (Our choice: the paper does not say how a receiver tells them apart.)
//!
//! When memory goes first, the frame's block waits in the buffer, and the encoder is held up. That takes four cycles,
//! so the buffer never has more than four blocks. An idle block between frames is not held up but replaced.

use super::layout::{MS, MT};
use crate::block::{Block, types};
use std::collections::VecDeque;

/// Cycles until the MAC's sender stops, and so the number of blocks that the buffer must hold.
pub const BACK_PRESSURE: usize = 4;

/// Order of memory and frames when both have a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MuxPolicy {
    /// Turns: each gets half of the line.
    #[default]
    Fair,
    /// Memory first.
    Strict,
}

/// The sending end of a link.
#[derive(Debug, Clone)]
pub struct Mux {
    policy: MuxPolicy,
    buffer: VecDeque<Block>,
    /// Bit n: the encoder gives no block n cycles from now.
    held_up: u8,
    frame_open: bool,
    message_open: bool,
    memory_was_last: bool,
}

/// Result of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub block: Block,
    /// Whether the block is the memory block that was offered.
    pub took_memory: bool,
}

impl Mux {
    /// Returns a sending end with this policy.
    pub fn new(policy: MuxPolicy) -> Mux {
        Mux {
            policy,
            buffer: VecDeque::with_capacity(BACK_PRESSURE + 1),
            held_up: 0,
            frame_open: false,
            message_open: false,
            memory_was_last: false,
        }
    }

    /// Returns whether the encoder gives a block in the coming cycle. If so, it must.
    pub fn takes_frame_block(&self) -> bool {
        self.held_up & 1 == 0
    }

    /// Returns the number of blocks in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Processes one cycle: the encoder's block, if it gives one, and the next memory block, if there is one.
    ///
    /// # Panics
    /// If the encoder gives a block while held up, or gives none while it must.
    pub fn tick(&mut self, frame: Option<Block>, memory: Option<Block>) -> Sent {
        assert_eq!(frame.is_some(), self.takes_frame_block(), "the encoder keeps to the back-pressure");
        self.held_up >>= 1;
        self.buffer.extend(frame);
        let head = *self.buffer.front().expect("what was held up is in the buffer");
        let replaceable = head == Block::IDLE && !self.frame_open;
        let is_memorys = self.is_memorys(memory.is_some(), !replaceable);
        self.memory_was_last = is_memorys;
        if !is_memorys {
            self.buffer.pop_front();
            self.frame_open = opens_frame(head, self.frame_open);
            return Sent { block: head, took_memory: false };
        }
        if replaceable {
            self.buffer.pop_front();
        } else {
            self.held_up |= 1 << (BACK_PRESSURE - 1);
        }
        let Some(block) = memory else {
            return Sent { block: Block::IDLE, took_memory: false };
        };
        debug_assert!(!block.is_data() || self.message_open, "data of a message that has not begun");
        self.message_open = opens_message(block, self.message_open);
        Sent { block, took_memory: true }
    }

    fn is_memorys(&self, has_block: bool, frame_waits: bool) -> bool {
        let after_memory = self.policy == MuxPolicy::Fair && self.memory_was_last;
        if self.frame_open && self.message_open {
            return !after_memory;
        }
        has_block && !(after_memory && frame_waits)
    }
}

/// Returns whether a frame is open after this block of the encoder.
pub(super) fn opens_frame(block: Block, was_open: bool) -> bool {
    match block.block_type() {
        None => was_open,
        Some(types::START_0 | types::START_4 | types::ORDERED_START) => true,
        // An error within a frame does not end it: figure 49-16.
        Some(types::CONTROLS) => was_open && block == Block::ERROR,
        Some(_) => false,
    }
}

/// Returns whether a message is open after this memory block.
pub(crate) fn opens_message(block: Block, was_open: bool) -> bool {
    match block.block_type() {
        Some(MS) => true,
        Some(MT) => false,
        _ => was_open,
    }
}
