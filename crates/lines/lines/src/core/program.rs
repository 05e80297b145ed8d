//! Blocks as the model runs them: only what exists of each instruction, and its latency.

use super::parameters::CoreParameters;
use super::ports::Kind;
use crate::instruction::{CodeBlock, Instruction, MemoryUse, OperationClass, Register};

/// Registers of one use, without those that are none.
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

/// Order that an instruction imposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// None beyond its registers.
    Free,
    /// Begins when all before has ended; memory accesses after it wait for it.
    Serializing,
    /// Begins when all before has ended; nothing after it is dispatched before its end.
    SystemCall,
}

/// Instruction as the model runs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub(super) address: Registers<2>,
    pub(super) sources: Registers<4>,
    pub(super) targets: Registers<3>,
    pub(super) latency: f32,
    pub(super) kind: Kind,
    /// Whether it works on vectors or floating-point numbers.
    pub(super) is_vector: bool,
    /// Whether it only moves between a register and memory.
    pub(super) is_move: bool,
    pub(super) slots: u8,
    pub(super) order: Order,
    pub(super) memory: MemoryUse,
}

impl Prepared {
    fn new(instruction: &Instruction, parameters: &CoreParameters) -> Prepared {
        let order = match instruction.operation {
            OperationClass::Serializing => Order::Serializing,
            OperationClass::SystemCall => Order::SystemCall,
            _ => Order::Free,
        };
        let is_move = is_move(instruction);
        Prepared {
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

impl Prepared {
    /// Returns whether the instruction waits in a scheduler, with so many accesses.
    #[inline(always)]
    pub(super) fn is_scheduled(&self, accesses: usize) -> bool {
        self.kind != Kind::None || accesses > 0
    }
}

fn is_vector(operation: OperationClass) -> bool {
    use OperationClass::{Cross, FloatAdd, FloatDivide, FloatMultiply, Vector};
    matches!(operation, Vector | FloatAdd | FloatMultiply | FloatDivide | Cross)
}

/// Returns whether an instruction only moves between a register and memory: its time is that of the access.
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

/// Blocks of a recording, prepared as far as they were seen.
#[derive(Default)]
pub(super) struct Program {
    /// Instructions, block after block.
    instructions: Vec<Prepared>,
    /// Index of each block's first instruction, and of the end.
    firsts: Vec<usize>,
    /// Address of each block's first instruction, and behind its last.
    addresses: Vec<(u64, u64)>,
}

impl Program {
    /// Prepares those of a recording's blocks that are new.
    pub(super) fn prepare(&mut self, blocks: &[CodeBlock], parameters: &CoreParameters) {
        if self.firsts.is_empty() {
            self.firsts.push(0);
        }
        for block in blocks.iter().skip(self.firsts.len() - 1) {
            self.instructions.extend(block.instructions.iter().map(|i| Prepared::new(i, parameters)));
            self.firsts.push(self.instructions.len());
            self.addresses.push((block.pc, block.behind()));
        }
    }

    /// Returns whether a block does not follow another one in memory.
    pub(super) fn is_elsewhere(&self, number: u32, before: u32) -> bool {
        self.addresses[number as usize].0 != self.addresses[before as usize].1
    }

    /// Returns the instructions of a block.
    pub(super) fn block(&self, number: u32) -> &[Prepared] {
        let number = number as usize;
        &self.instructions[self.firsts[number]..self.firsts[number + 1]]
    }
}
