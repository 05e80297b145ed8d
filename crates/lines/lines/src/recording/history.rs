//! Prediction of the next execution of a code block from its last execution in the same window. The writer and the
//! reader of a recording compute identical predictions, so that only the differences from these predictions have to be
//! stored.

use crate::instruction::{CodeBlock, MemoryUse};
use crate::window::LineAccess;

/// Maximum number of accesses per execution of a block that are predicted individually. All later accesses of the
/// execution share the prediction of the last access that is predicted individually.
const SITES: usize = 256;
/// Predicted size of an access before its first execution, in bytes.
const USUAL_BYTES: u8 = 8;

/// Properties of an access that are the same in most executions of its block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct AccessShape {
    pub(super) instruction: u16,
    pub(super) bytes: u8,
    pub(super) is_store: bool,
}

impl From<&LineAccess> for AccessShape {
    fn from(access: &LineAccess) -> AccessShape {
        AccessShape { instruction: access.instruction, bytes: access.bytes, is_store: access.is_store }
    }
}

/// Prediction of one access of a code block: its address and its shape.
#[derive(Clone, Copy)]
pub(super) struct PredictedAccess {
    /// Address of the access in the last execution; `None` before the first execution.
    address: Option<u64>,
    stride: u64,
    pub(super) shape: AccessShape,
}

impl PredictedAccess {
    fn new(instruction: u16, is_store: bool) -> PredictedAccess {
        PredictedAccess {
            address: None,
            stride: 0,
            shape: AccessShape { instruction, bytes: USUAL_BYTES, is_store },
        }
    }

    /// Returns the predicted address of the access. If the access has not been executed yet, the prediction is
    /// `before`, which is the address of the previous access in the window.
    pub(super) fn expected(&self, before: u64) -> u64 {
        self.address.map_or(before, |address| address.wrapping_add(self.stride))
    }

    /// Updates the prediction with the actual access.
    pub(super) fn learn(&mut self, access: &LineAccess) {
        self.stride = self.address.map_or(0, |last| access.address.wrapping_sub(last));
        self.address = Some(access.address);
        self.shape = AccessShape::from(access);
    }
}

/// Predictions for one code block.
#[derive(Default)]
pub(super) struct Expected {
    /// Number of the window in which the block was last executed.
    window: u64,
    /// Number of the block that followed the last execution.
    next: u32,
    /// Number of accesses in the last execution.
    pub(super) accesses: u32,
    sites: Vec<PredictedAccess>,
}

impl Expected {
    /// Returns the prediction of the access with the index `number` in the block's execution.
    pub(super) fn site(&mut self, number: usize) -> &mut PredictedAccess {
        let number = number.min(SITES - 1);
        while self.sites.len() <= number {
            let last = self
                .sites
                .last()
                .map_or(PredictedAccess::new(0, false), |site| PredictedAccess { address: None, ..*site });
            self.sites.push(last);
        }
        &mut self.sites[number]
    }

    /// Resets the predictions at the beginning of a window to those that follow from the block's instructions alone.
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
            self.sites.extend(is_store.iter().map(|is_store| PredictedAccess::new(index, *is_store)));
        }
        self.accesses = self.sites.len() as u32;
        self.sites.truncate(SITES);
    }
}

/// Predictions for all code blocks.
#[derive(Default)]
pub(super) struct History {
    window: u64,
    blocks: Vec<Expected>,
    /// Block of the previous step.
    before: Option<u32>,
}

impl History {
    /// Discards all predictions, because a new window begins.
    pub(super) fn restart(&mut self) {
        self.window += 1;
        self.before = None;
    }

    /// Records that the block `number` has been executed. Returns the number of the block that is predicted to follow
    /// it.
    pub(super) fn follow(&mut self, number: u32) -> u32 {
        if let Some(before) = self.before.replace(number) {
            self.blocks[before as usize].next = number;
        }
        self.blocks[number as usize].next
    }

    /// Returns the predictions for a code block. `number` must be a valid index of the recording's table of blocks.
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
