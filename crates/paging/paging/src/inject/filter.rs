//! The system call filter (`seccomp(2)`) that stops a program for its tracer before it makes certain calls.
//!
//! Only calls that concern the pager stop; the filter allows all others without a stop. The filter persists when the program executes
//! another program, and all processes that the program starts inherit it.

use crate::bpf::{ARCHITECTURE, NUMBER, argument, give, instruction, jump_if, load, skip_unless};
use libc::{BPF_JMP, BPF_JSET, BPF_K, CLONE_VM, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE};
use unrack_pager::sys::OURS;

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// Ptrace event data of a stop at one of the program's calls (`OF_PROGRAM`), and at the end of a function of the agent (`OF_AGENT`).
pub(super) const OF_PROGRAM: u32 = 0;
pub(super) const OF_AGENT: u32 = 1;

/// Calls that stop for the tracer independently of their arguments.
const ALWAYS: [libc::c_long; 5] =
    [libc::SYS_fork, libc::SYS_clone3, libc::SYS_mlockall, libc::SYS_set_tid_address, libc::SYS_seccomp];

/// Returns the instructions of the filter, in the kernel's encoding.
pub(super) fn program() -> Vec<u8> {
    // System calls of another ABI (32-bit, x32) have other numbers.
    let mut code =
        vec![load(ARCHITECTURE), jump_if(AUDIT_ARCH_X86_64, 1, 0), give(SECCOMP_RET_ALLOW), load(NUMBER)];
    for number in ALWAYS {
        code.extend([skip_unless(number as u32, 1), give(SECCOMP_RET_TRACE | OF_PROGRAM)]);
    }
    // A `clone` that copies memory is a fork.
    code.extend([
        skip_unless(libc::SYS_clone as u32, 4),
        load(argument(0)),
        instruction(BPF_JMP | BPF_JSET | BPF_K, 1, 0, CLONE_VM as u32),
        give(SECCOMP_RET_TRACE | OF_PROGRAM),
        give(SECCOMP_RET_ALLOW),
    ]);
    code.extend([
        skip_unless(libc::SYS_prctl as u32, 4),
        load(argument(0)),
        skip_unless(libc::PR_SET_SECCOMP as u32, 1),
        give(SECCOMP_RET_TRACE | OF_PROGRAM),
        give(SECCOMP_RET_ALLOW),
    ]);
    for number in [libc::SYS_userfaultfd, libc::SYS_mremap] {
        code.extend(if_ours(number, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE | OF_PROGRAM));
    }
    code.extend(if_ours(libc::SYS_getpid, SECCOMP_RET_TRACE | OF_AGENT, SECCOMP_RET_ALLOW));
    code.push(give(SECCOMP_RET_ALLOW));
    code.into_iter().flatten().collect()
}

/// Returns instructions that distinguish the agent's calls of this number, which have a mark in their sixth argument, from the program's
/// calls.
fn if_ours(number: libc::c_long, ours: u32, others: u32) -> [[u8; 8]; 7] {
    [
        skip_unless(number as u32, 6),
        load(argument(5)),
        skip_unless(OURS as u32, 3),
        load(argument(5) + 4),
        skip_unless((OURS >> 32) as u32, 1),
        give(ours),
        give(others),
    ]
}
