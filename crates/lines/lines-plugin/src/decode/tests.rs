//! Encodings in these tests are those of GNU as.

use super::*;
use unrack_lines::instruction::{FLAGS, GENERAL, OperationClass, VECTOR};

const RAX: u8 = GENERAL;
const RCX: u8 = GENERAL + 1;
const RDX: u8 = GENERAL + 2;
const RBX: u8 = GENERAL + 3;
const RSP: u8 = GENERAL + 4;
const RSI: u8 = GENERAL + 6;
const RDI: u8 = GENERAL + 7;

fn decoded(bytes: &[u8]) -> Decoded {
    InstructionDecoder::new().decode(bytes, 0x1000)
}

/// Checks the registers of an instruction, in any order: addresses, sources, targets.
#[track_caller]
fn check_registers(bytes: &[u8], address: &[u8], sources: &[u8], targets: &[u8]) {
    let Instruction { address: a, sources: s, targets: t, .. } = decoded(bytes).instruction;
    let sorted = |registers: &[u8]| {
        let mut all: Vec<u8> = registers.iter().copied().filter(|register| *register != 0).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(&a), sorted(address), "address");
    assert_eq!(sorted(&s), sorted(sources), "sources");
    assert_eq!(sorted(&t), sorted(targets), "targets");
}

#[track_caller]
fn check(bytes: &[u8], operation: OperationClass, memory: MemoryUse) {
    let Instruction { operation: o, memory: m, .. } = decoded(bytes).instruction;
    assert_eq!((o, m), (operation, memory));
}

#[test]
fn addresses_are_apart_from_values() {
    // mov rax, [rbx+rcx*8]
    check_registers(&[0x48, 0x8b, 0x04, 0xcb], &[RBX, RCX], &[], &[RAX]);
    // mov [rbx], rcx
    check_registers(&[0x48, 0x89, 0x0b], &[RBX], &[RCX], &[]);
    // mov rax, [rax]: the chain of a linked list
    check_registers(&[0x48, 0x8b, 0x00], &[RAX], &[], &[RAX]);
    // add rax, [rax]
    check_registers(&[0x48, 0x03, 0x00], &[RAX], &[RAX], &[RAX, FLAGS]);
    // add [rbx], rcx
    check_registers(&[0x48, 0x01, 0x0b], &[RBX], &[RCX], &[FLAGS]);
    // mov [rax], rax
    check_registers(&[0x48, 0x89, 0x00], &[RAX], &[RAX], &[]);
    // lea rax, [rbx+rcx]: no access, so these are values
    check_registers(&[0x48, 0x8d, 0x04, 0x0b], &[], &[RBX, RCX], &[RAX]);
}

#[test]
fn parts_of_registers_keep_the_rest() {
    // mov al, bl
    check_registers(&[0x88, 0xd8], &[], &[RAX, RBX], &[RAX]);
    // mov eax, ebx
    check_registers(&[0x89, 0xd8], &[], &[RBX], &[RAX]);
    // cmovne rax, rbx
    check_registers(&[0x48, 0x0f, 0x45, 0xc3], &[], &[RAX, RBX, FLAGS], &[RAX]);
    // setne al
    check_registers(&[0x0f, 0x95, 0xc0], &[], &[RAX, FLAGS], &[RAX]);
}

#[test]
fn idioms_wait_for_nothing() {
    // xor eax, eax
    check_registers(&[0x31, 0xc0], &[], &[], &[RAX, FLAGS]);
    check(&[0x31, 0xc0], OperationClass::Nothing, MemoryUse::None);
    // pxor xmm1, xmm1
    check_registers(&[0x66, 0x0f, 0xef, 0xc9], &[], &[], &[VECTOR + 1]);
    // vpxor xmm1, xmm2, xmm2
    check_registers(&[0xc5, 0xe9, 0xef, 0xca], &[], &[], &[VECTOR + 1]);
    // pcmpeqd xmm1, xmm1: executed all the same
    check_registers(&[0x66, 0x0f, 0x76, 0xc9], &[], &[], &[VECTOR + 1]);
    check(&[0x66, 0x0f, 0x76, 0xc9], OperationClass::Vector, MemoryUse::None);
    // xor eax, ebx is no idiom
    check_registers(&[0x31, 0xd8], &[], &[RAX, RBX], &[RAX, FLAGS]);
}

