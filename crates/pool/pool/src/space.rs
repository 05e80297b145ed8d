//! The pool's address space in this process. It is reserved once, and segments are mapped into it as they are granted.

use crate::cache_control::{AnyMemory, Coherent, Incoherent, IncoherentModel, MemoryKind, Uncached};
use crate::interleave::Interleave;
use crate::wire::{Access, Extent};
use crate::{PAGE, SECTION};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// The address space. All memory that this process was granted is at `pointer = base + offset`.
pub struct MappedSpace {
    base: *mut u8,
    /// Address at which the files are mapped. It equals `base`, except in the model of incoherent memory.
    shared: *mut u8,
    bytes: usize,
    memory: AnyMemory,
    /// True if the whole space is mapped at once, as devices are.
    whole: bool,
    /// Mapped extents, by offset.
    mapped: Mutex<HashMap<u64, ExtentMapping>>,
}

/// Mapping of one extent.
struct ExtentMapping {
    bytes: u64,
    access: Access,
    /// Number of channels that granted the extent; one if this process leased it.
    count: u32,
}

// SAFETY: the space holds only addresses, and code that dereferences them is responsible for the access.
unsafe impl Send for MappedSpace {}
// SAFETY: a shared reference gives out only addresses, and its counts are behind a lock.
unsafe impl Sync for MappedSpace {}

impl MappedSpace {
    /// Reserves addresses for `bytes` bytes of memory of a kind.
    ///
    /// # Errors
    /// If not enough addresses are free, or this processor lacks the instructions that the kind of memory needs.
    pub fn reserve(bytes: u64, mode: MemoryKind) -> std::io::Result<MappedSpace> {
        let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let shared = reserve(bytes)?;
        let memory = AnyMemory::Coherent(Coherent);
        let mut space =
            MappedSpace { base: shared, shared, bytes, memory, whole: false, mapped: Mutex::default() };
        space.memory = match mode {
            MemoryKind::Coherent => AnyMemory::Coherent(Coherent),
            MemoryKind::Uncached => AnyMemory::Uncached(Uncached),
            MemoryKind::Incoherent => {
                AnyMemory::Incoherent(Incoherent::detect().map_err(std::io::Error::other)?)
            }
            MemoryKind::Model => {
                space.base = reserve(bytes)?;
                let seed = std::process::id() as u64;
                // SAFETY: each range is reserved until the space is dropped, and the model is not used after that.
                // Parts of the cache are mapped as zeros together with the files.
                AnyMemory::Model(unsafe { IncoherentModel::new(space.base, space.shared, bytes, seed) })
            }
        };
        Ok(space)
    }

    /// Returns the functions for access to this memory.
    pub fn memory(&self) -> &AnyMemory {
        &self.memory
    }

