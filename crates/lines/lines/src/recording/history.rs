//! Expectations of what a block does next, from what it did last in the same window. Writer and reader keep the same.

use crate::instruction::{CodeBlock, MemoryUse};
use crate::window::LineAccess;

/// Accesses of one execution that are expected apart; later ones share what is expected of the last.
const SITES: usize = 256;
/// Bytes of an access before one was seen.
const USUAL_BYTES: u8 = 8;

/// Part of an access that is constant for most of its executions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) instruction: u16,
    pub(super) bytes: u8,
    pub(super) is_store: bool,
}

impl From<&LineAccess> for Shape {
    fn from(access: &LineAccess) -> Shape {
        Shape { instruction: access.instruction, bytes: access.bytes, is_store: access.is_store }
    }
}

/// Access of a block that is expected: address and shape.
#[derive(Clone, Copy)]
pub(super) struct Site {
    /// Address of the last execution; `None` before the first.
    address: Option<u64>,
    stride: u64,
    pub(super) shape: Shape,
}

impl Site {
    fn new(instruction: u16, is_store: bool) -> Site {
        Site { address: None, stride: 0, shape: Shape { instruction, bytes: USUAL_BYTES, is_store } }
    }

    /// Returns the expected address; `before` is that of the window's access before it.
    pub(super) fn expected(&self, before: u64) -> u64 {
        self.address.map_or(before, |address| address.wrapping_add(self.stride))
    }

    /// Learns what happened.
    pub(super) fn learn(&mut self, access: &LineAccess) {
        self.stride = self.address.map_or(0, |last| access.address.wrapping_sub(last));
        self.address = Some(access.address);
        self.shape = Shape::from(access);
    }
}

/// Expectations of one block.
#[derive(Default)]
pub(super) struct Expected {
    /// Window that it was last executed in.
    window: u64,
    /// Block that followed.
    next: u32,
    /// Number of accesses.
    pub(super) accesses: u32,
    sites: Vec<Site>,
}

impl Expected {
    /// Returns what is expected of the access with this number.
    pub(super) fn site(&mut self, number: usize) -> &mut Site {
        let number = number.min(SITES - 1);
        while self.sites.len() <= number {
            let last = self.sites.last().map_or(Site::new(0, false), |site| Site { address: None, ..*site });
            self.sites.push(last);
        }
        &mut self.sites[number]
    }

    /// Forgets everything but what the instructions themselves tell.
    fn restart(&mut self, window: u64, number: u32, block: &CodeBlock) {
        (self.window, self.next) = (window, number.wrapping_add(1));
        self.sites.clear();
        for (index, instruction) in (0..).zip(&block.instructions) {
            let is_store: &[bool] = match instruction.memory {
                MemoryUse::None => &[],
                MemoryUse::Load | MemoryUse::Prefetch => &[false],
                MemoryUse::Store | MemoryUse::NontemporalStore => &[true],
                MemoryUse::Modify => &[false, true],
            };
            self.sites.extend(is_store.iter().map(|is_store| Site::new(index, *is_store)));
        }
        self.accesses = self.sites.len() as u32;
        self.sites.truncate(SITES);
    }
}

/// Expectations of all blocks.
#[derive(Default)]
pub(super) struct History {
    window: u64,
    blocks: Vec<Expected>,
    /// Block of the step before.
    before: Option<u32>,
}

impl History {
    /// Forgets what was learnt: a new window begins.
    pub(super) fn restart(&mut self) {
        self.window += 1;
        self.before = None;
    }

    /// Learns that a step of this block has ended. Returns the block that is expected next.
    pub(super) fn follow(&mut self, number: u32) -> u32 {
        if let Some(before) = self.before.replace(number) {
            self.blocks[before as usize].next = number;
        }
        self.blocks[number as usize].next
    }

    /// Returns what is expected of a block, whose number is below that of the table's blocks.
    pub(super) fn block(&mut self, number: u32, block: &CodeBlock) -> &mut Expected {
        let index = number as usize;
        if self.blocks.len() <= index {
            self.blocks.resize_with(index + 1, Expected::default);
        }
        let expected = &mut self.blocks[index];
        if expected.window != self.window {
            expected.restart(self.window, number, block);
        }
        expected
    }
}
