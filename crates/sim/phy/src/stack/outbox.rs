//! Queues of the blocks that wait to be sent over a line: one queue for control blocks and one for data. A message of several blocks never
//! begins inside another message.

use crate::block::Block;
use crate::edm::layout::{MS, MT};
use std::collections::VecDeque;

/// The two queues of blocks that a host sends over its line. Each entry contains the first cycle in which it may leave.
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

/// Chooses between the control queue and the data queue. A message that consists of a single control block precedes data, even between the
/// blocks of another message. A block that begins a longer message waits until no message is open.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueOrder {
    /// Queue whose message is open, which means that only some of its blocks have been sent.
    open: Option<Queue>,
}

impl HostOutbox {
    /// Adds control blocks to the control queue. The first may leave in cycle `from`, and each further block one cycle later.
    pub(super) fn control(&mut self, from: u64, blocks: impl IntoIterator<Item = Block>) {
        self.control.extend(blocks.into_iter().map(|block| (from, block)));
    }

    /// Adds data blocks to the data queue. The first may leave in cycle `from`, and each further block one cycle later.
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

/// Returns the first block of a queue if the block may leave in cycle `now`.
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
