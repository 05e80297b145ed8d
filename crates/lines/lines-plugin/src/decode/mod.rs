//! Decoder of x86-64 instructions. It converts the bytes of an instruction to its description in the core model.

mod operation;
mod registers;
mod slots;

use iced_x86::{
    Decoder as Iced, DecoderError, DecoderOptions, FlowControl, Instruction as Native, InstructionInfo,
    InstructionInfoFactory, Mnemonic, OpAccess,
};
use unrack_lines::instruction::{BlockEnding, Instruction, MemoryUse};

/// Decoder of x86-64 instructions.
pub(crate) struct InstructionDecoder {
    factory: InstructionInfoFactory,
}

/// Decoded instruction: its description in the core model, and further properties that only the recorder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Description of the instruction in the core model.
    pub(crate) instruction: Instruction,
    /// Ways in which execution can continue after the instruction.
    pub(crate) flow: Flow,
    /// Whether the instruction reads and writes its memory operand atomically. QEMU may report a single access for the
    /// read and the write.
    pub(crate) is_atomic: bool,
    /// Whether the instruction has a `rep` prefix. QEMU executes each repetition as a separate instruction.
    pub(crate) is_repeated: bool,
}

/// Ways in which execution can continue after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Kind of the jump.
    pub(crate) ending: BlockEnding,
    /// Target address of a direct jump; 0 if the instruction is no direct jump.
    pub(crate) target: u64,
    /// Whether the instruction is a call, which pushes a return address.
    pub(crate) is_call: bool,
}

impl InstructionDecoder {
    pub(crate) fn new() -> InstructionDecoder {
        InstructionDecoder { factory: InstructionInfoFactory::new() }
    }

    /// Returns whether the encoding of an instruction is longer than the given bytes.
    pub(crate) fn is_cut(&self, bytes: &[u8], address: u64) -> bool {
        let mut decoder = Iced::with_ip(64, bytes, address, DecoderOptions::NONE);
        let _ = decoder.decode();
        decoder.last_error() == DecoderError::NoMoreBytes
    }

    /// Decodes the instruction at the beginning of `bytes`. An instruction that the decoder does not know is described
    /// as one slot of integer work: either QEMU raises a signal for it, or QEMU supports an instruction that this
    /// decoder lacks.
    pub(crate) fn decode(&mut self, bytes: &[u8], address: u64) -> Decoded {
        let native = Iced::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        let info = self.factory.info(&native);
        let is_repeated = is_string(&native) && (native.has_rep_prefix() || native.has_repne_prefix());
        let memory = memory(&native, info);
        let is_atomic = memory == MemoryUse::Modify && (native.has_lock_prefix() || is_exchange(&native));
        let operation = operation::operation(&native, memory, is_atomic);
        let mut used = registers::used(&native, info);
        if is_repeated {
            // Microcode computes the addresses of all repetitions from the first one.
            (used.sources, used.targets) = ([0; 4], [0; 3]);
        }
        let slots = slots::slots(&native, memory, is_atomic);
        let instruction = Instruction {
            address: used.address,
            sources: used.sources,
            targets: used.targets,
            operation,
            slots,
            memory,
        };
        Decoded { instruction, flow: flow(&native), is_atomic, is_repeated }
    }
}

fn is_exchange(native: &Native) -> bool {
    native.mnemonic() == Mnemonic::Xchg
}

/// Returns whether an instruction is a string instruction, which a `rep` prefix repeats.
fn is_string(native: &Native) -> bool {
    use Mnemonic::*;
    matches!(
        native.mnemonic(),
        Movsb
            | Movsw
            | Movsq
            | Stosb
            | Stosw
            | Stosd
            | Stosq
            | Lodsb
            | Lodsw
            | Lodsd
            | Lodsq
            | Scasb
            | Scasw
            | Scasd
            | Scasq
            | Cmpsb
            | Cmpsw
            | Cmpsq
    ) || is_string_of_ambiguous_name(native)
}

/// Returns whether an instruction named `movsd` or `cmpsd` is a string instruction. SSE2 instructions have the same two
/// names.
fn is_string_of_ambiguous_name(native: &Native) -> bool {
    use iced_x86::Code;
    matches!(native.code(), Code::Movsd_m32_m32 | Code::Cmpsd_m32_m32)
}

