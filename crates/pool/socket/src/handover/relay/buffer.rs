//! Buffer for the bytes that a relay passes on. It maps its memory itself, because the relay cannot use an allocator.

/// Buffer whose bytes are removed from its beginning.
pub(super) struct Buffer {
    base: *mut u8,
    size: usize,
    /// The bytes between these two offsets are in the buffer.
    begin: usize,
    end: usize,
    /// Number of bytes behind `end` that are to be moved in front of all others.
    before: usize,
}

impl Buffer {
    /// Makes an empty buffer; `None` if there is no memory.
    pub(super) fn new(size: usize) -> Option<Buffer> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses new memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
        (base != libc::MAP_FAILED).then_some(Buffer { base: base.cast(), size, begin: 0, end: 0, before: 0 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Returns the bytes in the buffer.
    pub(super) fn bytes(&self) -> (*mut u8, usize) {
        (self.base.wrapping_add(self.begin), self.end - self.begin)
    }

    /// Notes that bytes were passed on.
    pub(super) fn taken(&mut self, bytes: usize) {
        self.begin += bytes;
        if self.is_empty() {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Returns the free space behind the bytes.
    pub(super) fn room(&self) -> (*mut u8, usize) {
        let used = self.end + self.before;
        (self.base.wrapping_add(used), self.size - used)
    }

    /// Notes that bytes were written into the free space.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Notes that bytes were written into the free space which come before all others.
    pub(super) fn put_before(&mut self, bytes: usize) {
        self.before += bytes;
    }

    /// Moves the bytes that come before all others to the front.
    pub(super) fn settle(&mut self) {
        let all = self.size.min(self.end + self.before);
        // SAFETY: memory of this buffer, up to its end.
        let used = unsafe { std::slice::from_raw_parts_mut(self.base, all) };
        used[self.begin..].rotate_right(self.before);
        (self.end, self.before) = (all, 0);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference to it is left.
        unsafe { libc::munmap(self.base.cast(), self.size) };
    }
}
