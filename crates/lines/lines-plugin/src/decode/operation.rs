//! Execution class of an instruction, which determines its latency in the core model.

use super::{is_eliminated_move, is_zeroing_idiom};
use iced_x86::{FlowControl, Instruction as Native, Mnemonic, OpKind, Register};
use unrack_lines::instruction::{MemoryUse, OperationClass};

/// Returns the execution class of an instruction.
pub(super) fn operation(native: &Native, memory: MemoryUse, is_atomic: bool) -> OperationClass {
    if is_system_call(native) {
        return OperationClass::SystemCall;
    }
    if is_atomic || is_serializing(native) {
        return OperationClass::Serializing;
    }
    if is_eliminated_move(native)
        || is_zeroing_idiom(native)
        || is_nop(native)
        || memory == MemoryUse::Prefetch
    {
        return OperationClass::Nothing;
    }
    match native.flow_control() {
        _ if native.is_invalid() => OperationClass::Integer,
        FlowControl::Next => computation(native),
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => {
            OperationClass::Serializing
        }
        _ => OperationClass::Branch,
    }
}

/// Returns whether an instruction enters the kernel.
pub(super) fn is_system_call(native: &Native) -> bool {
    matches!(native.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter)
        || (native.mnemonic() == Mnemonic::Int && native.immediate8() == 0x80)
}

fn is_nop(native: &Native) -> bool {
    use Mnemonic::*;
    matches!(native.mnemonic(), Nop | Endbr64 | Endbr32 | Pause)
}

/// Returns whether memory accesses after an instruction wait until the instruction has completed (Intel, Software
/// Developer's Manual, volume 3, "Serializing instructions" and "Memory ordering instructions").
fn is_serializing(native: &Native) -> bool {
    use Mnemonic::*;
    matches!(
        native.mnemonic(),
        Mfence | Lfence | Cpuid | Serialize | Rdtscp | Xgetbv | Xsave | Xsavec | Xrstor | Fxsave | Fxrstor
    )
}

fn computation(native: &Native) -> OperationClass {
    use Mnemonic::*;
    match native.mnemonic() {
        Imul | Mul | Mulx | Crc32 => OperationClass::Multiply,
        Div | Idiv if native.op0_register().size() == 8 || native.memory_size().size() == 8 => {
            OperationClass::Divide64
        }
        Div | Idiv => OperationClass::Divide32,
        _ if !uses_vectors(native) => OperationClass::Integer,
        _ => of_vectors(native),
    }
}

fn uses_vectors(native: &Native) -> bool {
    (0..native.op_count())
        .any(|operand| native.op_kind(operand) == OpKind::Register && is_vector(native.op_register(operand)))
        || format!("{:?}", native.mnemonic()).starts_with('F')
}

fn is_vector(register: Register) -> bool {
    register.is_vector_register() || register.is_mm() || register.is_st()
}

/// Returns the class of a vector or floating-point instruction. All instructions whose names share a stem (`addps`,
/// `vaddsd`, ...) belong to one class.
fn of_vectors(native: &Native) -> OperationClass {
    let name = format!("{:?}", native.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let is_float = ["ps", "pd", "ss", "sd"].iter().any(|suffix| name.ends_with(suffix));
    let is_in = |(any, float): (&[&str], &[&str])| {
        let begins = |names: &[&str]| names.iter().any(|first| name.starts_with(first));
        begins(any) || is_float && begins(float)
    };
    match () {
        () if is_in(DIVIDER) => OperationClass::FloatDivide,
        () if is_in(MULTIPLIER) => OperationClass::FloatMultiply,
        () if is_in(ADDER) => OperationClass::FloatAdd,
        () if crosses(native) => OperationClass::Cross,
        () => OperationClass::Vector,
    }
}

/// Instructions of one execution unit, as two lists of prefixes of their names. Every instruction whose name has a
/// prefix of the first list belongs to the unit. A prefix of the second list selects only floating-point vector
/// instructions (`divps`, but not `divide`).
type ExecutionUnit = (&'static [&'static str], &'static [&'static str]);

/// Instructions with the latency of a division.
const DIVIDER: ExecutionUnit = (
    &["fdiv", "fsqrt", "fprem", "fidiv", "fpatan", "fsin", "fcos", "fptan", "fyl2x", "f2xm1"],
    &["div", "sqrt"],
);
/// Instructions with the latency of a multiplication, including those of integer vectors and of cryptography.
const MULTIPLIER: ExecutionUnit = (
    &["fmul", "fimul", "pmul", "pmadd", "aes", "pclmul", "sha", "mpsadbw", "psadbw"],
    &["mul", "fmadd", "fmsub", "fnmadd", "fnmsub", "dp", "rcp", "rsqrt"],
);
/// Instructions with the latency of an addition.
const ADDER: ExecutionUnit = (
    &["cvt", "fadd", "fsub", "fiadd", "fisub", "fcom", "fucom", "fild", "fist", "frnd"],
    &["add", "sub", "min", "max", "cmp", "comi", "ucomi", "hadd", "hsub", "round"],
);

/// Returns whether an instruction moves data between general and vector registers, or sets flags according to a vector.
fn crosses(native: &Native) -> bool {
    let registers = || {
        (0..native.op_count())
            .filter(|&operand| native.op_kind(operand) == OpKind::Register)
            .map(|operand| native.op_register(operand))
    };
    let is_test = native.rflags_modified() != 0;
    registers().any(is_vector) && (is_test || registers().any(|register| register.is_gpr()))
}
