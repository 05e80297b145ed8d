//! Mapping of an area: the header, and each ring twice in a row, so that bytes that wrap around are contiguous.

use super::{AREA_BYTES, HEAD_BYTES, Head, MAGIC, RING_BYTES, VERSION};
use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, c_int, c_void};
use std::sync::atomic::Ordering;

/// Address space of a mapping, in bytes.
const SPAN: usize = HEAD_BYTES + 4 * RING_BYTES;
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Reason why an area cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmappable {
    /// The file is not an area of this version, or another process could truncate it.
    NotAnArea,
    /// The kernel refused the mapping: this process has no memory or mappings left.
    Kernel,
}

/// An area that is mapped into this process. It stays mapped until [`unmap`](AreaMapping::unmap).
#[derive(Clone, Copy)]
pub(crate) struct AreaMapping {
    base: *mut u8,
}

// SAFETY: any thread may access this memory, by atomic words and by copies of bytes.
unsafe impl Send for AreaMapping {}
// SAFETY: any thread may access this memory, by atomic words and by copies of bytes.
unsafe impl Sync for AreaMapping {}

impl AreaMapping {
    /// Maps an area that the broker handed out.
    pub(crate) fn open(fd: c_int) -> Result<AreaMapping, Unmappable> {
        check(fd)?;
        let map = AreaMapping::reserve()?;
        map.place(fd).inspect_err(|_| map.unmap())?;
        let head = map.head();
        if head.magic.load(Ordering::Acquire) != MAGIC || head.version.load(Ordering::Relaxed) != VERSION {
            map.unmap();
            return Err(Unmappable::NotAnArea);
        }
        Ok(map)
    }

    /// Makes a `Map` from the address of an existing mapping.
    ///
    /// # Safety
    /// `base` is the address of a mapping that has not been unmapped.
    pub(crate) unsafe fn at(base: *mut u8) -> AreaMapping {
        AreaMapping { base }
    }

    /// Returns the address of the mapping.
    pub(crate) fn base(self) -> *mut u8 {
        self.base
    }

    fn reserve() -> Result<AreaMapping, Unmappable> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: the kernel chooses new address space.
        let base = unsafe { map(std::ptr::null_mut(), SPAN, libc::PROT_NONE, flags, -1, 0) };
        if base == MAP_FAILED { Err(Unmappable::Kernel) } else { Ok(AreaMapping { base: base.cast() }) }
    }

    fn place(self, fd: c_int) -> Result<(), Unmappable> {
        let ring = |i: usize| HEAD_BYTES + i * RING_BYTES;
        let parts = [
            (0, HEAD_BYTES, 0),
            (ring(0), RING_BYTES, ring(0)),
            (ring(1), RING_BYTES, ring(0)),
            (ring(2), RING_BYTES, ring(1)),
            (ring(3), RING_BYTES, ring(1)),
        ];
        for (at, bytes, offset) in parts {
            let to = self.base.wrapping_add(at).cast();
            // SAFETY: the range is within the address space that was reserved.
            let placed = unsafe { map(to, bytes, READ_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) };
            if placed == MAP_FAILED {
                return Err(Unmappable::Kernel);
            }
        }
        Ok(())
    }

    /// Returns the header.
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: the header is mapped, aligned to a page, and made of atomic words only.
        unsafe { &*self.base.cast::<Head>() }
    }

    /// Returns the ring of a direction: `2 * RING_BYTES` bytes, because the ring is mapped twice.
    pub(crate) fn ring(self, direction: usize) -> *mut u8 {
        self.base.wrapping_add(HEAD_BYTES + 2 * direction * RING_BYTES)
    }

    /// Unmaps the area. No thread may use it any more.
    pub(crate) fn unmap(self) {
        // SAFETY: this process made the mapping, and no thread uses it any more.
        unsafe { libc::munmap(self.base.cast(), SPAN) };
    }
}

/// Checks that a file is an area and cannot shrink, because its size is sealed.
fn check(fd: c_int) -> Result<(), Unmappable> {
    // SAFETY: only plain numbers are passed.
    let seals = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GET_SEALS, 0) };
    // SAFETY: all zeros are a valid `stat`.
    let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: the C library writes its structure.
    let known = unsafe { libc::fstat(fd, &raw mut stat) };
    let is_sealed = seals >= 0 && seals as c_int & libc::F_SEAL_SHRINK != 0;
    if known == 0 && is_sealed && stat.st_size as usize >= AREA_BYTES {
        Ok(())
    } else {
        Err(Unmappable::NotAnArea)
    }
}

/// Calls `mmap(2)`.
///
/// # Safety
/// As `mmap(2)`.
unsafe fn map(
    to: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { libc::mmap(to, bytes, protection, flags, fd, offset as libc::off_t) }
}
