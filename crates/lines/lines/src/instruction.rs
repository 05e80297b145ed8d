//! Decoded instructions: the inputs that each one waits for, and the results that others wait for.

/// Register of the core model. 0 stands for no register; [`GENERAL`], [`VECTOR`] and [`FLAGS`] number the others.
pub type Register = u8;

/// First of 16 general registers.
pub const GENERAL: Register = 1;
/// First of 32 vector registers.
pub const VECTOR: Register = 17;
/// Register of the condition flags.
pub const FLAGS: Register = 49;
/// Number of register values, including 0 for no register.
pub const REGISTERS: usize = 50;

/// Execution class of an instruction, from which a processor's tables give its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationClass {
    /// No execution unit is used: `nop`, a move that register renaming eliminates, or a zeroing idiom.
    Nothing,
    /// Integer or logic operation, address computation, or move from memory or between general registers.
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
    /// Floating-point multiplication, or fused multiplication and addition.
    FloatMultiply,
    /// Floating-point division or square root.
    FloatDivide,
    /// Move between general and vector registers.
    Cross,
    /// Jump, call or return.
    Branch,
    /// Atomic read-modify-write, `mfence` or `cpuid`. Later memory accesses wait for it.
    Serializing,
    /// System call. The pipeline is empty when execution continues after it.
    SystemCall,
}

/// Memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// No access.
    None,
    /// Load.
    Load,
    /// Store.
    Store,
    /// Load followed by a store to the same bytes.
    Modify,
    /// Store that bypasses the caches.
    NontemporalStore,
    /// Software prefetch.
    Prefetch,
}

/// Way in which control leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockEnding {
    /// Falls through to the next block in memory.
    Falls,
    /// Jump or call with a fixed target.
    Jump,
    /// Conditional jump.
    Conditional,
    /// Jump or call whose target comes from a register or from memory.
    Indirect,
    /// Return.
    Return,
}

/// Instruction as the core model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Registers from which the addresses of its accesses are computed.
    pub address: [Register; 2],
    /// Registers that the operation reads in addition to those of the addresses.
    pub sources: [Register; 4],
    /// Registers that it writes. The stack pointer of a push, pop, call or return is left out, because a stack engine
    /// computes it during decoding (Agner Fog, microarchitecture.pdf, "Stack engine") and no instruction waits for
    /// it.
    pub targets: [Register; 3],
    /// Execution class.
    pub operation: OperationClass,
    /// Micro-operations that take slots of the issue width and of the reorder buffer; at least 1.
    pub slots: u8,
    /// Memory access.
    pub memory: MemoryUse,
}

/// Basic block: instructions that are entered only at the first one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeBlock {
    /// Address of the first instruction.
    pub pc: u64,
    /// Total length of the instructions, in bytes.
    pub bytes: u32,
    /// Instructions in program order.
    pub instructions: Vec<Instruction>,
    /// Way in which control leaves the block.
    pub ending: BlockEnding,
}

impl CodeBlock {
    /// Returns the address of the byte after the last instruction.
    pub fn behind(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.bytes))
    }
}
