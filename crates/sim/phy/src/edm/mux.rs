//! Multiplexer: sends the blocks of memory messages and the blocks of Ethernet frames over one line, one block per cycle (§3.2.3).
//!
//! The bits of a data block do not show whether it belongs to a memory message (/MD/) or to a frame (/D/); only its position does. On a
//! link with the policy [`MuxPolicy::Fair`], blocks of the message and blocks of the frame alternate while both a message and a frame are
//! open. On a link with [`MuxPolicy::Strict`], the sender finishes the message first. Both ends of a link have the same policy, so that the
//! receiver can follow the rule. If it is the turn of the message but its next block has not come yet, the sender sends an idle block
//! instead; this happens because a message that crosses the switch has gaps. (This rule is a choice of this implementation, because the
//! paper does not specify how a receiver distinguishes the two kinds of data blocks.)
//!
//! If a memory block is sent in a cycle in which the PCS encoder gives a block of a frame, the block of the frame waits in a buffer, and
//! the multiplexer stops the encoder. The stop takes effect after four cycles, so the buffer never holds more than four blocks. A memory
//! block replaces an idle block between frames, which need not wait.

use super::layout::{MS, MT};
use crate::block::{Block, types};
use std::collections::VecDeque;

/// Number of cycles until a stop takes effect at the MAC, and therefore the number of blocks for which the buffer must have room.
pub const BACK_PRESSURE: usize = 4;

/// Order in which memory messages and frames share a line if both have a block to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MuxPolicy {
    /// Messages and frames take turns, so that each get half of the line's rate.
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
    /// Bit n is set if the encoder, because it was stopped, gives no block n cycles from now.
    held_up: u8,
    frame_open: bool,
    message_open: bool,
    memory_was_last: bool,
}

/// Result of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuxOutput {
    pub block: Block,
    /// Whether the block sent in this cycle is the memory block that the caller offered.
    pub took_memory: bool,
}

impl Mux {
    /// Returns a multiplexer with this policy.
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

    /// Returns whether the encoder gives a block in the next cycle. If the result is `true`, the caller must pass a block of the encoder to
    /// the next [`Mux::tick`].
    pub fn takes_frame_block(&self) -> bool {
        self.held_up & 1 == 0
    }

    /// Returns the number of blocks of frames in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Processes one cycle, and returns the block that is sent. `frame` is the encoder's block, if the encoder gives one in this cycle.
    /// `memory` is the next memory block, if there is one.
    ///
    /// # Panics
    /// If `frame` is given in a cycle in which the encoder is stopped, or is missing in another cycle; see [`Mux::takes_frame_block`].
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
