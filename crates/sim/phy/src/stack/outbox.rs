//! Queues to a line, for control and for data. A message never begins inside another message.

use crate::block::Block;
use crate::edm::layout::{MS, MT};
use std::collections::VecDeque;

/// The two queues from a host to its line. Each entry contains the cycle from which on it may leave.
#[derive(Debug, Clone, Default)]
pub(super) struct HostOutbox {
    control: VecDeque<(u64, Block)>,
    data: VecDeque<(u64, Block)>,
    order: QueueOrder,
}

/// Queue from which a block comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Control,
    Data,
}

/// Choice between the two queues. A single-block message goes before data, even between the blocks of a message. A
/// block that begins a longer message waits until no message is open.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueOrder {
    /// Queue that has an open message on the line.
    open: Option<Queue>,
}

impl HostOutbox {
    /// Adds control blocks that may leave one after the other from cycle `from` on.
    pub(super) fn control(&mut self, from: u64, blocks: impl IntoIterator<Item = Block>) {
        self.control.extend(blocks.into_iter().map(|block| (from, block)));
    }

    /// Adds data blocks that may leave one after the other from cycle `from` on.
    pub(super) fn data(&mut self, from: u64, blocks: impl IntoIterator<Item = Block>) {
        self.data.extend(blocks.into_iter().map(|block| (from, block)));
    }

    /// Returns whether both queues are empty.
    pub(super) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.data.is_empty()
    }

    /// Returns the block that may leave now.
    pub(super) fn offer(&self, now: u64) -> Option<Block> {
        self.next(now).map(|(block, _)| block)
    }

    /// Removes the offered block, because it has left.
    pub(super) fn took(&mut self, now: u64) {
        let (block, queue) = self.next(now).expect("only what was offered is taken");
        match queue {
            Queue::Control => self.control.pop_front(),
            Queue::Data => self.data.pop_front(),
        };
        self.order.went(block, queue);
    }

    fn next(&self, now: u64) -> Option<(Block, Queue)> {
        self.order.choose(due(&self.control, now), due(&self.data, now))
    }
}

/// Returns the head of a queue if it may leave now.
pub(super) fn due(queue: &VecDeque<(u64, Block)>, now: u64) -> Option<Block> {
    queue.front().filter(|(from, _)| *from <= now).map(|(_, block)| *block)
}

impl QueueOrder {
    /// Chooses between the heads of both queues.
    pub(super) fn choose(&self, control: Option<Block>, data: Option<Block>) -> Option<(Block, Queue)> {
        let is_alone = |block: &Block| !block.is_data() && !matches!(block.block_type(), Some(MS | MT));
        let control = control.filter(|block| self.open != Some(Queue::Data) || is_alone(block));
        let data = data.filter(|_| self.open != Some(Queue::Control));
        control.map(|block| (block, Queue::Control)).or(data.map(|block| (block, Queue::Data)))
    }

    /// Records that a block of this queue has left.
    pub(super) fn went(&mut self, block: Block, queue: Queue) {
        match block.block_type() {
            Some(MS) => self.open = Some(queue),
            Some(MT) => self.open = None,
            _ => {}
        }
    }
}
