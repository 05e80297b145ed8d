//! Multiplexer of memory blocks and the blocks of a frame on one line, one block per cycle (§3.2.3).
//!
//! The bits of a data block do not show whether it is /MD/ or /D/; its position does. While a message and a frame are
//! both open, the two take turns on a link that is [`MuxPolicy::Fair`]: memory follows each block of the frame, and
//! the frame follows each block of memory. A link that is [`MuxPolicy::Strict`] finishes the message first. Both ends
//! of a link have the same policy. If it is memory's turn but memory has no block, an idle block fills the turn; this
//! happens because a message on its way through the switch has gaps. (This is our choice, because the paper does not
//! specify how a receiver distinguishes the two.)
//!
//! When memory goes first, the block of the frame waits in the buffer, and the encoder is stopped. Stopping takes four
//! cycles, so the buffer never holds more than four blocks. An idle block between frames does not wait; the memory
//! block replaces it.

use super::layout::{MS, MT};
use crate::block::{Block, types};
use std::collections::VecDeque;

/// Number of cycles until the MAC's sender stops, and therefore the number of blocks that the buffer must be able to
/// hold.
pub const BACK_PRESSURE: usize = 4;

/// Order of memory and frames if both have a block to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MuxPolicy {
    /// The two take turns, so that each gets half of the line.
    #[default]
    Fair,
    /// Memory goes first.
    Strict,
}

/// Sending end of a link.
#[derive(Debug, Clone)]
pub struct Mux {
    policy: MuxPolicy,
    buffer: VecDeque<Block>,
    /// Bit n is set if the encoder gives no block n cycles from now.
    held_up: u8,
    frame_open: bool,
    message_open: bool,
    memory_was_last: bool,
}

/// Result of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuxOutput {
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

    /// Returns whether the encoder gives a block in the next cycle. If the result is `true`, it must give one.
    pub fn takes_frame_block(&self) -> bool {
        self.held_up & 1 == 0
    }

    /// Returns the number of blocks in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Processes one cycle. `frame` is the block of the encoder, if it gives one, and `memory` the next memory block,
    /// if there is one.
    ///
    /// # Panics
    /// If the encoder gives a block although it is stopped, or gives none although it must.
    pub fn tick(&mut self, frame: Option<Block>, memory: Option<Block>) -> MuxOutput {
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
            return MuxOutput { block: head, took_memory: false };
        }
        if replaceable {
            self.buffer.pop_front();
        } else {
            self.held_up |= 1 << (BACK_PRESSURE - 1);
        }
        let Some(block) = memory else {
            return MuxOutput { block: Block::IDLE, took_memory: false };
        };
        debug_assert!(!block.is_data() || self.message_open, "data of a message that has not begun");
        self.message_open = opens_message(block, self.message_open);
        MuxOutput { block, took_memory: true }
    }

    fn is_memorys(&self, has_block: bool, frame_waits: bool) -> bool {
        let after_memory = self.policy == MuxPolicy::Fair && self.memory_was_last;
        if self.frame_open && self.message_open {
            return !after_memory;
        }
        has_block && !(after_memory && frame_waits)
    }
}

/// Returns whether a frame is open after this block from the encoder.
pub(super) fn opens_frame(block: Block, was_open: bool) -> bool {
    match block.block_type() {
        None => was_open,
        Some(types::START_0 | types::START_4 | types::ORDERED_START) => true,
        // An error within a frame does not end the frame: figure 49-16.
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