    /// Returns the size of the space in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the address of an offset, even if no extent is mapped there.
    #[inline(always)]
    pub fn pointer(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.bytes as u64);
        self.base.wrapping_add(offset as usize)
    }

    /// Maps devices to the whole space. It is called once, before any extent is mapped.
    ///
    /// # Errors
    /// If the kernel refuses, or there are more granules than can be mapped.
    pub fn map_devices(&mut self, files: &[BorrowedFd<'_>], set: Interleave) -> std::io::Result<()> {
        // The manager did send all descriptors, so a missing one means that this process has reached its limit of open
        // descriptors.
        if files.len() != set.devices as usize {
            return Err(Errno::MFILE.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        for (offset, device, at, bytes) in set.parts(self.bytes as u64).map_err(std::io::Error::other)? {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            let to = self.shared.wrapping_add(offset as usize).cast();
            // SAFETY: the range is inside the reservation, which is not in use yet.
            unsafe { rustix::mm::mmap(to, bytes as usize, access, flags, files[device as usize], at)? };
        }
        if self.base != self.shared {
            // SAFETY: the range is the reservation of the model's cache, which is not in use yet.
            unsafe { fixed(self.base, self.bytes, access, MapFlags::NORESERVE)? };
        }
        self.whole = true;
        Ok(())
    }

    /// Returns whether the whole space is mapped, so that extents come without descriptors.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Maps a file of an extent's size, unless the same extent or the whole space is mapped already. Each call needs a
    /// matching [`unmap`](MappedSpace::unmap).
    ///
    /// # Errors
    /// If the extent is not in the space, the file is too short, or the kernel refuses. Returns [`Errno::EXIST`] if the
    /// offset is mapped already with another size or access, which means that the manager has leased that memory twice.
    pub fn map(&self, extent: Extent, file: Option<&OwnedFd>, access: Access) -> rustix::io::Result<()> {
        self.check(extent)?;
        if self.whole {
            return Ok(());
        }
        // The manager did send the descriptor, so a missing one means that this process has reached its limit of open
        // descriptors.
        let file = file.ok_or(Errno::MFILE)?.as_fd();
        if rustix::fs::fstat(file)?.st_size < extent.bytes as i64 {
            return Err(Errno::INVAL);
        }
        let mut all = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = all.get_mut(&extent.offset) {
            // The extent is mapped because another channel granted it or this process leased it. It cannot be a newer
            // lease of the same place, because an extent is leased again only when no process has it mapped.
            if (mapped.bytes, mapped.access) != (extent.bytes, access) {
                return Err(Errno::EXIST);
            }
            mapped.count += 1;
            return Ok(());
        }
        let (at, bytes) = (extent.offset as usize, extent.bytes as usize);
        let allowed = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range is inside this space's reservation, and the previous contents of the range are not in use.
        unsafe {
            rustix::mm::mmap(self.shared.add(at).cast(), bytes, allowed, flags, file, 0)?;
            if extent.bytes >= SECTION {
                // Huge pages save page faults, if the kernel supports them for shared memory.
                let _ = rustix::mm::madvise(self.shared.add(at).cast(), bytes, Advice::LinuxHugepage);
            }
            if self.base != self.shared {
                let own = ProtFlags::READ | ProtFlags::WRITE;
                fixed(self.base.add(at), bytes, own, MapFlags::NORESERVE)?;
            }
        }
        all.insert(extent.offset, ExtentMapping { bytes: extent.bytes, access, count: 1 });
        Ok(())
    }

    /// Unmaps an extent when the last of its mappings ends. Its addresses stay reserved.
    ///
    /// # Safety
    /// Code that had the extent mapped does not use it from now on.
    pub unsafe fn unmap(&self, extent: Extent) {
        if self.whole {
            return;
        }
        let mut all = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = all.get_mut(&extent.offset).expect("what is unmapped was mapped");
        mapped.count -= 1;
        if mapped.count > 0 {
            return;
        }
        all.remove(&extent.offset);
        let (at, bytes) = (extent.offset as usize, extent.bytes as usize);
        if let AnyMemory::Model(model) = &self.memory {
            model.forget(self.pointer(extent.offset), bytes);
        }
        // SAFETY: the range is inside the reservation, and the caller guarantees that it is not in use.
        unsafe {
            for base in [self.shared, self.base] {
                // This fails only if the kernel has no memory for its records of mappings. Then the mapping stays, but
                // is unused.
                let _ = fixed(base.add(at), bytes, ProtFlags::empty(), MapFlags::NORESERVE);
            }
        }
    }

    fn check(&self, extent: Extent) -> rustix::io::Result<()> {
        let whole = (extent.offset | extent.bytes).is_multiple_of(PAGE) && extent.bytes > 0;
        let inside = extent.offset.checked_add(extent.bytes).is_some_and(|end| end <= self.bytes as u64);
        if whole && inside { Ok(()) } else { Err(Errno::INVAL) }
    }
}

impl Drop for MappedSpace {
    fn drop(&mut self) {
        // SAFETY: the reservation belongs to this space, and no pointer into a dropped space is in use.
        unsafe {
            let _ = rustix::mm::munmap(self.shared.cast(), self.bytes);
            if self.base != self.shared {
                let _ = rustix::mm::munmap(self.base.cast(), self.bytes);
            }
        }
    }
}

/// Reserves addresses at which no memory is mapped, aligned to sections.
fn reserve(bytes: usize) -> rustix::io::Result<*mut u8> {
    let (section, flags) = (SECTION as usize, MapFlags::PRIVATE | MapFlags::NORESERVE);
    let asked = bytes.checked_add(section).ok_or(Errno::NOMEM)?;
    // SAFETY: the kernel picks an unused address, and only the unused ends of the new mapping are unmapped.
    unsafe {
        let start = rustix::mm::mmap_anonymous(std::ptr::null_mut(), asked, ProtFlags::empty(), flags)?;
        let base = (start as usize).next_multiple_of(section) as *mut c_void;
        let before = base as usize - start as usize;
        if before > 0 {
            rustix::mm::munmap(start, before)?;
        }
        if before < section {
            rustix::mm::munmap(base.byte_add(bytes), section - before)?;
        }
        Ok(base.cast())
    }
}

/// Maps zeros over a range, or only reserves it if `access` is empty.
///
/// # Safety
/// The range belongs to the caller's reservation, and is not in use.
unsafe fn fixed(at: *mut u8, bytes: usize, access: ProtFlags, flags: MapFlags) -> rustix::io::Result<()> {
    let flags = flags | MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: the caller guarantees that the range may be replaced.
    unsafe { rustix::mm::mmap_anonymous(at.cast(), bytes, access, flags) }.map(drop)
}
