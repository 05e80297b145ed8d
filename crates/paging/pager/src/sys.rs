//! Raw system calls.
//!
//! The pager's thread shares the thread pointer of the thread that made it. Therefore it must not touch thread-local storage: neither
//! `errno` nor the C library's allocator. This module uses only `rustix` with its own system-call instructions, and `ioctl`s built on them.
//!
//! # References
//! `userfaultfd(2)`, `ioctl_userfaultfd(2)`.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;

pub use unrack_basis::PAGE;

/// An `ioctl` that reads and writes one plain struct.
struct Exchange<'a, const OPCODE: u32, T>(&'a mut T);

// SAFETY: each use names the opcode that the kernel defines for exactly this `#[repr(C)]` struct, and the kernel writes no memory outside
// of the struct.
unsafe impl<const OPCODE: u32, T> rustix::ioctl::Ioctl for Exchange<'_, OPCODE, T> {
    type Output = rustix::ioctl::IoctlOutput;
    const IS_MUTATING: bool = true;
    fn opcode(&self) -> rustix::ioctl::Opcode {
        OPCODE as rustix::ioctl::Opcode
    }
    fn as_ptr(&mut self) -> *mut c_void {
        self.0 as *mut T as *mut c_void
    }
    unsafe fn output_from_ptr(
        value: rustix::ioctl::IoctlOutput,
        _: *mut c_void,
    ) -> rustix::io::Result<rustix::ioctl::IoctlOutput> {
        Ok(value)
    }
}

/// Makes an `ioctl` with a struct. The caller must pair the opcode with the struct that the kernel expects for it.
pub(crate) fn exchange<const OPCODE: u32, T>(fd: BorrowedFd, value: &mut T) -> Result<i32, Errno> {
    // SAFETY: see `Exchange`; callers pair opcode and struct.
    unsafe { rustix::ioctl::ioctl(fd, Exchange::<OPCODE, T>(value)) }
}

/// Returns the number of an ioctl: `_IOWR(group, number, T)`.
pub(crate) const fn read_write<T>(group: u8, number: u8) -> u32 {
    (3 << 30) | ((size_of::<T>() as u32) << 16) | ((group as u32) << 8) | number as u32
}

/// Returns the number of an ioctl: `_IOR(group, number, T)`.
const fn read_only<T>(group: u8, number: u8) -> u32 {
    (2 << 30) | ((size_of::<T>() as u32) << 16) | ((group as u32) << 8) | number as u32
}

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct UffdRange {
    start: u64,
    len: u64,
}

#[repr(C)]
struct UffdRegister {
    range: UffdRange,
    mode: u64,
    ioctls: u64,
}

/// Argument of copy and move: `struct uffdio_copy` and `struct uffdio_move` have the same layout.
#[repr(C)]
struct UffdTransfer {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    done: i64,
}

#[repr(C)]
struct UffdZeropage {
    range: UffdRange,
    mode: u64,
    done: i64,
}

/// Feature: reports of forks, each with a userfaultfd of the child. A process needs `CAP_SYS_PTRACE` to request it.
pub const FEATURE_EVENT_FORK: u64 = 1 << 1;
/// Feature: reports of `mremap`.
pub const FEATURE_EVENT_REMAP: u64 = 1 << 2;
/// Feature: reports of `madvise` calls that drop contents.
pub const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
/// Feature: reports of `munmap`.
pub const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
/// Feature: faults raise `SIGBUS` instead of waiting.
pub const FEATURE_SIGBUS: u64 = 1 << 7;
/// Feature: reports of faults include the thread's id.
pub const FEATURE_THREAD_ID: u64 = 1 << 8;
/// Feature: `UFFDIO_MOVE` (Linux 6.8).
pub const FEATURE_MOVE: u64 = 1 << 16;

const MODE_DONTWAKE: u64 = 1;

/// Sixth argument of the pager's calls of `userfaultfd` and `mremap`, which the kernel does not read. By this value, a system call filter
/// recognizes that the program did not make the call.
pub const OURS: usize = 0x756e_7261_636b;

/// Event that the kernel reports to the pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A thread waits for a page.
    Fault { address: usize, write: bool, thread: u32 },
    /// `mremap`: the contents of `[from, from+len)` are now at `to`.
    Remap { from: usize, to: usize, len: usize },
    /// `madvise(MADV_DONTNEED | MADV_FREE | …)`: the contents are about to be dropped.
    Remove { start: usize, end: usize },
    /// `munmap`, or a mapping that replaces this one: the contents are gone.
    Unmap { start: usize, end: usize },
    /// A fork. Pages that are missing in the parent are missing in the child as well; the holder of this descriptor can fill them there.
    Fork { uffd: c_int },
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawMessage {
    event: u8,
    _reserved: [u8; 7],
    words: [u64; 3],
}

