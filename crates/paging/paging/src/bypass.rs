//! Transfers past the page tables, which are prevented where the pager copies pages (before Linux 6.8).
//!
//! During such a transfer, the kernel writes to the physical page although the program may have another page at that address by then. A
//! pager that moves pages keeps the physical page, and the kernel refuses to move a page that a device uses. A pager that copies pages can
//! do neither ([`unrack_pager::copies`]). Therefore a system call filter makes the calls that begin such transfers fail, in a way that
//! programs know: files cannot be opened with `O_DIRECT` (`EINVAL`, as on file systems without it), and there is no `io_uring` and no
//! `openat2` (`ENOSYS`, as on kernels without them). All processes that the program starts inherit the filter.

use crate::bpf::{ARCHITECTURE, NUMBER, argument, give, instruction, jump_if, load, skip_unless};
use crate::machine;
use libc::{BPF_JMP, BPF_JSET, BPF_K, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO};
use std::ffi::OsStr;
use std::io;
use unrack_pager::control::CONTROL_VARIABLE;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Filter that prevents transfers past the page tables.
pub(crate) struct BypassFilter(Vec<libc::sock_filter>);

impl BypassFilter {
    /// Makes the filter for a program with this environment; returns `None` if the program needs none, because its pager moves pages, or
    /// because it has no pager.
    pub(crate) fn for_program<'a>(mut variables: impl Iterator<Item = &'a OsStr>) -> Option<BypassFilter> {
        let has_pager = variables.any(|name| name == CONTROL_VARIABLE);
        (has_pager && machine::copies_pages())
            .then(|| BypassFilter(program().into_iter().map(decode).collect()))
    }

    /// Sets the filter for the calling thread, which is about to execute the program. Without root rights, the thread first sets
    /// `PR_SET_NO_NEW_PRIVS`. Makes system calls only, so that a child may call this between `fork` and `exec`.
    ///
    /// # Errors
    /// The kernel's error if it has no filters.
    pub(crate) fn set(&self) -> io::Result<()> {
        let code = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: the kernel reads `code` and its instructions, which live until the call returns.
        let set =
            || unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const code) };
        if set() == 0 {
            return Ok(());
        }
        // SAFETY: an attribute of this thread.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        if set() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Number of filters that a program has because of this module.
pub(crate) fn filters() -> u64 {
    u64::from(machine::copies_pages())
}

fn decode(bytes: [u8; 8]) -> libc::sock_filter {
    let [a, b, jt, jf, k @ ..] = bytes;
    libc::sock_filter { code: u16::from_le_bytes([a, b]), jt, jf, k: u32::from_le_bytes(k) }
}

const NO_SUCH_CALL: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const NOT_DIRECT: u32 = SECCOMP_RET_ERRNO | libc::EINVAL as u32;

/// Returns the instructions of the filter.
fn program() -> Vec<[u8; 8]> {
    // System calls of another ABI (32-bit) have other numbers.
    let mut code = vec![load(ARCHITECTURE), jump_if(AUDIT_ARCH, 1, 0), give(SECCOMP_RET_ALLOW), load(NUMBER)];
    for number in [libc::SYS_io_uring_setup, libc::SYS_openat2] {
        code.extend([skip_unless(number as u32, 1), give(NO_SUCH_CALL)]);
    }
    let mut direct = vec![(libc::SYS_openat, 2), (libc::SYS_open_by_handle_at, 2)];
    #[cfg(target_arch = "x86_64")]
    direct.push((libc::SYS_open, 1));
    for (number, flags) in direct {
        code.push(skip_unless(number as u32, 4));
        code.extend(refuse_direct(flags));
    }
    code.extend([
        skip_unless(libc::SYS_fcntl as u32, 6),
        load(argument(1)),
        skip_unless(libc::F_SETFL as u32, 4),
    ]);
    code.extend(refuse_direct(2));
    code.push(give(SECCOMP_RET_ALLOW));
    code
}

/// Refuses the call if this argument has the flag `O_DIRECT`, and allows it otherwise.
fn refuse_direct(flags: u32) -> [[u8; 8]; 4] {
    [
        load(argument(flags)),
        instruction(BPF_JMP | BPF_JSET | BPF_K, 0, 1, libc::O_DIRECT as u32),
        give(NOT_DIRECT),
        give(SECCOMP_RET_ALLOW),
    ]
}
