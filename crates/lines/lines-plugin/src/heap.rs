//! Configuration of the heap that QEMU and the recorder share. While the program runs, this heap should need no new
//! mappings.
//!
//! Linux limits the number of mappings of a process (`vm.max_map_count`). A program that uses all of them fails in
//! `mmap`, as in a native run, and continues. QEMU and the recorder could not continue: their allocator maps memory for
//! each large block, and at the limit their heap could not grow. Therefore the heap grows by a large amount at once,
//! and large blocks are also allocated from it. The large amount is cheap, because untouched pages use no memory.

use libc::{M_MMAP_THRESHOLD, M_TOP_PAD, M_TRIM_THRESHOLD, c_int};

/// Number of bytes by which the heap grows in advance. Even for a program with 65,530 mappings, the recorder uses only
/// a part of these bytes.
const ROOM: c_int = 64 << 20;
/// Size in bytes from which a block of the allocator gets its own mapping: the maximum that the C library accepts.
const LARGE: c_int = 32 << 20;

/// Configures the allocator. It must be called before any other function of the plugin.
pub(crate) fn prepare() {
    for (option, value) in [(M_TOP_PAD, ROOM), (M_MMAP_THRESHOLD, LARGE), (M_TRIM_THRESHOLD, c_int::MAX)] {
        // SAFETY: `mallopt` sets parameters of the allocator under the allocator's lock. If it rejects one, the
        // default remains.
        unsafe { libc::mallopt(option, value) };
    }
}