const UFFD_FLAGS: c_int = libc::O_CLOEXEC | libc::O_NONBLOCK;

/// A `userfaultfd`. The kernel checks every call against this process's own address space.
pub struct Uffd(OwnedFd);

impl Uffd {
    /// Opens a userfaultfd that also serves faults taken inside system calls.
    ///
    /// # Errors
    /// `EPERM`: not root, `vm.unprivileged_userfaultfd` is 0 and `/dev/userfaultfd` is not accessible. `EINVAL`: this kernel lacks one of
    /// `features`.
    pub fn open(features: u64) -> Result<Uffd, Errno> {
        Uffd::open_through(features, None)
    }

    /// Opens a userfaultfd like [`Uffd::open`], if necessary through this device, which was opened before.
    pub(crate) fn open_through(features: u64, device: Option<&OwnedFd>) -> Result<Uffd, Errno> {
        let uffd = match (Uffd::create(), device) {
            (Err(Errno::PERM), Some(device)) => create_through(device)?,
            (Err(Errno::PERM), None) => create_through(&open_device()?)?,
            (other, _) => other?,
        };
        uffd.enable(features)?;
        Ok(uffd)
    }

    /// Makes a userfaultfd, which can be used after its features were requested ([`Uffd::enable`]).
    pub(crate) fn create() -> Result<Uffd, Errno> {
        // SAFETY: makes a new descriptor; only the registration of memory with it can do harm.
        match unsafe { call(libc::SYS_userfaultfd, [UFFD_FLAGS as usize, 0, 0, 0, 0, OURS]) } {
            // SAFETY: the kernel just made this descriptor for us.
            fd @ 0.. => Ok(Uffd(unsafe { OwnedFd::from_raw_fd(fd as i32) })),
            error => Err(Errno::from_raw_os_error(-error as i32)),
        }
    }

    /// Requests features of the userfaultfd. Any process that has the descriptor may do so, but only once.
    ///
    /// # Errors
    /// `EINVAL`: this kernel lacks one of the features, or features were requested before; `EPERM`: the caller may not request them.
    pub fn enable(&self, features: u64) -> Result<(), Errno> {
        let mut api = UffdApi { api: 0xAA, features, ioctls: 0 };
        exchange::<{ read_write::<UffdApi>(0xAA, 0x3F) }, _>(self.fd(), &mut api).map(drop)
    }

    /// Replaces the descriptor with one that `f` makes from it.
    ///
    /// # Errors
    /// The error of `f`; the userfaultfd is then closed, unless `f` kept it.
    pub fn with_descriptor(self, f: impl FnOnce(OwnedFd) -> Result<OwnedFd, Errno>) -> Result<Uffd, Errno> {
        f(self.0).map(Uffd)
    }

    /// Returns the descriptor, whose owner is now the caller.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Registers `[start, start+len)`: from now on, a thread that touches a missing page in this range waits for the pager.
    ///
    /// # Errors
    /// `EINVAL` if the range does not consist of whole pages, or contains memory that cannot be registered; `EBUSY` if it is registered
    /// with another userfaultfd; `ENOMEM` if the process is ending or the kernel has no memory.
    pub fn register(&self, start: usize, len: usize) -> Result<(), Errno> {
        let range = UffdRange { start: start as u64, len: len as u64 };
        let mut register = UffdRegister { range, mode: 1, ioctls: 0 };
        exchange::<{ read_write::<UffdRegister>(0xAA, 0x00) }, _>(self.fd(), &mut register).map(drop)
    }

    /// Undoes [`Uffd::register`]: from now on, the kernel handles missing pages in this range.
    ///
    /// # Errors
    /// `EINVAL` if the range does not consist of whole pages, or contains memory that cannot be registered; `ENOMEM` if the process is
    /// ending or the kernel has no memory.
    pub fn unregister(&self, start: usize, len: usize) -> Result<(), Errno> {
        let mut range = UffdRange { start: start as u64, len: len as u64 };
        exchange::<{ read_only::<UffdRange>(0xAA, 0x01) }, _>(self.fd(), &mut range).map(drop)
    }