fn memory(native: &Native, info: &InstructionInfo) -> MemoryUse {
    use Mnemonic::*;
    match native.mnemonic() {
        Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchnta | Prefetchw | Prefetchwt1 => {
            return MemoryUse::Prefetch;
        }
        Movnti | Movntps | Movntpd | Movntdq | Vmovntps | Vmovntpd | Vmovntdq | Maskmovdqu | Vmaskmovdqu => {
            return MemoryUse::NontemporalStore;
        }
        _ => {}
    }
    let accesses = || info.used_memory().iter().map(|memory| memory.access());
    match (accesses().any(is_read), accesses().any(is_write)) {
        (false, false) => MemoryUse::None,
        (true, false) => MemoryUse::Load,
        (false, true) => MemoryUse::Store,
        (true, true) => MemoryUse::Modify,
    }
}

/// Returns whether an access to an operand reads it. A conditional write counts as a read, because the old value may
/// remain.
fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn is_write(access: OpAccess) -> bool {
    use OpAccess::*;
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

fn flow(native: &Native) -> Flow {
    let to = |ending| Flow { ending, target: 0, is_call: false };
    let call = |ending| Flow { is_call: true, ..to(ending) };
    let target = native.near_branch_target();
    match native.flow_control() {
        // A system call is not a function call: execution continues after it.
        _ if operation::is_system_call(native) => to(BlockEnding::Falls),
        FlowControl::UnconditionalBranch => Flow { target, ..to(BlockEnding::Jump) },
        FlowControl::ConditionalBranch => Flow { target, ..to(BlockEnding::Conditional) },
        FlowControl::Call => Flow { target, ..call(BlockEnding::Jump) },
        FlowControl::IndirectBranch => to(BlockEnding::Indirect),
        FlowControl::IndirectCall => call(BlockEnding::Indirect),
        FlowControl::Return => to(BlockEnding::Return),
        FlowControl::Next
        | FlowControl::Interrupt
        | FlowControl::XbeginXabortXend
        | FlowControl::Exception => to(BlockEnding::Falls),
    }
}

/// Returns whether an instruction only moves one register to another, so that register renaming executes it without
/// an execution unit.
///
/// Agner Fog, The microarchitecture of Intel, AMD and VIA CPUs, "Move elimination" (Ivy Bridge and later) and AMD,
/// Software Optimization Guide for Family 17h, 2.8.2 and 2.11.2: moves of 32 and 64 bits, and of whole vectors.
fn is_eliminated_move(native: &Native) -> bool {
    use Mnemonic::*;
    let both_registers =
        native.op_count() == 2 && (0..2).all(|operand| native.op_kind(operand) == iced_x86::OpKind::Register);
    let is_whole = native.op0_register().size() >= 4;
    both_registers
        && is_whole
        && matches!(
            native.mnemonic(),
            Mov | Movaps
                | Movapd
                | Movups
                | Movupd
                | Movdqa
                | Movdqu
                | Vmovaps
                | Vmovapd
                | Vmovups
                | Vmovupd
                | Vmovdqa
                | Vmovdqu
        )
        && native.op0_register().is_gpr() == native.op1_register().is_gpr()
        && !native.op0_register().is_segment_register()
        && !native.op1_register().is_segment_register()
}

/// Returns whether an instruction has two equal operands and is known to yield zero without execution, such as
/// `xor eax, eax`.
///
/// AMD, Software Optimization Guide for Family 17h, 2.8.3 and 2.11.3; Intel, Optimization Reference Manual, 3.5.1.7.
fn is_zeroing_idiom(native: &Native) -> bool {
    use Mnemonic::*;
    match native.mnemonic() {
        Xor | Sub => same(native, 0, 1) && native.op0_register().size() >= 4,
        Pxor | Xorps | Xorpd | Psubb | Psubw | Psubd | Psubq | Pcmpgtb | Pcmpgtw | Pcmpgtd | Pcmpgtq => {
            same(native, 0, 1)
        }
        Vpxor | Vxorps | Vxorpd | Vpsubb | Vpsubw | Vpsubd | Vpsubq | Vpcmpgtb | Vpcmpgtw | Vpcmpgtd
        | Vpcmpgtq => same(native, 1, 2),
        _ => false,
    }
}

/// Returns whether an instruction yields all ones whenever its two operands are equal. Unlike a zeroing idiom, it is
/// executed.
fn is_ones_idiom(native: &Native) -> bool {
    use Mnemonic::*;
    match native.mnemonic() {
        Pcmpeqb | Pcmpeqw | Pcmpeqd | Pcmpeqq => same(native, 0, 1),
        Vpcmpeqb | Vpcmpeqw | Vpcmpeqd | Vpcmpeqq => same(native, 1, 2),
        _ => false,
    }
}

fn same(native: &Native, a: u32, b: u32) -> bool {
    let is_register = |operand| native.op_kind(operand) == iced_x86::OpKind::Register;
    native.op_count() > b
        && is_register(a)
        && is_register(b)
        && native.op_register(a) == native.op_register(b)
}

#[cfg(test)]
mod tests;
