//! Decoded instructions: what a core has to wait for, and what waits for them.

/// Register of the core model. 0 stands for none; [`GENERAL`], [`VECTOR`] and [`FLAGS`] name the others.
pub type Register = u8;

/// First of 16 general registers.
pub const GENERAL: Register = 1;
/// First of 32 vector registers.
pub const VECTOR: Register = 17;
/// Register of the condition flags.
pub const FLAGS: Register = 49;
/// Number of registers, with none.
pub const REGISTERS: usize = 50;

/// Kind of execution, from which a processor's table tells the latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationClass {
    /// Does nothing that takes an execution unit: `nop`, a move that renaming eliminates, a zeroing idiom.
    Nothing,
    /// Integer or logic operation, address computation, move between general registers and from memory.
    Integer,
    /// Integer multiplication.
    Multiply,
    /// Integer division of 32 bits or fewer.
    Divide32,
    /// Integer division of 64 bits.
    Divide64,
    /// Integer or logic operation, shuffle or move of vector registers.
    Vector,
    /// Floating-point addition, comparison or conversion.
    FloatAdd,
    /// Floating-point multiplication, or multiplication and addition.
    FloatMultiply,
    /// Floating-point division or square root.
    FloatDivide,
    /// Move between general and vector registers.
    Cross,
    /// Jump, call or return.
    Branch,
    /// Atomic read-modify-write, `mfence`, `cpuid`: later memory accesses wait for it.
    Serializing,
    /// System call: the core starts empty after it.
    SystemCall,
}

/// Use of memory by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// No access.
    None,
    /// Load.
    Load,
    /// Store.
    Store,
    /// Load, then store of the same bytes.
    Modify,
    /// Store that bypasses the caches.
    NontemporalStore,
    /// Software prefetch.
    Prefetch,
}

/// Ending of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockEnding {
    /// Next block follows in memory.
    Falls,
    /// Jump or call with a fixed target.
    Jump,
    /// Conditional jump.
    Conditional,
    /// Jump or call whose target is in a register or in memory.
    Indirect,
    /// Return.
    Return,
}

/// Instruction as the core model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Registers that the address of its accesses is computed from.
    pub address: [Register; 2],
    /// Registers that the operation reads, beyond those of addresses.
    pub sources: [Register; 4],
    /// Registers that it writes. The stack pointer of a push, pop, call or return is left out: a stack engine computes it
    /// at decoding (Agner Fog, microarchitecture.pdf, "Stack engine"), so nothing waits for it.
    pub targets: [Register; 3],
    /// Kind of execution.
    pub operation: OperationClass,
    /// Micro-operations that take a slot of issue width and reorder buffer, at least 1.
    pub slots: u8,
    /// Access to memory.
    pub memory: MemoryUse,
}

/// Stretch of instructions that is entered at its beginning only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeBlock {
    /// Address of its first instruction.
    pub pc: u64,
    /// Bytes of its instructions.
    pub bytes: u32,
    /// Its instructions in order.
    pub instructions: Vec<Instruction>,
    /// Ending.
    pub ending: BlockEnding,
}

impl CodeBlock {
    /// Returns the address behind its last instruction.
    pub fn behind(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.bytes))
    }
}