    /// Moves pages without copying. Returns the number of bytes that the kernel reports as moved, and the error if the kernel stopped
    /// early. [`crate::moves`] corrects the number, which may be wrong.
    pub fn move_pages(&self, dst: usize, src: usize, len: usize, wake: bool) -> (usize, Result<(), Errno>) {
        self.transfer::<{ read_write::<UffdTransfer>(0xAA, 0x05) }>(dst, src, len, wake)
    }

    /// Fills missing pages with a copy of `src`. Returns the number of bytes filled, and the error if the kernel stopped early.
    pub fn copy(&self, dst: usize, src: usize, len: usize) -> (usize, Result<(), Errno>) {
        self.transfer::<{ read_write::<UffdTransfer>(0xAA, 0x03) }>(dst, src, len, true)
    }

    /// Checks whether this page is currently missing in memory that is registered with this userfaultfd. If it is missing, the check maps
    /// the zero page there.
    ///
    /// # Errors
    /// `EEXIST` if the page is present, `ENOENT` if its memory is not registered.
    pub fn probe(&self, page: usize) -> Result<(), Errno> {
        probe(self.fd(), page)
    }

    fn transfer<const OPCODE: u32>(
        &self,
        dst: usize,
        src: usize,
        len: usize,
        wake: bool,
    ) -> (usize, Result<(), Errno>) {
        let mode = if wake { 0 } else { MODE_DONTWAKE };
        let mut transfer = UffdTransfer { dst: dst as u64, src: src as u64, len: len as u64, mode, done: 0 };
        let result = exchange::<OPCODE, _>(self.fd(), &mut transfer).map(drop);
        let done = transfer.done.max(0) as usize;
        (if result.is_ok() { len } else { done.min(len) }, result)
    }

    /// Returns whether the address space is changing. Until the pager has read the event of the change, the kernel neither moves nor fills
    /// pages.
    pub(crate) fn is_changing(&self) -> bool {
        is_changing(self.fd())
    }

    /// Wakes threads that wait for this page, so that they try again.
    pub fn wake(&self, page: usize) {
        let mut range = UffdRange { start: page as u64, len: PAGE as u64 };
        // A wakeup fails only for an invalid range, and a page of this process is a valid one.
        let _ = exchange::<{ read_only::<UffdRange>(0xAA, 0x02) }, _>(self.fd(), &mut range);
    }

    /// Sets whether [`Uffd::read`] waits for events if there are none. While it waits, the descriptor cannot be polled.
    ///
    /// # Errors
    /// The kernel's error, after which nothing has changed.
    pub(crate) fn set_waiting(&self, waits: bool) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&self.0, !waits)
    }

    /// Appends the events that can be read to `events`; if there are none, this is not an error.
    ///
    /// # Errors
    /// The kernel's error if events cannot be read. The absence of events and an interruption by a signal are not errors.
    pub fn read(&self, events: &mut Vec<Event>) -> Result<(), Errno> {
        let mut raw = [RawMessage { event: 0, _reserved: [0; 7], words: [0; 3] }; 16];
        // SAFETY: any bytes are valid for `RawMessage`, which has no padding.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(raw.as_mut_ptr() as *mut u8, size_of_val(&raw)) };
        let read = match rustix::io::read(&self.0, bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            other => other?,
        };
        events.extend(raw[..read / size_of::<RawMessage>()].iter().filter_map(RawMessage::decode));
        Ok(())
    }
}

fn probe(uffd: BorrowedFd, page: usize) -> Result<(), Errno> {
    let range = UffdRange { start: page as u64, len: PAGE as u64 };
    let mut zero = UffdZeropage { range, mode: MODE_DONTWAKE, done: 0 };
    exchange::<{ read_write::<UffdZeropage>(0xAA, 0x04) }, _>(uffd, &mut zero).map(drop)
}

/// Returns whether the address space is changing, like [`Uffd::is_changing`].
pub(crate) fn is_changing(uffd: BorrowedFd) -> bool {
    // The kernel refuses the call because of a change before it checks the argument; 0 is not the address of a page.
    probe(uffd, 0) == Err(Errno::AGAIN)
}

impl From<OwnedFd> for Uffd {
    fn from(descriptor: OwnedFd) -> Uffd {
        Uffd(descriptor)
    }
}

