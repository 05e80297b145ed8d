//! Memory behind segments: their files, and the seals on these files.

use super::devices::Devices;
use super::folder::SegmentFolder;
use crate::SECTION;
use crate::wire::{Access, Extent};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Kind of memory that a pool consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// Memory files without a name, one per segment. With `huge`, they consist of huge pages of 2 MiB.
    Memfd { huge: bool },
    /// Files in a directory on tmpfs or hugetlbfs, one per segment.
    Directory(PathBuf),
    /// Device-DAX devices or files that form an interleave set, with its `granularity` in bytes.
    Devices { paths: Vec<PathBuf>, granularity: u64 },
}

/// Memory of a pool that a manager has opened.
pub(super) struct Store {
    pub backing: Backing,
    /// The devices, if the pool consists of devices.
    pub devices: Option<Arc<Devices>>,
    /// The locked folder, if the pool consists of files in a directory.
    pub folder: Option<SegmentFolder>,
}

/// Reason why a segment's file cannot be sealed for the peers that it is granted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The file was sealed for the other kind of access.
    Sealed,
    /// The kernel's error.
    Failed(Errno),
}

impl From<Errno> for Unfit {
    fn from(error: Errno) -> Unfit {
        Unfit::Failed(error)
    }
}

impl Store {
    /// Makes the file of a segment; returns `None` if the segment lies in a device.
    pub(super) fn make(&self, extent: Extent) -> rustix::io::Result<Option<OwnedFd>> {
        match self.devices {
            Some(_) => Ok(None),
            None => self.backing.make(extent).map(Some),
        }
    }

    /// Makes the file of a queue area, filled with zeros; returns `None` if the area lies in a device. Both sides of a
    /// channel write the area, so its file is sealed against everything except writing. The file has no name, even in a
    /// pool whose segments have named files.
    pub(super) fn make_queues(&self, extent: Extent) -> rustix::io::Result<Option<OwnedFd>> {
        if let Some(devices) = &self.devices {
            devices.clear(extent);
            return Ok(None);
        }
        let file = make_memfd(extent.bytes, false)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL)?;
        Ok(Some(file))
    }

    /// Writes back to memory the lines of other hosts' memory that local processes may have written.
    pub(super) fn write_back(&self, extents: &[Extent]) {
        if let Some(devices) = &self.devices {
            extents.iter().for_each(|extent| devices.write_back(*extent));
        }
    }

    /// Seals a segment's file for the peers that it is granted to, either for reading or for writing, but never for
    /// both.
    ///
    /// Before a grant for reading, the seals must prevent every process from mapping the file writable, even by opening
    /// it again; only the owner may, because it has the file mapped already. Before a grant for writing, the seals must
    /// prevent every process from adding seals, because otherwise one peer could keep later peers from mapping the
    /// file.
    ///
    /// # Errors
    /// If the file was sealed for the other kind of access, or the kernel refuses the seals.
    pub(super) fn seal(&self, file: &OwnedFd, access: Access) -> Result<(), Unfit> {
        if !matches!(self.backing, Backing::Memfd { .. }) {
            // Files with names have no seals, but all their users are processes of one user.
            return Ok(());
        }
        let sealed = rustix::fs::fcntl_get_seals(file)?;
        let wanted = match access {
            Access::Read => SealFlags::FUTURE_WRITE | SealFlags::SEAL,
            Access::Write => SealFlags::SEAL,
        };
        let for_readers = sealed.contains(SealFlags::FUTURE_WRITE);
        match sealed.contains(SealFlags::SEAL) {
            true if for_readers == (access == Access::Read) => Ok(()),
            false if !for_readers || access == Access::Read => Ok(rustix::fs::fcntl_add_seals(file, wanted)?),
            _ => Err(Unfit::Sealed),
        }
    }
}

impl Backing {
    /// Returns a hash (FNV-1a) of the description, which is equal in all managers for the same memory.
    pub fn hash(&self) -> u64 {
        unrack_basis::fnv_1a(self.to_string().as_bytes())
    }

