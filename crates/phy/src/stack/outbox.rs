//! What waits for a line: control beside data, and no message within another.

use crate::block::Block;
use crate::edm::layout::{MS, MT};
use std::collections::VecDeque;

/// Two queues to one line. A block on its own goes ahead of data, also between the blocks of a message; one that
/// begins a message waits until none is open.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    control: VecDeque<(u64, Block)>,
    data: VecDeque<Stream>,
    open: Open,
}

/// The blocks of one message, as they come.
#[derive(Debug, Clone, Default)]
struct Stream {
    name: u32,
    blocks: VecDeque<(u64, Block)>,
    complete: bool,
}

/// Which queue has begun a message on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Open {
    #[default]
    None,
    Control,
    Data,
}

impl Outbox {
    /// Blocks that may go from cycle `from` on, one after the other.
    pub fn control(&mut self, from: u64, blocks: impl IntoIterator<Item = Block>) {
        self.control.extend(blocks.into_iter().map(|block| (from, block)));
    }

    /// A block of the message that `name` sends. Those of two names may come mixed; they go one after the other.
    pub fn data(&mut self, name: u32, from: u64, block: Block) {
        let standing = self.data.iter().rposition(|stream| stream.name == name && !stream.complete);
        let at = standing.unwrap_or_else(|| {
            self.data.push_back(Stream { name, ..Stream::default() });
            self.data.len() - 1
        });
        self.data[at].blocks.push_back((from, block));
        let kind = block.block_type();
        self.data[at].complete = !block.is_data() && kind != Some(MS);
    }

    /// What `name` sends is broken off: what has not begun is dropped, the rest ends so that no receiver takes it.
    pub fn abandon(&mut self, name: u32) {
        if let Some(stream) = self.data.iter_mut().find(|stream| stream.name == name && !stream.complete) {
            stream.complete = true;
            // An end with a check that cannot hold: it has none of the message.
            stream.blocks.push_back((0, Block::control(u64::from(MT))));
        }
    }

    /// Blocks of data that wait.
    pub fn queued(&self) -> usize {
        self.data.iter().map(|stream| stream.blocks.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.data.is_empty()
    }

    /// The block that may go now.
    pub fn offer(&self, now: u64) -> Option<Block> {
        self.next(now).map(|(block, _)| block)
    }

    /// It went.
    pub fn took(&mut self, now: u64) {
        let (block, from) = self.next(now).expect("only what was offered is taken");
        let opens = block.block_type() == Some(MS);
        let closes = block.block_type() == Some(MT);
        if from == Open::Control {
            self.control.pop_front();
        } else {
            let stream = self.data.front_mut().expect("offered");
            stream.blocks.pop_front();
            if stream.complete && stream.blocks.is_empty() {
                self.data.pop_front();
            }
        }
        if opens {
            self.open = from;
        } else if closes {
            self.open = Open::None;
        }
    }

    fn next(&self, now: u64) -> Option<(Block, Open)> {
        let due =
            |entry: Option<&(u64, Block)>| entry.filter(|(from, _)| *from <= now).map(|(_, block)| *block);
        let control = due(self.control.front());
        let data = due(self.data.front().and_then(|stream| stream.blocks.front()));
        let is_alone = |block: &Block| !block.is_data() && !matches!(block.block_type(), Some(MS | MT));
        match self.open {
            Open::None => {
                control.map(|block| (block, Open::Control)).or(data.map(|block| (block, Open::Data)))
            }
            Open::Control => control.map(|block| (block, Open::Control)),
            Open::Data => {
                let alone = control.filter(is_alone).map(|block| (block, Open::Control));
                alone.or(data.map(|block| (block, Open::Data)))
            }
        }
    }
}