impl RawMessage {
    fn decode(&self) -> Option<Event> {
        let [a, b, c] = self.words;
        match self.event {
            0x12 => {
                Some(Event::Fault { address: b as usize & !(PAGE - 1), write: a & 1 != 0, thread: c as u32 })
            }
            0x13 => Some(Event::Fork { uffd: a as c_int }),
            0x14 => Some(Event::Remap { from: a as usize, to: b as usize, len: c as usize }),
            0x15 => Some(Event::Remove { start: a as usize, end: b as usize }),
            0x16 => Some(Event::Unmap { start: a as usize, end: b as usize }),
            _ => None,
        }
    }
}

/// Opens the device that provides userfaultfds according to its file permissions (Linux 6.1).
///
/// # Errors
/// `EPERM` if the device does not exist, or this user may not open it.
pub fn open_device() -> Result<OwnedFd, Errno> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|_| Errno::PERM)
}

const DEVICE: &core::ffi::CStr = c"/dev/userfaultfd";

/// Makes a userfaultfd through this device, in the state in which [`Uffd::create`] makes one.
pub(crate) fn create_through(device: &OwnedFd) -> Result<Uffd, Errno> {
    struct New(u32);
    // SAFETY: USERFAULTFD_IOC_NEW takes the flags by value and returns a new descriptor.
    unsafe impl rustix::ioctl::Ioctl for New {
        type Output = OwnedFd;
        const IS_MUTATING: bool = false;
        fn opcode(&self) -> rustix::ioctl::Opcode {
            0xAA00
        }
        fn as_ptr(&mut self) -> *mut c_void {
            self.0 as usize as *mut c_void
        }
        unsafe fn output_from_ptr(
            fd: rustix::ioctl::IoctlOutput,
            _: *mut c_void,
        ) -> rustix::io::Result<OwnedFd> {
            // SAFETY: the kernel just made this descriptor for us.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        }
    }
    // SAFETY: see `New`.
    unsafe { rustix::ioctl::ioctl(device, New(UFFD_FLAGS as u32)) }.map(Uffd)
}

/// Converts a time in ns to the kernel's structure.
pub fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Returns the monotonic time in nanoseconds; all processes of a run use the same clock.
pub fn now_ns() -> u64 {
    ns(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// Returns the processor time of the calling thread in nanoseconds.
pub fn used_ns() -> u64 {
    ns(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the number of resident pages that are neither file-backed nor shared, from `/proc/self/statm`.
pub fn anonymous_pages(statm: BorrowedFd) -> Option<u64> {
    let mut text = [0u8; 128];
    let len = rustix::io::pread(statm, &mut text, 0).ok()?;
    let mut fields = text[..len].split(|b| *b == b' ').map(decimal);
    let (resident, shared) = (fields.nth(1)??, fields.next()??);
    Some(resident.saturating_sub(shared))
}

/// Parses the decimal number at the start of `text`.
pub fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let number = |n: u64, b: &u8| n.wrapping_mul(10).wrapping_add((b - b'0') as u64);
    (digits > 0).then(|| text[..digits].iter().fold(0, number))
}

/// Moves the pages of `[at, at+len)`, which are in one mapping, to `to`, and leaves the mapping in place without pages (Linux 5.7). A
/// mapping that was at `to` is replaced; after an error it may be gone.
///
/// # Errors
/// `EFAULT` if the range is not in one mapping; `EINVAL` if the kernel cannot move these pages; `ENOMEM` if memory or mappings are short.
///
/// # Safety
/// The contents of `[at, at+len)` may become zero, and `[to, to+len)` is not in use.
///
/// # References
/// `mremap(2)`, `MREMAP_DONTUNMAP`.
pub(crate) unsafe fn set_aside(at: usize, len: usize, to: usize) -> Result<(), Errno> {
    const FLAGS: usize = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) as usize;
    // SAFETY: the caller guarantees the conditions above.
    match unsafe { call(libc::SYS_mremap, [at, len, len, FLAGS, to, OURS]) } {
        0.. => Ok(()),
        error => Err(Errno::from_raw_os_error(-error as i32)),
    }
}

/// Copies memory of this process like [`core::ptr::copy_nonoverlapping`], but whatever rights the program has left itself, except that
/// memory without any rights is not read. Returns whether all bytes were copied.
///
/// # Safety
/// Both ranges are mapped, `[to, to+len)` is writable and not in use, and the ranges do not overlap.
///
/// # References
/// `process_vm_readv(2)`.
pub(crate) unsafe fn copy_own(to: usize, from: usize, len: usize) -> bool {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let (local, remote) = ([to, len], [from, len]);
    let arguments = [pid, local.as_ptr().addr(), 1, remote.as_ptr().addr(), 1, 0];
    // SAFETY: the caller guarantees the conditions above; the two arrays have the layout of `struct iovec`.
    let copied = unsafe { call(libc::SYS_process_vm_readv, arguments) };
    copied == len as isize
}

/// Disables transparent huge pages in this process and in those that it starts, because the pager moves pages one by one.
pub fn refuse_huge_pages() {
    // The call fails on a kernel without huge pages, where it is not needed.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Closes all descriptors of the calling thread's table except those in `kept`. Negative numbers in `kept` are ignored.
pub fn close_all_files_but(kept: &mut [c_int]) {
    kept.sort_unstable();
    let mut first = 0;
    for last in kept.iter().filter(|kept| **kept >= 0).map(|kept| *kept as usize).chain([1 << 32]) {
        if first < last {
            // SAFETY: close_range(2) touches no memory.
            unsafe { call(libc::SYS_close_range, [first, last - 1, 0, 0, 0, 0]) };
        }
        first = last + 1;
    }
}

/// Blocks the signals of `mask`, and no others, in the calling thread: signal n is bit n - 1. Returns the previous mask.
pub(crate) fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (set, old) = ((&raw const mask).addr(), (&raw mut before).addr());
    // SAFETY: reads and writes these sets of the size that is given.
    unsafe { call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, set, old, size_of::<u64>(), 0, 0]) };
    before
}

/// Returns whether the calling thread has the normal scheduling class, and may return to it from `SCHED_IDLE`. This needs the same right as
/// a lower nice value, which is tried.
pub(crate) fn may_leave_idle_class() -> bool {
    const LOWEST_NICE: i32 = -20;
    // SAFETY: reads and writes no memory.
    let class = unsafe { call(libc::SYS_sched_getscheduler, [0; 6]) };
    let Ok(nice) = rustix::process::getpriority_process(None) else { return false };
    class == libc::SCHED_OTHER as isize
        && nice > LOWEST_NICE
        && rustix::process::setpriority_process(None, nice - 1).is_ok()
        && rustix::process::setpriority_process(None, nice).is_ok()
}

/// Gives a thread (0: the calling one) the scheduling class `SCHED_IDLE`, or the normal class. A failure leaves the class as it was.
pub(crate) fn set_idle_class(thread: u32, is_idle: bool) {
    let class = if is_idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
    let parameter = libc::sched_param { sched_priority: 0 };
    let arguments = [thread as usize, class as usize, (&raw const parameter).addr(), 0, 0, 0];
    // SAFETY: the kernel reads the parameter, which outlives the call.
    unsafe { call(libc::SYS_sched_setscheduler, arguments) };
}

/// Ends all threads of this process at once. No exit handler of the program or the C library runs.
pub fn exit(status: u8) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Makes a system call with an instruction of this crate, because the C library's `syscall` may be intercepted, even by the pager itself.
/// Returns the kernel's raw result, in which an error is a small negative number.
///
/// # Safety
/// The call must not harm memory that is in use.
pub(crate) unsafe fn call(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees that the call does no harm; the kernel keeps all registers but these.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, out("rcx") _, out("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller guarantees that the call does no harm; the kernel keeps all registers but these.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    result
}

/// Makes a thread that runs `main` with its argument on this stack. Returns the thread's number, or an error in the same form as [`call`].
///
/// # Safety
/// The flags share this memory (`CLONE_VM`); `main` never returns, and its stack is not used otherwise.
pub(crate) unsafe fn clone(
    flags: c_int,
    stack_top: usize,
    main: extern "C" fn(*mut c_void) -> c_int,
    argument: usize,
) -> isize {
    let result;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees the conditions above; in the new thread, all registers but `rax` and the stack's are the caller's.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r8",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone => result,
            in("rdi") flags,
            in("rsi") stack_top,
            in("rdx") 0,
            in("r10") 0,
            in("r8") argument,
            in("r9") main,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller guarantees the conditions above; in the new thread, all registers but `x0` and the stack's are the caller's.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, 0",
            "mov x0, x5",
            "blr x6",
            "brk 1",
            "2:",
            in("x8") libc::SYS_clone,
            inlateout("x0") flags as usize => result,
            in("x1") stack_top,
            in("x2") 0,
            in("x3") 0,
            in("x4") 0,
            in("x5") argument,
            in("x6") main,
            options(nostack)
        );
    }
    result
}
