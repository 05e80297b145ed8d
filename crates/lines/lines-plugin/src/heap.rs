//! Heap of this QEMU, which the recorder shares: it must not need mappings while the program runs.
//!
//! Linux limits the mappings of a process (`vm.max_map_count`). A program that uses all of them fails in `mmap`, as natively, and goes
//! on. QEMU and the recorder could not: their allocator maps memory for each large block, and its heap cannot grow then. So it
//! takes much of the heap at once, of which untouched pages cost nothing, and large blocks from there, too.

use libc::{M_MMAP_THRESHOLD, M_TOP_PAD, M_TRIM_THRESHOLD, c_int};

/// Bytes by which the heap grows beyond what is needed: what is recorded of a program with 65,530 mappings takes a part of it.
const ROOM: c_int = 64 << 20;
/// Bytes from which on a block has a mapping of its own: the largest that the C library takes.
const LARGE: c_int = 32 << 20;

/// Prepares the heap. Call this first.
pub(crate) fn prepare() {
    for (option, value) in [(M_TOP_PAD, ROOM), (M_MMAP_THRESHOLD, LARGE), (M_TRIM_THRESHOLD, c_int::MAX)] {
        // SAFETY: sets numbers of the allocator, under its own lock. If it refuses one, the heap is as it would be.
        unsafe { libc::mallopt(option, value) };
    }
}
