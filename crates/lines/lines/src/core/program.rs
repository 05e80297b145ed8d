//! Code blocks, prepared for execution by the core model. For each instruction, the prepared form contains its latency
//! and only those registers that the instruction really uses.

use super::parameters::CoreParameters;
use super::ports::Kind;
use crate::instruction::{CodeBlock, Instruction, MemoryUse, OperationClass, Register};

/// Registers that an instruction uses for one purpose (address, sources or targets), without duplicates and without the
/// number 0, which means no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers<const N: usize> {
    registers: [Register; N],
    count: u8,
}

impl<const N: usize> Registers<N> {
    fn new(named: [Register; N]) -> Registers<N> {
        let mut registers = Registers { registers: [0; N], count: 0 };
        for (index, register) in named.iter().enumerate() {
            if *register != 0 && !named[..index].contains(register) {
                registers.registers[usize::from(registers.count)] = *register;
                registers.count += 1;
            }
        }
        registers
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[Register] {
        &self.registers[..usize::from(self.count)]
    }
}

/// Ordering constraint of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderingConstraint {
    /// The instruction only waits for its input registers.
    Free,
    /// The instruction begins when all earlier instructions have ended, and all later memory accesses wait for its end.
    Serializing,
    /// The instruction begins when all earlier instructions have ended, and no later instruction is dispatched before
    /// it ends.
    SystemCall,
}

/// Instruction, prepared for execution by the core model.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreparedInstruction {
    pub(super) address: Registers<2>,
    pub(super) sources: Registers<4>,
    pub(super) targets: Registers<3>,
    pub(super) latency: f32,
    pub(super) kind: Kind,
    /// Whether the instruction works on vectors or floating-point numbers.
    pub(super) is_vector: bool,
    /// Whether the instruction only moves data between a register and memory.
    pub(super) is_move: bool,
    pub(super) slots: u8,
    pub(super) order: OrderingConstraint,
    pub(super) memory: MemoryUse,
}

impl PreparedInstruction {
    fn new(instruction: &Instruction, parameters: &CoreParameters) -> PreparedInstruction {
        let order = match instruction.operation {
            OperationClass::Serializing => OrderingConstraint::Serializing,
            OperationClass::SystemCall => OrderingConstraint::SystemCall,
            _ => OrderingConstraint::Free,
        };
        let is_move = is_move(instruction);
        PreparedInstruction {
            kind: Kind::new(instruction, is_move),
            is_move,
            is_vector: is_vector(instruction.operation),
            address: Registers::new(instruction.address),
            sources: Registers::new(instruction.sources),
            targets: Registers::new(instruction.targets),
            latency: if is_move { 0.0 } else { parameters.latency(instruction.operation) },
            slots: instruction.slots.max(1),
            order,
            memory: instruction.memory,
        }
    }
}

impl PreparedInstruction {
    /// Returns whether an instruction with `accesses` accesses occupies a scheduler entry.
    #[inline(always)]
    pub(super) fn is_scheduled(&self, accesses: usize) -> bool {
        self.kind != Kind::None || accesses > 0
    }
}

fn is_vector(operation: OperationClass) -> bool {
    use OperationClass::{Cross, FloatAdd, FloatDivide, FloatMultiply, Vector};
    matches!(operation, Vector | FloatAdd | FloatMultiply | FloatDivide | Cross)
}

/// Returns whether an instruction only moves data between a register and memory. Such an instruction takes no time in
/// addition to its memory access.
fn is_move(instruction: &Instruction) -> bool {
    let is_plain = matches!(
        instruction.operation,
        OperationClass::Nothing | OperationClass::Integer | OperationClass::Vector
    );
    let is_access = match instruction.memory {
        MemoryUse::Load => instruction.sources.iter().all(|source| *source == 0),
        MemoryUse::Store | MemoryUse::NontemporalStore | MemoryUse::Prefetch => true,
        MemoryUse::None | MemoryUse::Modify => false,
    };
    is_plain && is_access
}

impl CoreParameters {
    /// Returns the latency of an operation.
    fn latency(&self, operation: OperationClass) -> f32 {
        let latencies = &self.operations;
        match operation {
            OperationClass::Nothing => 0.0,
            OperationClass::Integer | OperationClass::Branch => latencies.integer,
            OperationClass::Multiply => latencies.multiply,
            OperationClass::Divide32 => latencies.divide_32,
            OperationClass::Divide64 => latencies.divide_64,
            OperationClass::Vector => latencies.vector,
            OperationClass::FloatAdd => latencies.float_add,
            OperationClass::FloatMultiply => latencies.float_multiply,
            OperationClass::FloatDivide => latencies.float_divide,
            OperationClass::Cross => latencies.cross,
            OperationClass::Serializing => latencies.serializing,
            OperationClass::SystemCall => latencies.system_call,
        }
    }
}

/// Prepared code blocks of a recording, up to the point to which the recording has been read.
#[derive(Default)]
pub(super) struct Program {
    /// Instructions of all blocks, one block after another.
    instructions: Vec<PreparedInstruction>,
    /// Index of the first instruction of each block, followed by the total number of instructions.
    firsts: Vec<usize>,
    /// Address of the first instruction of each block, and the address after its last one.
    addresses: Vec<(u64, u64)>,
}

impl Program {
    /// Prepares those blocks of a recording that have not been prepared yet.
    pub(super) fn prepare(&mut self, blocks: &[CodeBlock], parameters: &CoreParameters) {
        if self.firsts.is_empty() {
            self.firsts.push(0);
        }
        for block in blocks.iter().skip(self.firsts.len() - 1) {
            self.instructions
                .extend(block.instructions.iter().map(|i| PreparedInstruction::new(i, parameters)));
            self.firsts.push(self.instructions.len());
            self.addresses.push((block.pc, block.behind()));
        }
    }

    /// Returns whether a block does not directly follow another block in memory.
    pub(super) fn is_elsewhere(&self, number: u32, before: u32) -> bool {
        self.addresses[number as usize].0 != self.addresses[before as usize].1
    }

    /// Returns the instructions of a block.
    pub(super) fn block(&self, number: u32) -> &[PreparedInstruction] {
        let number = number as usize;
        &self.instructions[self.firsts[number]..self.firsts[number + 1]]
    }
}
