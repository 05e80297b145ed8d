//! Where the bytes are: the files behind segments, and what seals them.

use super::devices::Devices;
use super::folder::Folder;
use crate::SECTION;
use crate::wire::{Access, Extent};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What a pool's memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// Files in memory without a name, one a segment; `huge`: of huge pages of 2 MiB.
    Memfd { huge: bool },
    /// Files in a directory on tmpfs or hugetlbfs, one a segment.
    Directory(PathBuf),
    /// Device-DAX devices, or files, which form an interleave set.
    Devices { paths: Vec<PathBuf>, granularity: u64 },
}

/// A pool's memory, in use.
pub struct Store {
    pub backing: Backing,
    /// If it is devices.
    pub devices: Option<Arc<Devices>>,
    /// If it is files in a directory.
    pub folder: Option<Folder>,
}

/// Why a file cannot be sealed for those who are granted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It was sealed for the other kind of access.
    Sealed,
    /// What the kernel says.
    Failed(Errno),
}

impl From<Errno> for Unfit {
    fn from(error: Errno) -> Unfit {
        Unfit::Failed(error)
    }
}

impl Store {
    /// A segment's file; `None` in a device.
    pub fn make(&self, extent: Extent) -> rustix::io::Result<Option<OwnedFd>> {
        match self.devices {
            Some(_) => Ok(None),
            None => self.backing.make(extent).map(Some),
        }
    }

    /// A queue area's file, which is zeros; `None` in a device. Both sides of a channel write it, so it is sealed
    /// against all that is not writing: it has no name, whatever segments have.
    pub fn make_queues(&self, extent: Extent) -> rustix::io::Result<Option<OwnedFd>> {
        if let Some(devices) = &self.devices {
            devices.clear(extent);
            return Ok(None);
        }
        let file = make_memfd(extent.bytes, false)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL)?;
        Ok(Some(file))
    }

    /// Seals a segment's file for those who are granted it, to be read or to be written: never for both.
    ///
    /// Before it is granted to be read, nobody but its owner, who did so already, may map it writable, not even by
    /// opening it again. Before it is granted to be written, no more seals may be added: whoever has it could keep those
    /// from mapping it who are granted it later.
    ///
    /// # Errors
    /// If it was sealed for the other kind of access, or is no file of ours.
    pub fn seal(&self, file: &OwnedFd, access: Access) -> Result<(), Unfit> {
        if !matches!(self.backing, Backing::Memfd { .. }) {
            // Files with names have no seals; all their users are one.
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
    /// The same for the same memory, in all managers.
    pub fn hash(&self) -> u64 {
        let text = self.to_string();
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    /// Why only processes of one user may share this memory, whose descriptors let each end the others by `SIGBUS`;
    /// `None` if they do not.
    pub fn why_one_user(&self) -> Option<&'static str> {
        match self {
            Backing::Memfd { huge: false } => None,
            Backing::Memfd { huge: true } => {
                Some("whoever has a huge page can give it back to the machine, which may have no other")
            }
            Backing::Directory(_) => Some("whoever has a file with a name can make it shorter"),
            // A device cannot be made shorter.
            Backing::Devices { paths, .. } => paths
                .iter()
                .any(|path| path.is_file())
                .then_some("whoever has a file with a name can make it shorter"),
        }
    }

    /// A file for just this extent, that can be neither grown nor shrunk, or has all its memory: touching it
    /// does not end in `SIGBUS`.
    ///
    /// # Errors
    /// If the machine has no memory, or descriptors, left.
    fn make(&self, extent: Extent) -> rustix::io::Result<OwnedFd> {
        let file = match self {
            Backing::Memfd { huge } => make_memfd(extent.bytes, *huge)?,
            Backing::Directory(_) => self.make_named(extent)?,
            Backing::Devices { .. } => unreachable!("segments of devices have no files"),
        };
        // Who is granted to read must not find a way to write by opening the file again.
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        Ok(file)
    }

    fn make_named(&self, extent: Extent) -> rustix::io::Result<OwnedFd> {
        let path = self.path(extent).expect("only directories have named files");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {
                // Nobody has this extent: the file is left from a manager that was killed while it made it.
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

    /// The file that an extent had before, if it has a name.
    pub fn find(&self, extent: Extent) -> Option<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let found = rustix::fs::open(self.path(extent)?, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&found).ok()?;
        (stat.st_size == extent.bytes as i64).then_some(found)
    }

    /// Nobody has the extent any more: its file loses its name.
    pub fn remove(&self, extent: Extent) {
        if let Some(path) = self.path(extent) {
            // It may be gone: by hand, or since we were killed after this.
            let _ = rustix::fs::unlink(path);
        }
    }

    /// Removes the files that a manager left which was killed before it noted their segments. Other names stay.
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
                // It may be gone: by hand.
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

/// What names of segments' files begin with; their offset follows, in hexadecimal digits.
const NAME: &str = "segment-";

/// A file without a name that keeps its size. Further seals may be added to it.
fn make_memfd(bytes: u64, huge: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let file = rustix::fs::memfd_create("unrack-pool", flags)?;
    rustix::fs::ftruncate(&file, bytes)?;
    if huge {
        // There may be fewer huge pages than are wanted, which touching would find out by `SIGBUS`.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Makes sure that this machine has huge pages at all.
///
/// # Errors
/// What the kernel says.
pub fn try_huge() -> rustix::io::Result<()> {
    make_memfd(SECTION, true).map(drop)
}

/// The same file by a descriptor that cannot be mapped writable.
///
/// # Errors
/// What the kernel says; at once, also if whoever has the file holds a lease of it, which would have us wait.
pub fn narrow(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
}
