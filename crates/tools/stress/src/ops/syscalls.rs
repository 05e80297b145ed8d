//! Operations in which the kernel reads from and writes to the program's memory.

use crate::story::{fail, note};
use crate::sys::{self, DescriptorPair, File};
use crate::worker::Worker;
use std::ops::Range;
use std::time::Duration;
use unrack_basis::PAGE;

/// Number of pages that fit in a pipe without a reader.
const FITS: usize = 12;

/// Two ranges of one region, of which the kernel copies the first to the second. The program touches neither range before the copy, so both
/// may be evicted.
pub(super) struct Transfer {
    region: usize,
    from: Range<usize>,
    to: Range<usize>,
}

impl Transfer {
    /// Chooses two ranges of at most `most` pages. Writes those pages of the source that the kernel may still discard.
    pub(super) fn prepare(w: &mut Worker, most: usize) -> Transfer {
        let region = w.any_region(2);
        let len = w.regions[region].len();
        let half = len / 2;
        let pages = w.rng.between(1, most.min(half));
        let from = w.rng.between(0, half - pages);
        let to = w.rng.between(half, len - pages);
        let version = w.new_version();
        w.regions[region].settle(from..from + pages, w.seed, version);
        note(format_args!("region {region}, pages {from}+{pages} to {to}"));
        Transfer { region, from: from..from + pages, to: to..to + pages }
    }

    /// Returns the address of the source range.
    pub(super) fn source(&self, w: &Worker) -> usize {
        w.regions[self.region].address(self.from.start)
    }

    /// Returns the address of the target range.
    pub(super) fn target(&self, w: &Worker) -> usize {
        w.regions[self.region].address(self.to.start)
    }

    /// Returns the length of each range in bytes.
    pub(super) fn len(&self) -> usize {
        self.from.len() * PAGE
    }

    /// Notes in the model that the bytes were copied, and checks both ranges.
    pub(super) fn arrived(self, w: &mut Worker) {
        let region = &mut w.regions[self.region];
        region.copied(self.from.clone(), self.to.start);
        region.verify(self.to);
        region.verify(self.from);
    }
}

/// Copies through a pipe, in a few pieces of odd sizes.
pub(super) fn pipe(w: &mut Worker) {
    let t = Transfer::prepare(w, FITS);
    let pipe = DescriptorPair::pipe();
    send_all(w, pipe.1, t.source(w), t.len());
    receive_all(w, pipe.0, t.target(w), t.len());
    t.arrived(w);
}

fn send_all(w: &mut Worker, fd: i32, from: usize, len: usize) {
    in_pieces(w, len, |at, n| {
        // SAFETY: the piece is inside the source of the transfer.
        sys::retry("write", || unsafe { libc::write(fd, (from + at) as *const _, n) })
    });
}

fn receive_all(w: &mut Worker, fd: i32, to: usize, len: usize) {
    in_pieces(w, len, |at, n| {
        // SAFETY: the piece is inside the target of the transfer.
        sys::retry("read", || unsafe { libc::read(fd, (to + at) as *mut _, n) })
    });
}

/// Calls `f` for pieces of random sizes until all bytes are transferred.
fn in_pieces(w: &mut Worker, len: usize, mut f: impl FnMut(usize, usize) -> usize) {
    let mut at = 0;
    while at < len {
        let n = if w.rng.one_in(2) { len - at } else { w.rng.between(1, len - at) };
        // A short transfer must not influence the random choices, so the rest of the piece is transferred here.
        let end = at + n;
        while at < end {
            match f(at, end - at) {
                0 => fail("the end of a pipe that is still open"),
                done => at += done,
            }
        }
    }
}

/// Returns up to 16 pieces that cover `len` bytes from `base`. The list is allocated with the size of a page, so that it may be evicted
/// too.
pub(super) fn pieces(w: &mut Worker, base: usize, len: usize) -> Vec<libc::iovec> {
    let mut list = Vec::with_capacity(256);
    let mut at = 0;
    while at < len {
        let n = if list.len() == 15 { len - at } else { w.rng.between(1, len - at) };
        list.push(libc::iovec { iov_base: (base + at) as *mut _, iov_len: n });
        at += n;
    }
    list
}

/// Writes many pieces to a pipe, and reads them into other pieces (writev, readv).
pub(super) fn vector(w: &mut Worker) {
    let t = Transfer::prepare(w, FITS);
    let (source, target) = (t.source(w), t.target(w));
    let out = pieces(w, source, t.len());
    let into = pieces(w, target, t.len());
    let pipe = DescriptorPair::pipe();
    // SAFETY: the pieces are inside the source of the transfer.
    let sent = sys::retry("writev", || unsafe { libc::writev(pipe.1, out.as_ptr(), out.len() as i32) });
    // SAFETY: the pieces are inside the target of the transfer.
    let got = sys::retry("readv", || unsafe { libc::readv(pipe.0, into.as_ptr(), into.len() as i32) });
    if sent != t.len() || got != t.len() {
        fail(format_args!("writev took {sent} and readv gave {got} of {} bytes", t.len()));
    }
    t.arrived(w);
}

