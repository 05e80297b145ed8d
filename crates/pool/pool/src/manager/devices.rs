//! Memory of devices or files that the user names, for example the device-DAX path `/dev/dax0.0`.
//!
//! One descriptor covers a whole device, so every connected process can access all of it. Therefore all users of the
//! device must trust each other. A manager locks the devices that it uses.

use super::error::Error;
use crate::cache_control::{AnyMemory, MemoryKind as MemoryMode, SharedMemory};
use crate::interleave::Interleave;
use crate::space::MappedSpace;
use crate::wire::Extent;
use crate::{PAGE, SECTION};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Type of the file system in which the kernel shows devices.
const SYSFS: rustix::fs::FsWord = 0x6265_6572;

/// Maximum number of devices of an interleave set, because all their descriptors go with one message.
pub(super) const MOST_DEVICES: usize = 8;

/// An interleave set that this manager has opened.
pub(super) struct Devices {
    files: Vec<OwnedFd>,
    /// Descriptors that hold the locks, opened separately from `files`. A lock lasts as long as any process has the
    /// same open file description, and the processes that receive `files` may outlive this manager.
    _locks: Vec<OwnedFd>,
    pub set: Interleave,
    /// The whole set, mapped in the same way as in every process.
    space: Arc<MappedSpace>,
}

/// Whether a manager shares its devices with other managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// No other manager of this machine may use the devices.
    Alone,
    /// Managers of several hosts use the devices, and coordinate through them.
    Shared,
}

impl Devices {
    /// Opens the devices at `paths` as a set interleaved by `granularity` bytes, locks them if `lock_as` is
    /// [`Lock::Alone`], and maps `sections` sections of them.
    ///
    /// # Errors
    /// If there are no devices or too many, one cannot be used, or they are smaller than the capacity.
    pub(super) fn open(
        paths: &[PathBuf],
        granularity: u64,
        sections: u64,
        mode: MemoryMode,
        lock_as: Lock,
    ) -> Result<Devices, Error> {
        if paths.is_empty() || paths.len() > MOST_DEVICES {
            return Err(Error::Devices(format!("give 1 to {MOST_DEVICES} devices")));
        }
        check_distinct(paths)?;
        let set = Interleave::new(paths.len() as u32, granularity);
        let set = set.map_err(|unfit| Error::Devices(unfit.to_string()))?;
        let needed = set.device_bytes(sections * SECTION);
        let (mut files, mut locks, mut least) = (Vec::new(), Vec::new(), u64::MAX);
        for path in paths {
            let failed = |error| Error::Device { path: path.clone(), error };
            if lock_as == Lock::Alone {
                locks.push(lock(path).map_err(failed)?);
            }
            let (file, bytes) = open(path).map_err(failed)?;
            if mode == MemoryMode::Uncached {
                super::mtrr::check_uncached(path).map_err(Error::Lacking)?;
            }
            least = least.min(bytes);
            files.push(file);
        }
        if set.sections(least) == 0 {
            let text =
                format!("the smallest has {least} bytes, less than a section of 2 MiB: give larger ones");
            return Err(Error::Devices(text));
        }
        if set.sections(least) < sections {
            let (have, want) = (set.sections(least) * SECTION, sections * SECTION);
            let text = format!(
                "they have {have} bytes in whole sections, less than the capacity of {want}: give a smaller \
                --capacity"
            );
            return Err(Error::Devices(text));
        }
        for (path, file) in paths.iter().zip(&files) {
            fill(file, needed).map_err(|error| Error::Device { path: path.clone(), error })?;
        }
        let mut space = MappedSpace::reserve(sections * SECTION, mode)?;
        let borrowed: Vec<BorrowedFd> = files.iter().map(|file| file.as_fd()).collect();
        space.map_devices(&borrowed, set).map_err(|error| Error::Devices(error.to_string()))?;
        Ok(Devices { files, _locks: locks, set, space: Arc::new(space) })
    }