#[test]
fn moves_between_registers_are_eliminated() {
    check(&[0x48, 0x89, 0xd8], OperationClass::Nothing, MemoryUse::None); // mov rax, rbx
    check(&[0x0f, 0x28, 0xca], OperationClass::Nothing, MemoryUse::None); // movaps xmm1, xmm2
    check(&[0x88, 0xd8], OperationClass::Integer, MemoryUse::None); // mov al, bl
    check(&[0x66, 0x48, 0x0f, 0x6e, 0xc8], OperationClass::Cross, MemoryUse::None); // movq xmm1, rax
}

#[test]
fn the_stack_pointer_is_nobodys_result_where_the_stack_engine_has_it() {
    check_registers(&[0x53], &[RSP], &[RBX], &[]); // push rbx
    check_registers(&[0x5b], &[RSP], &[], &[RBX]); // pop rbx
    check_registers(&[0xc3], &[RSP], &[], &[]); // ret
    check_registers(&[0x48, 0x83, 0xec, 0x08], &[], &[RSP], &[RSP, FLAGS]); // sub rsp, 8
}

#[test]
fn kinds_of_execution() {
    use OperationClass::*;
    check(&[0x48, 0x01, 0xd8], Integer, MemoryUse::None); // add rax, rbx
    check(&[0x48, 0x0f, 0xaf, 0xc3], Multiply, MemoryUse::None); // imul rax, rbx
    check(&[0x48, 0xf7, 0xf3], Divide64, MemoryUse::None); // div rbx
    check(&[0xf7, 0xf3], Divide32, MemoryUse::None); // div ebx
    check(&[0xf2, 0x0f, 0x58, 0xca], FloatAdd, MemoryUse::None); // addsd xmm1, xmm2
    check(&[0xf2, 0x0f, 0x59, 0x0b], FloatMultiply, MemoryUse::Load); // mulsd xmm1, [rbx]
    check(&[0xf2, 0x0f, 0x5e, 0xca], FloatDivide, MemoryUse::None); // divsd xmm1, xmm2
    check(&[0xf2, 0x0f, 0x51, 0xca], FloatDivide, MemoryUse::None); // sqrtsd xmm1, xmm2
    check(&[0x66, 0x0f, 0xfe, 0xca], Vector, MemoryUse::None); // paddd xmm1, xmm2
    check(&[0xc4, 0xe2, 0xe9, 0xb8, 0xcb], FloatMultiply, MemoryUse::None); // vfmadd231pd xmm1, xmm2, xmm3
    check(&[0xd8, 0xf1], FloatDivide, MemoryUse::None); // fdiv st, st(1)
    check(&[0x66, 0x0f, 0xd7, 0xc1], Cross, MemoryUse::None); // pmovmskb eax, xmm1
    check(&[0x0f, 0x05], SystemCall, MemoryUse::None); // syscall
    check(&[0x0f, 0xae, 0xf0], Serializing, MemoryUse::None); // mfence
    check(&[0x0f, 0x1f, 0x44, 0x00, 0x00], Nothing, MemoryUse::None); // nop [rax+rax]
    check(&[0x0f, 0x18, 0x0b], Nothing, MemoryUse::Prefetch); // prefetcht0 [rbx]
}

#[test]
fn atomic_instructions_are_serializing() {
    // lock add [rbx], rcx
    let decoded = decoded(&[0xf0, 0x48, 0x01, 0x0b]);
    assert!(decoded.is_atomic);
    assert_eq!(decoded.instruction.memory, MemoryUse::Modify);
    assert_eq!(decoded.instruction.operation, OperationClass::Serializing);
    // xchg [rbx], rcx needs no prefix
    assert!(super::tests::decoded(&[0x48, 0x87, 0x0b]).is_atomic);
    // xchg rbx, rcx has no memory
    assert!(!super::tests::decoded(&[0x48, 0x87, 0xcb]).is_atomic);
}

#[test]
fn stores_that_bypass_the_caches_are_told() {
    check(&[0x0f, 0xc3, 0x0b], OperationClass::Integer, MemoryUse::NontemporalStore); // movnti [rbx], ecx
    check(&[0x66, 0x0f, 0xe7, 0x0b], OperationClass::Vector, MemoryUse::NontemporalStore); // movntdq [rbx], xmm1
}

