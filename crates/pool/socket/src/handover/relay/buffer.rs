//! Bytes on their way, in memory of the relay's own: no allocator can be used there.

/// Buffer from whose beginning bytes are taken.
pub(super) struct Buffer {
    base: *mut u8,
    size: usize,
    /// Bytes between these places are on their way.
    begin: usize,
    end: usize,
    /// Bytes behind them that are to come before them.
    before: usize,
}

impl Buffer {
    /// Makes an empty buffer.
    pub(super) fn new(size: usize) -> Option<Buffer> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
        (base != libc::MAP_FAILED).then_some(Buffer { base: base.cast(), size, begin: 0, end: 0, before: 0 })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Returns the bytes on their way.
    pub(super) fn bytes(&self) -> (*mut u8, usize) {
        (self.base.wrapping_add(self.begin), self.end - self.begin)
    }

    /// Notes that so many bytes were passed on.
    pub(super) fn taken(&mut self, bytes: usize) {
        self.begin += bytes;
        if self.is_empty() {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Returns the room behind the bytes.
    pub(super) fn room(&self) -> (*mut u8, usize) {
        let used = self.end + self.before;
        (self.base.wrapping_add(used), self.size - used)
    }

    /// Notes that so many bytes were put into the room.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Notes that so many bytes were put into the room that come before all others.
    pub(super) fn put_before(&mut self, bytes: usize) {
        self.before += bytes;
    }

    /// Moves bytes that come before the others there.
    pub(super) fn settle(&mut self) {
        let all = self.size.min(self.end + self.before);
        // SAFETY: memory of our own, up to its end.
        let used = unsafe { std::slice::from_raw_parts_mut(self.base, all) };
        used[self.begin..].rotate_right(self.before);
        (self.end, self.before) = (all, 0);
    }
}
