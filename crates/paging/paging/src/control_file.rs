//! Control file of a run, as `unrack` uses it: it writes settings before the first process starts, and reads counts afterwards.

use crate::PagingError;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use unrack_pager::control::{ControlHead, MAGIC};

/// A mapped control file. It contains only atomic numbers, because any process of the run may write them at any time.
pub struct ControlFile {
    map: MmapRaw,
    /// The locked file, kept open by the creator of the control file. Pagers end their processes when they find the lock free.
    _locked: Option<File>,
}

impl ControlFile {
    /// Creates a control file of zeros, followed by the delay samples (picoseconds).
    ///
    /// # Errors
    /// [`PagingError::Failed`] if a file of this name exists already, or the file cannot be made, written or mapped.
    pub fn create(path: &Path, samples: &[u64]) -> Result<ControlFile, PagingError> {
        let cannot = || PagingError::failed::<io::Error>(format!("make {}", path.display()));
        let bytes = size_of::<ControlHead>() as u64 + samples.len() as u64 * 8;
        let file = File::options().read(true).write(true).create_new(true).open(path).map_err(cannot())?;
        // Allocated here, so that no process meets a full file system when it counts.
        let room = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
        room.map_err(io::Error::from).map_err(cannot())?;
        write_samples(&file, samples).map_err(cannot())?;
        let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let control = ControlFile { map: map(&file).map_err(cannot())?, _locked: Some(file) };
        control.settings.is_locked.store(is_locked as u32, Relaxed);
        control.settings.samples.store(samples.len() as u64, Relaxed);
        control.magic.store(MAGIC, Relaxed);
        Ok(control)
    }

    /// Opens the control file of the run to which this process belongs.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if the file cannot be opened or mapped, or is not a control file.
    pub fn open(path: &Path) -> Result<ControlFile, PagingError> {
        let cannot = || PagingError::failed::<io::Error>(format!("open {}", path.display()));
        let file = File::options().read(true).write(true).open(path).map_err(cannot())?;
        let control = ControlFile { map: map(&file).map_err(cannot())?, _locked: None };
        match control.magic.load(Relaxed) {
            MAGIC => Ok(control),
            _ => Err(PagingError::Failed(format!("{} is not a control file", path.display()))),
        }
    }
}

impl std::ops::Deref for ControlFile {
    type Target = ControlHead;
    fn deref(&self) -> &ControlHead {
        // SAFETY: `map` checked the length; a mapping is page-aligned; the memory stays mapped as long as `self` lives; atomics may hold
        // any value, and any process may write them.
        unsafe { &*(self.map.as_ptr() as *const ControlHead) }
    }
}

fn write_samples(mut file: &File, samples: &[u64]) -> io::Result<()> {
    file.seek(SeekFrom::Start(size_of::<ControlHead>() as u64))?;
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    file.write_all(&bytes)
}

fn map(file: &File) -> io::Result<MmapRaw> {
    if file.metadata()?.len() < size_of::<ControlHead>() as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too short"));
    }
    MmapOptions::new().map_raw(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::ScratchFolder;

    #[test]
    fn two_who_map_it_see_the_same() {
        let folder = ScratchFolder::fast().unwrap();
        let path = folder.path("control");
        let ours = ControlFile::create(&path, &[1, 2, 3]).unwrap();
        let theirs = ControlFile::open(&path).unwrap();
        theirs.counts.fetches.store(7, Relaxed);
        assert_eq!(ours.counts.fetches.load(Relaxed), 7);
        assert_eq!(theirs.settings.samples.load(Relaxed), 3);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[size_of::<ControlHead>()..][8..16], 2u64.to_le_bytes());
    }

    #[test]
    fn other_files_are_refused() {
        let folder = ScratchFolder::fast().unwrap();
        std::fs::write(folder.path("short"), "unrack").unwrap();
        std::fs::write(folder.path("zeros"), vec![0; size_of::<ControlHead>()]).unwrap();
        for name in ["short", "zeros", "absent"] {
            assert!(ControlFile::open(&folder.path(name)).is_err(), "{name}");
        }
        assert!(ControlFile::create(&folder.path("short"), &[]).is_err(), "nothing is overwritten");
    }
}