    /// Returns the number of whole sections in the devices of a set.
    ///
    /// # Errors
    /// If one of the devices cannot be used.
    pub(super) fn sections_of(paths: &[PathBuf], set: Interleave) -> Result<u32, Error> {
        let mut least = u64::MAX;
        for path in paths {
            least = least.min(open(path).map_err(|error| Error::Device { path: path.clone(), error })?.1);
        }
        u32::try_from(set.sections(least)).map_err(|_| Error::Devices("they are too large".into()))
    }

    /// Returns the address space of the manager, in which the set is mapped.
    pub(super) fn space(&self) -> Arc<MappedSpace> {
        self.space.clone()
    }

    /// Returns the descriptors that every process receives.
    pub(super) fn files(&self) -> Vec<BorrowedFd<'_>> {
        self.files.iter().map(|file| file.as_fd()).collect()
    }

    /// Writes back lines that processes of this host may have written, and drops the cached copies of them.
    pub(super) fn write_back(&self, extent: Extent) {
        let memory = self.space.memory();
        // In the model of incoherent memory, each process has separate copies, as each host has on real hardware.
        if matches!(memory, AnyMemory::Incoherent(_)) && extent.end() <= self.space.bytes() {
            // SAFETY: the whole space is mapped.
            unsafe { memory.refresh(self.space.pointer(extent.offset), extent.bytes as usize) };
        }
    }

    /// Fills a queue area with zeros, because it may have been used before.
    pub(super) fn clear(&self, extent: Extent) {
        let zeros = [0; PAGE as usize];
        for offset in (extent.offset..extent.end()).step_by(PAGE as usize) {
            // SAFETY: the whole space is mapped, and no process uses the extent.
            unsafe { self.space.memory().write(self.space.pointer(offset), &zeros) };
        }
    }
}

/// Checks that no device or file occurs twice in a set, even by different paths. Otherwise two parts of the address
/// space would lie on the same bytes.
///
/// # Errors
/// The error names both paths of a duplicate.
pub(super) fn check_distinct(paths: &[PathBuf]) -> Result<(), Error> {
    let mut seen = std::collections::BTreeMap::new();
    for path in paths {
        // A path that cannot be opened is refused later, when it is opened.
        let Ok(found) = path.metadata() else { continue };
        let is_device = found.file_type().is_char_device();
        let identity = if is_device { (0, found.rdev()) } else { (found.dev(), found.ino()) };
        if let Some(before) = seen.insert((is_device, identity), path) {
            let text = format!("{} is {}: give each device once", path.display(), before.display());
            return Err(Error::Devices(text));
        }
    }
    Ok(())
}

/// Locks a device until the returned descriptor is closed.
fn lock(path: &Path) -> std::io::Result<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| std::io::Error::other("another program has it locked"))?;
    Ok(file)
}

/// Opens a device or file, and returns it with its size in bytes.
fn open(path: &Path) -> std::io::Result<(OwnedFd, u64)> {
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, stat.st_size as u64)),
        FileType::CharacterDevice => {
            let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
            let size = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/size"));
            let bytes = size.ok().and_then(|text| text.trim().parse().ok());
            Ok((
                file,
                bytes.ok_or_else(|| {
                    std::io::Error::other("it is no device-DAX device, since it states no size")
                })?,
            ))
        }
        FileType::BlockDevice => Err(std::io::Error::other(
            "it is a block device, whose pages the kernel keeps copies of: make a device-DAX device of it with `ndctl \
             create-namespace --mode=devdax`",
        )),
        _ => Err(std::io::Error::other("it is neither a file nor a device-DAX device")),
    }
}

/// Allocates the whole part of a file that the pool uses, because touching a hole could end in `SIGBUS`.
fn fill(file: &OwnedFd, needed: u64) -> std::io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    // In this file system, the file is the memory of a PCI device, which needs no allocation.
    if rustix::fs::fstatfs(file)?.f_type == SYSFS {
        return Ok(());
    }
    let system = rustix::fs::fstatvfs(file)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    // Allocated blocks may lie beyond the bytes that the pool needs. Therefore this check may accept too much, but
    // never refuses too much.
    let missing = needed.saturating_sub(stat.st_blocks as u64 * 512);
    if missing > free {
        let text = format!(
            "the file is sparse, and lacks {missing} bytes, but its file system has {free} free: free some, or use \
             another"
        );
        return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, text));
    }
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, needed)?)
}
