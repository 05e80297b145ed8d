//! Programs written down by hand.

use crate::instruction::{
    BlockEnding, CodeBlock, FLAGS, GENERAL, Instruction, MemoryUse, OperationClass, Register,
};
use crate::window::{
    BlockStep, CodeFetch, LineAccess, Prefetch, RecordedWindow, ServedBy, WalkLoads, WriteBack,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Window of a program, and its blocks: one block for each instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) blocks: Vec<CodeBlock>,
    pub(crate) window: RecordedWindow,
}

/// Returns the general register with this number, 0 to 15.
pub(crate) fn register(number: u8) -> Register {
    GENERAL + number % 16
}

/// Returns an instruction that reads some registers and writes some.
pub(crate) fn instruction(
    operation: OperationClass,
    sources: &[Register],
    targets: &[Register],
) -> Instruction {
    let mut instruction = Instruction {
        address: [0; 2],
        sources: [0; 4],
        targets: [0; 3],
        operation,
        slots: 1,
        memory: MemoryUse::None,
    };
    instruction.sources[..sources.len()].copy_from_slice(sources);
    instruction.targets[..targets.len()].copy_from_slice(targets);
    instruction
}

/// Returns an access of 8 bytes, by the first instruction of its block.
pub(crate) fn access(address: u64, is_store: bool, served: ServedBy) -> LineAccess {
    LineAccess { instruction: 0, address, bytes: 8, is_store, served, near: 0, walk: WalkLoads::default() }
}

impl Written {
    /// Adds an instruction and its accesses.
    pub(crate) fn push(&mut self, instruction: Instruction, accesses: &[LineAccess]) {
        let block = self.blocks.len() as u32;
        let first_access = self.window.accesses.len() as u32;
        let pc = self.blocks.last().map_or(0, CodeBlock::behind);
        let instructions = vec![instruction];
        self.blocks.push(CodeBlock { pc, bytes: 1, instructions, ending: BlockEnding::Falls });
        self.window.steps.push(BlockStep { block, instructions: 1, first_access, is_mispredicted: false });
        self.window.accesses.extend(accesses);
    }

    /// Moves the last instruction, and what is added after it, elsewhere: a branch leads there.
    pub(crate) fn elsewhere(&mut self) {
        self.blocks.last_mut().unwrap().pc += 1 << 32;
    }

    /// Adds a fetch of code for the last instruction.
    pub(crate) fn fetch(&mut self, line: u64, served: ServedBy) {
        let step = self.window.steps.len() as u32 - 1;
        self.window.fetches.push(CodeFetch { step, line, served, near: 0 });
    }

    /// Adds an integer operation.
    pub(crate) fn add(&mut self, source: Register, target: Register) {
        self.push(instruction(OperationClass::Integer, &[source], &[target]), &[]);
    }

    /// Adds a load.
    pub(crate) fn load(&mut self, base: Register, target: Register, address: u64, served: ServedBy) {
        let mut load = instruction(OperationClass::Integer, &[], &[target]);
        (load.address[0], load.memory) = (base, MemoryUse::Load);
        self.push(load, &[access(address, false, served)]);
    }

    /// Adds a store.
    pub(crate) fn store(&mut self, source: Register, address: u64, served: ServedBy) {
        let mut store = instruction(OperationClass::Integer, &[source], &[]);
        store.memory = MemoryUse::Store;
        self.push(store, &[access(address, true, served)]);
    }

    /// Adds a mispredicted branch that waits for a register.
    pub(crate) fn mispredicted(&mut self, source: Register) {
        self.push(instruction(OperationClass::Branch, &[source, FLAGS], &[]), &[]);
        self.window.steps.last_mut().unwrap().is_mispredicted = true;
    }

    /// Adds a prefetch that the last access caused.
    pub(crate) fn prefetch(&mut self, line: u64, served: ServedBy) {
        let after = self.window.accesses.len() as u32 - 1;
        self.window.prefetches.push(Prefetch { after, line, served, near: 0 });
    }

    /// Adds a write-back that the last access caused.
    pub(crate) fn write_back(&mut self, line: u64) {
        let after = self.window.accesses.len() as u32 - 1;
        self.window.write_backs.push(WriteBack { after, line, near: 0 });
    }

