//! System calls on address ranges. A failure ends the program.
//!
//! Addresses are plain numbers here, because moving, shrinking and removing ranges is the purpose of this program. Every caller passes only
//! ranges that, according to its model, are mapped and belong to it.

use crate::story::fail;
use unrack_basis::PAGE;

pub(crate) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
pub(crate) const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Returns the error number of the thread's last system call.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns the result of a call. A negative result means failure, and ends the program.
pub(crate) fn must<T: PartialOrd + From<i8>>(result: T, call: &str) -> T {
    if result < T::from(0) {
        fail(format_args!("{call}: {}", std::io::Error::last_os_error()));
    }
    result
}

/// Repeats a call as long as signals interrupt it.
pub(crate) fn retry(call: &str, mut f: impl FnMut() -> isize) -> usize {
    loop {
        let n = f();
        if n >= 0 || errno() != libc::EINTR {
            return must(n, call) as usize;
        }
    }
}

/// Returns the bytes at an address.
pub(crate) fn bytes<'a>(address: usize, len: usize) -> &'a [u8] {
    // SAFETY: see the module: the range is mapped, and only this thread writes to it.
    unsafe { std::slice::from_raw_parts(address as *const u8, len) }
}

/// Returns the bytes at an address, for writing.
pub(crate) fn bytes_mut<'a>(address: usize, len: usize) -> &'a mut [u8] {
    // SAFETY: see the module: the range is mapped writable, and only this thread uses it.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len) }
}

fn mapped(address: *mut libc::c_void, call: &str) -> usize {
    if address == libc::MAP_FAILED {
        fail(format_args!("{call}: {}", std::io::Error::last_os_error()));
    }
    address as usize
}

/// Maps pages at an address that the kernel chooses.
pub(crate) fn map(pages: usize, prot: i32, flags: i32, fd: i32) -> usize {
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing mapping.
    mapped(unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, prot, flags, fd, 0) }, "mmap")
}

/// Maps new memory over the pages at `address`.
pub(crate) fn map_over(address: usize, pages: usize, prot: i32) {
    let flags = ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: see the module: the range belongs to the caller, and its contents are discarded.
    let at = mapped(unsafe { libc::mmap(address as *mut _, pages * PAGE, prot, flags, -1, 0) }, "mmap fixed");
    if at != address {
        fail(format_args!("mmap fixed gave {at:#x} for {address:#x}"));
    }
}

/// Unmaps pages.
pub(crate) fn unmap(address: usize, pages: usize) {
    // SAFETY: see the module: the range belongs to the caller, and its contents are discarded.
    must(unsafe { libc::munmap(address as *mut _, pages * PAGE) }, "munmap");
}

/// Moves or resizes a range of pages, and returns its new address. If `to` is given, the range must move to that address.
pub(crate) fn remap(from: usize, pages: usize, new_pages: usize, flags: i32, to: Option<usize>) -> usize {
    let (old, new) = (pages * PAGE, new_pages * PAGE);
    // A fifth argument is always passed, because for some flags the C library reads it even without MREMAP_FIXED.
    // SAFETY: see the module: source and target belong to the caller, which updates its model.
    let at = unsafe { libc::mremap(from as *mut _, old, new, flags, to.unwrap_or(0)) };
    mapped(at, "mremap")
}

/// Sets the protection of pages.
pub(crate) fn protect(address: usize, pages: usize, prot: i32) {
    // SAFETY: see the module: the range belongs to the caller, whose model records the protection.
    must(unsafe { libc::mprotect(address as *mut _, pages * PAGE, prot) }, "mprotect");
}

/// Gives advice about pages. The kernel must accept the advice, unless it is `optional`.
pub(crate) fn advise(address: usize, pages: usize, advice: i32, optional: bool) {
    // SAFETY: see the module: the range belongs to the caller, whose model records the data that the advice discards.
    let result = unsafe { libc::madvise(address as *mut _, pages * PAGE, advice) };
    if !optional {
        must(result, "madvise");
    }
}

/// Locks a range in memory while `meanwhile` runs, if limits permit it.
pub(crate) fn lock_briefly(address: usize, pages: usize, meanwhile: impl FnOnce()) {
    // SAFETY: see the module; locking changes no byte.
    let locked = unsafe { libc::mlock(address as *const _, pages * PAGE) } == 0;
    meanwhile();
    if locked {
        // SAFETY: the range was just locked; unlocking changes no byte.
        must(unsafe { libc::munlock(address as *const _, pages * PAGE) }, "munlock");
    }
}

/// Waits for a child process, which must end with status 0.
pub(crate) fn wait(child: i32, what: &str) {
    let mut status = 0;
    // SAFETY: `status` is alive for the call.
    retry("waitpid", || unsafe { libc::waitpid(child, &mut status, 0) as isize });
    if status != 0 {
        let how = if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
        let kind = if libc::WIFSIGNALED(status) { "was ended by signal" } else { "ended with status" };
        fail(format_args!("child of {what} {kind} {how}"));
    }
}

/// Two connected descriptors, which are closed when this value is dropped.
pub(crate) struct DescriptorPair(pub i32, pub i32);

impl DescriptorPair {
    /// Makes a pipe. The first descriptor is the read end, the second the write end.
    pub(crate) fn pipe() -> DescriptorPair {
        let mut fds = [0; 2];
        // SAFETY: `fds` has room for the two descriptors.
        must(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }, "pipe2");
        DescriptorPair(fds[0], fds[1])
    }

    /// Makes two connected Unix sockets.
    pub(crate) fn sockets(kind: i32) -> DescriptorPair {
        let mut fds = [0; 2];
        // SAFETY: `fds` has room for the two descriptors.
        must(
            unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) },
            "socketpair",
        );
        DescriptorPair(fds[0], fds[1])
    }
}

impl Drop for DescriptorPair {
    fn drop(&mut self) {
        // SAFETY: both descriptors belong to this pair.
        unsafe {
            libc::close(self.0);
            libc::close(self.1);
        }
    }
}

/// File without a name, which is closed when this value is dropped.
pub(crate) struct File(pub i32);

impl File {
    /// Makes a file in memory.
    pub(crate) fn anonymous(pages: usize) -> File {
        // SAFETY: the name is a constant C string.
        let fd = must(unsafe { libc::memfd_create(c"stress".as_ptr(), libc::MFD_CLOEXEC) }, "memfd_create");
        // SAFETY: the descriptor was just made.
        must(unsafe { libc::ftruncate(fd, (pages * PAGE) as i64) }, "ftruncate");
        File(fd)
    }

    /// Makes a file without a name on disk. Returns `None` if the file system does not support that, or refuses the flags.
    pub(crate) fn on_disk(flags: i32) -> Option<File> {
        let dir = std::ffi::CString::new(std::env::temp_dir().into_os_string().into_encoded_bytes()).ok()?;
        // SAFETY: the path is a C string; the mode is passed because O_TMPFILE creates a file.
        let fd = unsafe {
            libc::open(dir.as_ptr(), libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC | flags, 0o600)
        };
        (fd >= 0).then_some(File(fd))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor belongs to this file.
        unsafe { libc::close(self.0) };
    }
}