    /// Returns why only processes of one user may share this memory, or `None` if other users may share it too. The
    /// reason is that a process could use its descriptor to kill the others by `SIGBUS`.
    pub fn why_one_user(&self) -> Option<&'static str> {
        match self {
            Backing::Memfd { huge: false } => None,
            Backing::Memfd { huge: true } => {
                Some("a process can give a huge page back to the machine, which may have no other")
            }
            Backing::Directory(_) => Some("a process can truncate a file that has a name"),
            // A file can be truncated, but a device cannot.
            Backing::Devices { paths, .. } => paths
                .iter()
                .any(|path| path.is_file())
                .then_some("a process can truncate a file that has a name"),
        }
    }

    /// Makes a file for this extent alone. No access to the file ends in `SIGBUS`: a memory file is sealed, so that no process can shrink
    /// it, and the memory of a file in a folder is allocated at once.
    ///
    /// # Errors
    /// If the machine has no memory or descriptors left.
    fn make(&self, extent: Extent) -> rustix::io::Result<OwnedFd> {
        let file = match self {
            Backing::Memfd { huge } => make_memfd(extent.bytes, *huge)?,
            Backing::Directory(_) => self.make_named(extent)?,
            Backing::Devices { .. } => unreachable!("segments of devices have no files"),
        };
        // The permissions prevent a peer of another user that may only read from opening the file again for writing.
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        Ok(file)
    }

    fn make_named(&self, extent: Extent) -> rustix::io::Result<OwnedFd> {
        let path = self.path(extent).expect("only directories have named files");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {
                // The extent is free, so the file was left by a manager that was killed while making it.
                rustix::fs::unlink(&path)?;
                rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?
            }
            opened => opened?,
        };
        let filled = rustix::fs::ftruncate(&file, extent.bytes)
            .and_then(|()| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, extent.bytes));
        match filled {
            Ok(()) => Ok(file),
            Err(error) => {
                let _ = rustix::fs::unlink(&path);
                Err(error)
            }
        }
    }

    /// Opens the existing file of an extent, if the files of segments have names.
    pub fn find(&self, extent: Extent) -> Option<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let found = rustix::fs::open(self.path(extent)?, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&found).ok()?;
        (stat.st_size == extent.bytes as i64).then_some(found)
    }

    /// Removes the named file of an extent that has become free.
    pub fn remove(&self, extent: Extent) {
        if let Some(path) = self.path(extent) {
            // The file may already be gone, removed by hand or by a previous manager before it was killed.
            let _ = rustix::fs::unlink(path);
        }
    }

    /// Removes files of unknown segments, which are left if a manager is killed after it makes a file and before it
    /// records the segment. Files with other kinds of names stay.
    pub fn sweep(&self, is_known: impl Fn(u64) -> bool) {
        let Backing::Directory(directory) = self else { return };
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let offset = name
                .to_str()
                .and_then(|name| name.strip_prefix(NAME))
                .map(|hex| u64::from_str_radix(hex, 16));
            if let Some(Ok(offset)) = offset
                && !is_known(offset)
            {
                // The file may already have been removed by hand.
                let _ = rustix::fs::unlink(entry.path());
            }
        }
    }

    fn path(&self, extent: Extent) -> Option<PathBuf> {
        match self {
            Backing::Memfd { .. } | Backing::Devices { .. } => None,
            Backing::Directory(directory) => Some(directory.join(format!("{NAME}{:012x}", extent.offset))),
        }
    }
}

impl fmt::Display for Backing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backing::Memfd { huge: false } => out.write_str("memfd"),
            Backing::Memfd { huge: true } => out.write_str("memfd, huge pages"),
            Backing::Directory(path) => path.display().fmt(out),
            Backing::Devices { paths, granularity } => {
                for path in paths {
                    write!(out, "{}, ", path.display())?;
                }
                write!(out, "interleaved by {granularity} B")
            }
        }
    }
}

/// Prefix of the names of segments' files; the segment's offset follows in hexadecimal digits.
const NAME: &str = "segment-";

/// Makes a file of fixed size without a name. Further seals may be added to it.
fn make_memfd(bytes: u64, huge: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let file = rustix::fs::memfd_create("unrack-pool", flags)?;
    rustix::fs::ftruncate(&file, bytes)?;
    if huge {
        // There may be too few huge pages; without this check, a process would learn of that only by a `SIGBUS` when it
        // touches one.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Checks that this machine can allocate a huge page.
///
/// # Errors
/// The kernel's error.
pub(super) fn try_huge() -> rustix::io::Result<()> {
    make_memfd(SECTION, true).map(drop)
}

/// Opens the same file again, with a descriptor that cannot be mapped writable.
///
/// # Errors
/// The kernel's error. If another process holds a lease on the file, the error is returned at once, because otherwise
/// that process could block the manager.
pub(super) fn narrow(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
}