    /// Returns the program with everything counted: a lead that takes longer may leave less behind it.
    pub(crate) fn without_lead(mut self) -> Written {
        self.window.lead = 0;
        self
    }

    /// Ends the lead here: what was added before is not counted.
    pub(crate) fn end_lead(&mut self) {
        self.window.lead = self.window.steps.len() as u32;
    }
}

/// Instruction as it is drawn: kind, registers, place in memory, and what moves with it.
type Part = (u8, (u8, u8, u8), (u64, u64, u8, u16), (u8, u8, u8, u64));

/// Draws a program of some hundred instructions over few registers and lines.
pub(crate) fn random() -> impl Strategy<Value = Written> {
    let registers = (0..4u8, 0..4u8, 0..4u8);
    let place = (0..40u64, 0..8u64, 0..8u8, 0..4u16);
    let moved = (0..16u8, 0..10u8, 0..10u8, 0..40u64);
    let parts = vec((0..24u8, registers, place, moved), 1..200);
    (parts, any::<u32>()).prop_map(|(parts, lead)| {
        let mut written = Written::default();
        parts.iter().for_each(|part| written.part(part));
        written.window.lead = if lead % 2 == 0 { 0 } else { lead / 2 % parts.len() as u32 };
        written
    })
}

impl Written {
    fn part(&mut self, &(kind, (base, source, target), (line, word, served_number, near), moved): &Part) {
        let (slots, walked, mispredicted, other) = moved;
        let (operation, memory) = match kind {
            0..4 => (OperationClass::Integer, MemoryUse::None),
            4 => (OperationClass::Multiply, MemoryUse::None),
            5 => (OperationClass::FloatAdd, MemoryUse::None),
            6..8 => (OperationClass::Branch, MemoryUse::None),
            8 => (OperationClass::Serializing, MemoryUse::None),
            9 => (OperationClass::SystemCall, MemoryUse::None),
            10..16 => (OperationClass::Integer, MemoryUse::Load),
            16..19 => (OperationClass::Integer, MemoryUse::Store),
            19..21 => (OperationClass::Integer, MemoryUse::Modify),
            21 => (OperationClass::Vector, MemoryUse::NontemporalStore),
            _ => (OperationClass::Integer, MemoryUse::Prefetch),
        };
        let mut one = instruction(operation, &[register(source)], &[register(target)]);
        (one.slots, one.memory) = (1 + slots / 8, memory);
        let levels = [ServedBy::L2, ServedBy::L3, ServedBy::Peer, ServedBy::Memory, ServedBy::Memory];
        let served = levels.get(usize::from(served_number)).copied().unwrap_or(ServedBy::L1);
        let mut first = access(line * 64 + word * 8, false, served);
        first.near = near;
        if walked == 0 {
            first.walk = WalkLoads { is_second_level_hit: false, caches: [1, 1, 0], memory: line as u8 % 2 };
        }
        let store = LineAccess { is_store: true, ..first };
        match memory {
            MemoryUse::None => {
                self.finish(one, &[], mispredicted);
                match walked {
                    0 => self.fetch(other * 64, served),
                    1 => self.elsewhere(),
                    _ => {}
                }
                return;
            }
            MemoryUse::Load | MemoryUse::Prefetch => {
                one.address[0] = register(base);
                self.finish(one, &[first], mispredicted);
            }
            MemoryUse::Store | MemoryUse::NontemporalStore => self.finish(one, &[store], mispredicted),
            MemoryUse::Modify => {
                self.finish(one, &[first, LineAccess { served: ServedBy::L1, ..store }], mispredicted)
            }
        }
        match mispredicted {
            1 => self.prefetch(other * 64, ServedBy::Memory),
            2 => self.write_back(other * 64),
            _ => {}
        }
    }

    fn finish(&mut self, one: Instruction, accesses: &[LineAccess], mispredicted: u8) {
        let is_branch = one.operation == OperationClass::Branch;
        self.push(one, accesses);
        self.window.steps.last_mut().unwrap().is_mispredicted = is_branch && mispredicted < 3;
    }
}
