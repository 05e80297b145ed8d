//! Makes a traced process exit with a chosen status.

use super::raw;
use rustix::io::Errno;

/// Makes a stopped thread end its process with this exit status.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile, `ENOSYS` if the process contains no known system call instruction.
pub(super) fn exit(thread: u32, status: u8) -> Result<(), Errno> {
    let mut registers = raw::registers(thread)?;
    registers.rip = system_call_instruction(thread)? as u64;
    // The kernel does not restart a call with this number.
    registers.orig_rax = u64::MAX;
    registers.rax = libc::SYS_exit_group as u64;
    registers.rdi = u64::from(status);
    raw::set_registers(thread, &registers)?;
    raw::run(thread, 0)
}

/// Finds a system call instruction in the code that the kernel maps into each process (the vDSO).
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile, `ENOSYS` if the process has no such code.
pub(crate) fn system_call_instruction(thread: u32) -> Result<usize, Errno> {
    let maps = std::fs::read_to_string(format!("/proc/{thread}/maps")).map_err(|_| Errno::SRCH)?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or(Errno::NOSYS)?;
    let (range, _) = line.split_once(' ').ok_or(Errno::NOSYS)?;
    let (start, end) = range.split_once('-').ok_or(Errno::NOSYS)?;
    let address = |text| usize::from_str_radix(text, 16).map_err(|_| Errno::NOSYS);
    let (start, end) = (address(start)?, address(end)?);
    let mut code = vec![0u8; end - start];
    raw::read_memory(thread, start, &mut code)?;
    code.windows(2).position(|bytes| bytes == [0x0f, 0x05]).map(|at| start + at).ok_or(Errno::NOSYS)
}
