//! Instructions of system call filters (`seccomp(2)`), in the kernel's encoding (`struct sock_filter`).

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};

/// Offsets in `struct seccomp_data`.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;

/// Returns the offset of the lower half of the system call's argument `n`, on a little-endian machine.
pub(crate) const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

/// Loads the word at this offset.
pub(crate) fn load(at: u32) -> [u8; 8] {
    instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
}

/// Skips `then` instructions if the loaded word is `value`, and `otherwise` instructions if not.
pub(crate) fn jump_if(value: u32, then: u8, otherwise: u8) -> [u8; 8] {
    instruction(BPF_JMP | BPF_JEQ | BPF_K, then, otherwise, value)
}

pub(crate) fn skip_unless(value: u32, instructions: u8) -> [u8; 8] {
    jump_if(value, 0, instructions)
}

/// Ends the filter with this action.
pub(crate) fn give(action: u32) -> [u8; 8] {
    instruction(BPF_RET | BPF_K, 0, 0, action)
}

/// Encodes `struct sock_filter`.
pub(crate) fn instruction(code: u32, then: u8, otherwise: u8, value: u32) -> [u8; 8] {
    let (code, value) = ((code as u16).to_le_bytes(), value.to_le_bytes());
    [code[0], code[1], then, otherwise, value[0], value[1], value[2], value[3]]
}
