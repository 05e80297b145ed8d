//! Heap of this QEMU, which the recorder shares. It must not need new mappings while the program runs.
//!
//! Linux limits the number of mappings of a process (`vm.max_map_count`). A program that uses all of them fails in
//! `mmap`, as it does natively, and continues. QEMU and the recorder could not continue: their allocator maps memory
//! for each large block, and at the limit their heap could not grow. Therefore the heap is enlarged by a large amount
//! at once, which is cheap because untouched pages use no memory, and large blocks are also allocated from it.

use libc::{M_MMAP_THRESHOLD, M_TOP_PAD, M_TRIM_THRESHOLD, c_int};

/// Number of bytes by which the heap grows in advance. The recorder uses a part of them for a program with 65,530
/// mappings.
const ROOM: c_int = 64 << 20;
/// Size in bytes from which a block gets its own mapping: the maximum that the C library accepts.
const LARGE: c_int = 32 << 20;

/// Configures the allocator. It must be called before any other function of the plugin.
pub(crate) fn prepare() {
    for (option, value) in [(M_TOP_PAD, ROOM), (M_MMAP_THRESHOLD, LARGE), (M_TRIM_THRESHOLD, c_int::MAX)] {
        // SAFETY: `mallopt` sets parameters of the allocator under the allocator's lock. If it rejects one, the
        // default remains.
        unsafe { libc::mallopt(option, value) };
    }
}
