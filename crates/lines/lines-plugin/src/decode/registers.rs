//! Registers that an instruction reads and writes, as registers of the core model.

use super::{is_ones_idiom, is_read, is_write, is_zeroing_idiom};
use iced_x86::{Instruction as Native, InstructionInfo, OpAccess, OpKind, Register as Named};
use unrack_lines::instruction::{FLAGS, GENERAL, Register, VECTOR};

/// Registers that one instruction uses, in the numbering of the core model. Unused entries are 0.
pub(super) struct Used {
    pub(super) address: [Register; 2],
    pub(super) sources: [Register; 4],
    pub(super) targets: [Register; 3],
}

/// Returns the registers whose values an instruction waits for, and the registers that it writes.
pub(super) fn used(native: &Native, info: &InstructionInfo) -> Used {
    let mut used = Used { address: [0; 2], sources: [0; 4], targets: [0; 3] };
    for memory in info.used_memory() {
        if memory.access() != OpAccess::NoMemAccess {
            insert(&mut used.address, model(memory.base()));
            insert(&mut used.address, model(memory.index()));
        }
    }
    if !is_zeroing_idiom(native) && !is_ones_idiom(native) {
        sources(native, info, &mut used);
    }
    targets(native, info, &mut used);
    used
}

fn sources(native: &Native, info: &InstructionInfo, used: &mut Used) {
    for register in info.used_registers() {
        let named = model(register.register());
        let is_read = is_read(register.access()) || register.access() == OpAccess::CondWrite;
        // A write of 8 or 16 bits preserves the rest of the register, so the instruction also reads it.
        let is_merged = register.register().is_gpr8() || register.register().is_gpr16();
        let is_address = used.address.contains(&named) && !is_operand(native, info, named);
        if (is_read || is_merged) && !is_address {
            insert(&mut used.sources, named);
        }
    }
    if native.rflags_read() != 0 {
        insert(&mut used.sources, FLAGS);
    }
}

/// Returns whether an instruction reads a register as a value, and not only to compute an address.
fn is_operand(native: &Native, info: &InstructionInfo, register: Register) -> bool {
    (0..native.op_count())
        .filter(|&operand| native.op_kind(operand) == OpKind::Register)
        .filter(|&operand| model(native.op_register(operand)) == register)
        .any(|operand| info.op_access(operand) != OpAccess::Write || native.op_register(operand).size() < 4)
}

fn targets(native: &Native, info: &InstructionInfo, used: &mut Used) {
    for register in info.used_registers().iter().filter(|register| is_write(register.access())) {
        let named = model(register.register());
        // Agner Fog, microarchitecture, "Stack engine": pushes and pops do not wait for each other's stack pointer.
        let is_stack_engine = native.is_stack_instruction() && named == STACK_POINTER;
        if !is_stack_engine || is_operand(native, info, named) {
            insert(&mut used.targets, named);
        }
    }
    if native.rflags_modified() != 0 {
        insert(&mut used.targets, FLAGS);
    }
}

const STACK_POINTER: Register = GENERAL + 4;

/// Returns the number of a register in the core model. Segment registers, `rip` and control registers have the number
/// 0, because no program waits for changes of them.
fn model(register: Named) -> Register {
    if register.is_gpr() {
        GENERAL + register.full_register().number() as Register
    } else if register.is_vector_register() {
        VECTOR + (register.number() as Register).min(31)
    } else if register.is_mm() || register.is_st() {
        // The x87 and MMX registers share one register file. They use the upper vector registers of the model, which
        // are free because QEMU has no AVX-512.
        VECTOR + 16 + register.number() as Register
    } else {
        0
    }
}

/// Adds a register to a list, unless the list contains the register already or is full. Instructions that use more
/// registers than the list can hold (`fxsave`, `pusha`) wait far longer for memory than for registers.
fn insert<const N: usize>(list: &mut [Register; N], register: Register) {
    if register == 0 || list.contains(&register) {
        return;
    }
    if let Some(free) = list.iter_mut().find(|entry| **entry == 0) {
        *free = register;
    }
}