/// Writes a file and reads it back, sometimes bypassing the page cache if the file system supports that.
pub(super) fn disk(w: &mut Worker) {
    let flags = if w.rng.one_in(2) { libc::O_DIRECT } else { 0 };
    let t = Transfer::prepare(w, 64);
    let file = File::on_disk(flags).or_else(|| File::on_disk(0)).unwrap_or_else(|| File::anonymous(0));
    let (source, target, len) = (t.source(w), t.target(w), t.len());
    // SAFETY: source and target belong to the transfer.
    let sent = sys::retry("pwrite", || unsafe { libc::pwrite(file.0, source as *const _, len, 0) });
    // SAFETY: the target belongs to the transfer, and has `len` bytes.
    let got = sys::retry("pread", || unsafe { libc::pread(file.0, target as *mut _, len, 0) });
    if sent != len || got != len {
        fail(format_args!("pwrite took {sent} and pread gave {got} of {len} bytes"));
    }
    t.arrived(w);
}

/// Makes calls that write their results to memory: random bytes, file status, paths, copies by the kernel.
pub(super) fn results(w: &mut Worker) {
    let t = Transfer::prepare(w, 64);
    let (source, target, len) = (t.source(w), t.target(w), t.len());
    // The path and the status are in the target range. The status is compared with one that was read to the stack.
    let path = target + w.rng.below(PAGE - 256);
    let name = b"/proc/self/exe\0";
    // SAFETY: from every offset below a page less 256, the target has room for the name.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), path as *mut u8, name.len()) };
    let status = target + w.rng.below((PAGE - 256) / 8) * 8;
    // SAFETY: `stat` is plain data.
    let mut expected: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: both results have room; the paths end with NUL.
    sys::must(unsafe { libc::stat(name.as_ptr().cast(), &mut expected) }, "stat");
    // SAFETY: the path ends with NUL and the status has room, both in the target; the status is aligned.
    let found = unsafe {
        libc::stat(path as *const _, status as *mut libc::stat);
        &*(status as *const libc::stat)
    };
    if found.st_ino != expected.st_ino {
        fail(format_args!("stat into {status:#x}: inode {} for {}", found.st_ino, expected.st_ino));
    }
    // Random bytes cannot be compared, but their number must be correct.
    // SAFETY: the target has room for `len` bytes.
    let n = sys::retry("getrandom", || unsafe { libc::getrandom(target as *mut _, len.min(256), 0) });
    if n != len.min(256) {
        fail(format_args!("getrandom gave {n} bytes"));
    }
    // The kernel copies from this process to this process.
    let local = libc::iovec { iov_base: target as *mut _, iov_len: len };
    let remote = libc::iovec { iov_base: source as *mut _, iov_len: len };
    // SAFETY: both ranges belong to the transfer.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if n != len as isize {
        // If a sandbox forbids the call, the program copies the bytes itself.
        crate::sys::bytes_mut(target, len).copy_from_slice(crate::sys::bytes(source, len));
    }
    t.arrived(w);
}

/// Checks that system calls on inaccessible memory fail with EFAULT and change no byte.
pub(super) fn refused(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, 4);
    let address = w.regions[i].address(range.start);
    let file = File::anonymous(1);
    w.regions[i].protect(libc::PROT_READ);
    // SAFETY: the kernel must refuse to write to the range, which is tested here.
    let read = unsafe { libc::pread(file.0, address as *mut _, 100, 0) };
    let read_errno = sys::errno();
    w.regions[i].protect(libc::PROT_NONE);
    // SAFETY: the kernel must refuse to read the range, which is tested here.
    let write = unsafe { libc::pwrite(file.0, address as *const _, 100, 0) };
    let write_errno = sys::errno();
    if (read, read_errno, write, write_errno) != (-1, libc::EFAULT, -1, libc::EFAULT) {
        fail(format_args!(
            "calls on forbidden memory gave {read} ({read_errno}) and {write} ({write_errno})"
        ));
    }
    w.regions[i].verify(range);
}

/// Makes a thread sleep on a word of a region until another thread wakes it.
pub(super) fn futex(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, 1);
    w.write(i, range.clone());
    let word = w.regions[i].address(range.start) + w.rng.below(PAGE / 4) * 4;
    // SAFETY: the word is aligned, inside the region, and used only as an atomic until the scope ends.
    let cell = unsafe { &*(word as *const std::sync::atomic::AtomicU32) };
    let before = cell.load(std::sync::atomic::Ordering::Acquire);
    let shared = w.shared.clone();
    let no_child = shared.with_threads();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while cell.load(std::sync::atomic::Ordering::Acquire) == before {
                futex_call(word, WAIT, before, Some(Duration::from_millis(200)));
            }
        });
        std::thread::yield_now();
        cell.store(!before, std::sync::atomic::Ordering::Release);
        futex_call(word, WAKE, 1, None);
        // Joined explicitly, because the end of the scope waits only for the thread's closure, not for the end of the thread.
        sleeper.join().unwrap_or_else(|_| fail("a thread panicked"));
    });
    drop(no_child);
    // A wait for a value that differs from the current one returns at once.
    if futex_call(word, WAIT, before, None) != libc::EAGAIN {
        fail("a futex waited for a value that was not there");
    }
    cell.store(before, std::sync::atomic::Ordering::Release);
    w.regions[i].verify(range);
}

const WAIT: i32 = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: i32 = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// Calls futex(2). Returns the error number, or 0.
fn futex_call(word: usize, op: i32, value: u32, timeout: Option<Duration>) -> i32 {
    let spec =
        timeout.map(|t| libc::timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is mapped and aligned; the timeout is alive for the call.
    let result = unsafe { libc::syscall(libc::SYS_futex, word, op, value, spec) };
    if result < 0 { sys::errno() } else { 0 }
}
