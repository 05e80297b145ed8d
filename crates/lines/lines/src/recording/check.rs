//! Consistency rules for code blocks and windows. The writer of a recording checks them before writing, and the reader
//! checks them after reading.

use super::LARGEST;
use crate::instruction::{CodeBlock, Instruction, REGISTERS};
use crate::window::{LineAccess, RecordedWindow};

/// Checks a code block. The error describes the first rule that the block violates.
pub(super) fn block(block: &CodeBlock) -> Result<(), &'static str> {
    let count = block.instructions.len();
    if count == 0 || count > usize::from(u16::MAX) {
        return Err("a block does not have 1 to 65535 instructions");
    }
    block.instructions.iter().try_for_each(instruction)
}

fn instruction(instruction: &Instruction) -> Result<(), &'static str> {
    let registers = instruction.address.iter().chain(&instruction.sources).chain(&instruction.targets);
    if registers.into_iter().any(|register| usize::from(*register) >= REGISTERS) {
        return Err("an instruction has a register that does not exist");
    }
    (instruction.slots > 0).then_some(()).ok_or("an instruction has no slot")
}

/// Checks a window. `length` returns the number of instructions of the block with a given number, or `None` if there is
/// no such block. The error describes the first rule that the window violates.
pub(super) fn window(
    window: &RecordedWindow,
    placements: usize,
    length: impl Fn(u32) -> Option<usize>,
) -> Result<(), &'static str> {
    if window.accesses.len() > LARGEST || window.steps.len() > LARGEST {
        return Err("a window is too long");
    }
    let beyond = |near: u16| u32::from(near) >> placements != 0;
    steps(window, length)?;
    window.accesses.iter().try_for_each(access)?;
    let mut masks = window.accesses.iter().map(|access| access.near);
    let mut code = window.fetches.iter().map(|fetch| fetch.near);
    let mut others = window.prefetches.iter().map(|prefetch| prefetch.near);
    let mut modified = window.write_backs.iter().map(|write_back| write_back.near);
    if masks.any(beyond) || code.any(beyond) || others.any(beyond) || modified.any(beyond) {
        return Err("a mask has a placement that does not exist");
    }
    if !is_ordered(window.fetches.iter().map(|fetch| fetch.step), window.steps.len()) {
        return Err("a fetch of code has no step, or is not in their order");
    }
    let causes = [
        is_ordered(window.prefetches.iter().map(|prefetch| prefetch.after), window.accesses.len()),
        is_ordered(window.write_backs.iter().map(|write_back| write_back.after), window.accesses.len()),
    ];
    (causes == [true; 2])
        .then_some(())
        .ok_or("a prefetch or write-back has no access that caused it, or is not in their order")
}

fn steps(window: &RecordedWindow, length: impl Fn(u32) -> Option<usize>) -> Result<(), &'static str> {
    let mut instructions = 0u64;
    let ends = window.steps.iter().skip(1).map(|step| step.first_access as usize);
    let mut first = 0;
    for (step, end) in window.steps.iter().zip(ends.chain([window.accesses.len()])) {
        let length = length(step.block).ok_or("a step has a block that does not exist")?;
        if step.instructions == 0 || usize::from(step.instructions) > length {
            return Err("a step has more instructions than its block, or none");
        }
        if step.first_access as usize != first || end < first || end > window.accesses.len() {
            return Err("the accesses of a step do not follow those of the step before it");
        }
        let mut accesses = window.accesses[first..end].iter();
        if accesses.any(|access| access.instruction >= step.instructions) {
            return Err("an access has no instruction");
        }
        if !window.accesses[first..end].is_sorted_by_key(|access| access.instruction) {
            return Err("accesses are not in the order of their instructions");
        }
        first = end;
        instructions += u64::from(step.instructions);
    }
    if window.steps.is_empty() && !window.accesses.is_empty() {
        return Err("an access has no instruction");
    }
    (u64::from(window.lead) <= instructions)
        .then_some(())
        .ok_or("the lead of a window is longer than the window")
}

fn access(access: &LineAccess) -> Result<(), &'static str> {
    let within = access.address % 64 + u64::from(access.bytes) <= 64;
    (access.bytes > 0 && within).then_some(()).ok_or("an access is not within one line")
}

/// Returns whether the indices are in ascending order and all of them are below `count`.
fn is_ordered(indices: impl Iterator<Item = u32> + Clone, count: usize) -> bool {
    indices.clone().all(|index| (index as usize) < count) && indices.is_sorted()
}