#[test]
fn repeated_instructions_do_not_wait_for_their_pointers() {
    // rep movsb
    let decoded = decoded(&[0xf3, 0xa4]);
    assert!(decoded.is_repeated);
    assert_eq!(decoded.instruction.memory, MemoryUse::Modify);
    check_registers(&[0xf3, 0xa4], &[RSI, RDI], &[], &[]);
    // repne scasb sets flags
    assert!(super::tests::decoded(&[0xf2, 0xae]).is_repeated);
    // movsb without a prefix moves its pointers
    assert!(!super::tests::decoded(&[0xa4]).is_repeated);
    // pause has the same prefix
    assert!(!super::tests::decoded(&[0xf3, 0x90]).is_repeated);
    // movsd xmm1, [rbx] has too
    assert!(!super::tests::decoded(&[0xf2, 0x0f, 0x10, 0x0b]).is_repeated);
}

#[test]
fn branches_are_told_apart() {
    let flow = |bytes: &[u8]| {
        let flow = decoded(bytes).flow;
        (flow.ending, flow.target, flow.is_call)
    };
    assert_eq!(flow(&[0x75, 0x10]), (BlockEnding::Conditional, 0x1012, false)); // jne
    assert_eq!(flow(&[0xe8, 0, 0, 0, 0]), (BlockEnding::Jump, 0x1005, true)); // call
    assert_eq!(flow(&[0xeb, 0xfe]), (BlockEnding::Jump, 0x1000, false)); // jmp
    assert_eq!(flow(&[0xff, 0xe0]), (BlockEnding::Indirect, 0, false)); // jmp rax
    assert_eq!(flow(&[0xff, 0xd0]), (BlockEnding::Indirect, 0, true)); // call rax
    assert_eq!(flow(&[0xc3]), (BlockEnding::Return, 0, false)); // ret
    assert_eq!(flow(&[0x0f, 0x05]), (BlockEnding::Falls, 0, false)); // syscall
    assert_eq!(flow(&[0x48, 0x01, 0xd8]), (BlockEnding::Falls, 0, false)); // add
}

#[test]
fn slots_follow_the_tables() {
    let slots = |bytes: &[u8]| decoded(bytes).instruction.slots;
    assert_eq!(slots(&[0x48, 0x03, 0x03]), 1, "add rax, [rbx] is fused");
    assert_eq!(slots(&[0x48, 0x89, 0x0b]), 1, "mov [rbx], rcx is fused");
    assert_eq!(slots(&[0x48, 0x01, 0x0b]), 2, "add [rbx], rcx");
    assert_eq!(slots(&[0x48, 0xf7, 0xe3]), 2, "mul rbx writes two registers");
    assert_eq!(slots(&[0x48, 0x0f, 0xaf, 0xc3]), 1, "imul rax, rbx writes one");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_some_instruction(bytes in proptest::collection::vec(proptest::num::u8::ANY, 1..16)) {
        let instruction = decoded(&bytes).instruction;
        let registers = || instruction.address.iter().chain(&instruction.sources).chain(&instruction.targets);
        proptest::prop_assert!(registers().all(|&register| usize::from(register) < unrack_lines::instruction::REGISTERS));
        proptest::prop_assert!(instruction.slots > 0);
    }
}

#[test]
fn results_of_wide_products_are_both_named() {
    check_registers(&[0x48, 0xf7, 0xe3], &[], &[RAX, RBX], &[RAX, RDX, FLAGS]); // mul rbx
}

/// An instruction whose bytes end with the page is not one that no processor knows.
#[test]
fn instructions_without_their_last_bytes_are_cut() {
    let decoder = InstructionDecoder::new();
    let load = [0x48, 0x8b, 0x74, 0x24, 0x40]; // mov rsi, [rsp + 0x40]
    assert!((1..load.len()).all(|bytes| decoder.is_cut(&load[..bytes], 0xffc)));
    assert!(!decoder.is_cut(&load, 0xffc));
    assert!(!decoder.is_cut(&[0x0f, 0x0b], 0xffc), "ud2");
    assert!(!decoder.is_cut(&[0x06, 0x90], 0xffc), "no instruction of 64-bit mode");
}
