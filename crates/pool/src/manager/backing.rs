//! Where the bytes are: the files behind segments.

use super::devices::Devices;
use crate::SECTION;
use crate::wire::Extent;
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
}

impl Store {
    /// A segment's file; `None` in a device.
    pub fn make(&self, extent: Extent) -> rustix::io::Result<Option<OwnedFd>> {
        match self.devices {
            Some(_) => Ok(None),
            None => self.backing.make(extent).map(Some),
        }
    }

    /// A queue area's, which is zeros.
    pub fn make_queues(&self, extent: Extent) -> rustix::io::Result<Option<OwnedFd>> {
        self.devices.iter().for_each(|devices| devices.clear(extent));
        self.make(extent)
    }
}

impl Backing {
    /// The same for the same memory, in all managers.
    pub fn hash(&self) -> u64 {
        let text = self.to_string();
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    /// Whether this machine has such memory.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Backing::Memfd { huge: false } => Ok(()),
            Backing::Memfd { huge: true } => make_memfd(SECTION, true).map(drop).map_err(|error| {
                format!("there are no huge pages ({error}): reserve some with `sysctl vm.nr_hugepages=N`")
            }),
            // Opening them shows.
            Backing::Devices { .. } => Ok(()),
            Backing::Directory(folder) => {
                let found = std::fs::metadata(folder).is_ok_and(|found| found.is_dir());
                found.then_some(()).ok_or_else(|| format!("{} is no folder: make it first", folder.display()))
            }
        }
    }

    /// A file for just this extent, that can be neither grown nor shrunk, or has all its memory: touching it
    /// does not end in `SIGBUS`.
    ///
    /// # Errors
    /// If the machine has no memory, or descriptors, left.
    fn make(&self, extent: Extent) -> rustix::io::Result<OwnedFd> {
        let file = match self {
            // Queue areas are less than a huge page.
            Backing::Memfd { huge } => make_memfd(extent.bytes, *huge && extent.bytes >= SECTION)?,
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

    fn path(&self, extent: Extent) -> Option<PathBuf> {
        match self {
            Backing::Memfd { .. } | Backing::Devices { .. } => None,
            Backing::Directory(directory) => Some(directory.join(format!("segment-{:012x}", extent.offset))),
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

/// The same file by a descriptor that cannot be mapped writable. A file without a name is sealed as well: from
/// now on nobody maps it writable, not even by opening it again; its owner already has.
pub fn narrow(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE) {
        // A file with a name has no seals: its permissions have to do.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}
