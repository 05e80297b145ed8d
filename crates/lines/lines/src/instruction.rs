//! Decoded instructions: for each instruction, the inputs for which it waits, and the results for which later
//! instructions wait.

/// Number of a register of the core model. 0 means no register; the other numbers begin at [`GENERAL`], [`VECTOR`] and
/// [`FLAGS`].
pub type Register = u8;

/// Number of the first of 16 general registers.
pub const GENERAL: Register = 1;
/// Number of the first of 32 vector registers.
pub const VECTOR: Register = 17;
/// Number of the register of the condition flags.
pub const FLAGS: Register = 49;
/// Number of values of a [`Register`], including 0, which means no register.
pub const REGISTERS: usize = 50;

/// Execution class of an instruction. The tables of a processor contain the latency of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationClass {
    /// Instruction that uses no execution unit: `nop`, a move that register renaming eliminates, or a zeroing idiom.
    Nothing,
    /// Integer or logic operation, address computation, or move from memory or between general registers.
    Integer,
    /// Integer multiplication.
    Multiply,
    /// Integer division of 32 bits or fewer.
    Divide32,
    /// Integer division of 64 bits.
    Divide64,
    /// Integer operation, logic operation, shuffle or move on vector registers.
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
    /// Atomic read-modify-write, `mfence` or `cpuid`. Later memory accesses wait until this instruction has completed.
    Serializing,
    /// System call. The pipeline is empty when execution continues after the system call.
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

/// Kind of control transfer at the end of a basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockEnding {
    /// Fall-through to the next block in memory.
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

/// Instruction in the form that the core model uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Registers from which the addresses of the instruction's memory accesses are computed.
    pub address: [Register; 2],
    /// Registers that the operation reads in addition to the registers of its addresses.
    pub sources: [Register; 4],
    /// Registers that the instruction writes. The stack pointer that a push, pop, call or return changes is not
    /// included. The reason is that a stack engine computes the stack pointer during decoding (Agner Fog,
    /// microarchitecture.pdf, "Stack engine"), so that no instruction waits for it.
    pub targets: [Register; 3],
    /// Execution class.
    pub operation: OperationClass,
    /// Number of micro-operations, at least 1. Each of them takes one slot of the issue width and one slot of the
    /// reorder buffer.
    pub slots: u8,
    /// Memory access of the instruction.
    pub memory: MemoryUse,
}

/// Basic block: sequence of instructions that control enters only at its first instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeBlock {
    /// Address of the first instruction.
    pub pc: u64,
    /// Total length of the instructions, in bytes.
    pub bytes: u32,
    /// Instructions in program order.
    pub instructions: Vec<Instruction>,
    /// Kind of control transfer at the end of the block.
    pub ending: BlockEnding,
}

impl CodeBlock {
    /// Returns the address of the byte after the last instruction.
    pub fn behind(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.bytes))
    }
}
