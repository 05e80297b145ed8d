//! Firmware of the trial that decides whether an accelerator can run a kernel.
//!
//! It does not suffice that a guest starts, because some hosts run 16-bit code under KVM and hang forever where Linux enters 64-bit mode.
//! Therefore, the firmware executes the same steps as a kernel: it enters 64-bit mode with paging, and waits for a timer interrupt, whose
//! handler reports success.

/// Value that the firmware writes to the port of `isa-debug-exit`, and the exit status that QEMU derives from it.
pub(crate) const VALUE: u8 = 0x2a;
pub(crate) const STATUS: i32 = (VALUE as i32) << 1 | 1;
/// Size of the firmware. The machine maps the firmware so that it ends at 4 GiB.
const BYTES: usize = 64 << 10;
/// Distance from the first instruction that the processor executes to the end of the firmware.
const RESET: usize = 16;
/// `jmp` from that instruction to the start of the firmware, with a 16-bit offset that wraps.
const JUMP: [u8; 3] = [0xe9, (RESET - 3) as u8, 0];

/// Returns the firmware.
pub(crate) fn firmware() -> Vec<u8> {
    let mut image = vec![0xf4; BYTES];
    let code = code();
    image[..code.len()].copy_from_slice(code);
    let reset = BYTES - RESET;
    image[reset..reset + JUMP.len()].copy_from_slice(&JUMP);
    image
}

#[cfg(not(target_arch = "x86_64"))]
fn code() -> &'static [u8] {
    // This code never reports success, so no accelerator passes.
    &[0xf4]
}

#[cfg(target_arch = "x86_64")]
fn code() -> &'static [u8] {
    unsafe extern "C" {
        static unrack_trial_start: u8;
        static unrack_trial_end: u8;
    }
    let (start, end) = (&raw const unrack_trial_start, &raw const unrack_trial_end);
    // SAFETY: the two labels are in the same read-only section below, the end follows the start, and no code writes there.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

// The code copies itself to 0x8000, where addresses are `0x8000 + (label - start)`. Page tables, from 0x1000 to 0x3fff and at 0x5000, map
// the first 2 MiB and the local APIC to themselves. Interrupt descriptors start at 0x4000. The stack is below 0x7000.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    r#"
    .pushsection .rodata.unrack_trial, "a", @progbits
    .globl unrack_trial_start
    .globl unrack_trial_end
    .code16
unrack_trial_start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorw %si, %si
    movw $0x8000, %di
    movw $(unrack_trial_end - unrack_trial_start), %cx
    rep movsb %cs:(%si), %es:(%di)
    ljmpw $0, $(0x8000 + 10f - unrack_trial_start)
10:
    movw $0x1000, %di
    movw $0x2800, %cx
    rep stosw
    movl $0x2003, (0x1000)
    movl $0x3003, (0x2000)
    movl $0x5003, (0x2018)
    movl $0x0083, (0x3000)
    movl $0xfee00093, (0x5fb8)
    lgdtl (0x8000 + 50f - unrack_trial_start)
    movl %cr4, %eax
    orl $0x20, %eax             # PAE
    movl %eax, %cr4
    movl $0x1000, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx      # EFER
    rdmsr
    orl $0x100, %eax            # LME
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax       # PG, PE
    movl %eax, %cr0
    ljmpl $8, $(0x8000 + 20f - unrack_trial_start)
    .code64
20:
    movl $16, %eax
    movw %ax, %ss
    movw %ax, %ds
    movw %ax, %es
    movl $0x7000, %esp
    movl $(0x8000 + 40f - unrack_trial_start), %eax
    movl $0x4200, %edi          # vector 0x20
    movw %ax, (%rdi)
    movl $0x8e000008, 2(%rdi)   # code segment, present interrupt gate
    movw $0, 6(%rdi)
    movl $0, 8(%rdi)
    movl $0, 12(%rdi)
    lidt (0x8000 + 60f - unrack_trial_start)
    movl $0x4000000, %ecx       # a loop that takes minutes where every instruction is interpreted
25:
    decl %ecx
    jnz 25b
    movl $0xfee00000, %ebx      # local APIC: enabled, its timer once, after some milliseconds
    movl $0x1ff, 0xf0(%rbx)
    movl $0xb, 0x3e0(%rbx)
    movl $0x20, 0x320(%rbx)
    movl $0x200000, 0x380(%rbx)
    sti
30:
    hlt
    jmp 30b
40:
    movb ${value}, %al
    outb %al, $0xf4
    hlt
    .balign 8
50: # limit and address of the segments: null, 64-bit code, data
    .word 23
    .long 0x8000 + 70f - unrack_trial_start
60: # limit and address of the interrupt descriptors
    .word 0x20f
    .quad 0x4000
    .balign 8
70:
    .quad 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
unrack_trial_end:
    .code64
    .popsection
    "#,
    value = const VALUE,
    options(att_syntax)
);
