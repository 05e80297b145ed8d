//! Configuration of a manager.

use super::backing::{self, Backing, Store};
use super::devices::{Devices, Lock};
use super::error::Error;
use super::folder::SegmentFolder;
use super::shared::HostOptions;
use super::state::HolderLimits;
use crate::cache_control::{Incoherent, MemoryKind};
use crate::{PAGE, SECTION};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use unrack_units::{Bytes, Share};

/// Sections of address space per section of memory. The space is larger than the memory so that adjacent free sections
/// are found even if the memory is fragmented.
const SPACE_FACTOR: u64 = 4;

/// Configuration of a manager.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the socket at which processes connect.
    pub socket: PathBuf,
    pub backing: Backing,
    /// Memory for all clients together; a whole number of sections.
    pub capacity: Bytes,
    /// Maximum number of sections that are leased at a time for small buffers (K; DRack §4.2).
    pub region_sections: u32,
    /// Size of every queue area: whole pages, at most a section.
    pub queue_bytes: Bytes,
    pub mode: MemoryKind,
    /// Permission bits of the socket. With 0o600, only this user may connect; with 0o660, users of the group may
    /// connect too.
    pub permissions: u32,
    /// Time without connections after which the manager ends; `None` if it never ends by itself.
    pub idle: Option<Duration>,
    /// Share of the capacity that one client may have. A client is one process with all its connections, or all
    /// processes of a user other than the manager's. The default, `None`, is half, so that a call has room for its two
    /// sides whatever one side does. The share is at least [`LEAST_QUOTA`].
    pub per_client: Option<Share>,
    pub limits: HolderLimits,
    /// Number and name of this host, if several hosts share the devices; otherwise `None`.
    pub host: Option<HostOptions>,
}

/// Smallest quota of a client in bytes: one section to lease, and one section with queue areas. With less, a process
/// could not use the pool.
pub const LEAST_QUOTA: u64 = 2 * SECTION;

impl Options {
    /// Makes options for a pool in this machine's memory that only this user may use.
    pub fn new(socket: impl Into<PathBuf>, capacity: Bytes) -> Options {
        Options {
            socket: socket.into(),
            backing: Backing::Memfd { huge: false },
            capacity,
            // These are 32 MiB. DRack uses 512 sections because of its DRAM cache, which this pool does not have.
            region_sections: 16,
            queue_bytes: Bytes::new(64 * 1024),
            mode: MemoryKind::Coherent,
            permissions: 0o600,
            idle: None,
            per_client: None,
            limits: HolderLimits::default(),
            host: None,
        }
    }

    /// Returns the size of the address space in bytes. For devices, it equals the capacity.
    pub(super) fn space_bytes(&self) -> u64 {
        match self.backing {
            Backing::Devices { .. } => self.capacity.get(),
            _ => self.capacity.get() * SPACE_FACTOR,
        }
    }

    /// Returns the quota of one client in bytes.
    ///
    /// # Errors
    /// If the quota is smaller than [`LEAST_QUOTA`].
    pub fn quota_bytes(&self) -> Result<u64, Error> {
        let capacity = self.capacity.get();
        match self.per_client {
            None => Ok((capacity / 2).max(LEAST_QUOTA).min(capacity)),
            Some(share) if share.of(self.capacity).get() < LEAST_QUOTA.min(capacity) => {
                Err(Error::PerClient(share))
            }
            Some(share) => Ok(share.of(self.capacity).get().min(capacity)),
        }
    }

    /// Returns whether processes of other users may connect.
    pub(super) fn admits_others(&self) -> bool {
        self.permissions & 0o022 != 0
    }

    /// Checks that the options are consistent, without checking whether the machine has enough memory.
    pub(super) fn check(&self) -> Result<(), Error> {
        let (capacity, queues) = (self.capacity.get(), self.queue_bytes.get());
        let most = u32::MAX as u64 / SPACE_FACTOR * SECTION;
        if capacity == 0 || !capacity.is_multiple_of(SECTION) || capacity > most {
            return Err(Error::Capacity(self.capacity));
        }
        if queues == 0 || !queues.is_multiple_of(PAGE) || queues > SECTION {
            return Err(Error::QueueBytes(self.queue_bytes));
        }
        if self.region_sections == 0 {
            return Err(Error::Region);
        }
        if self.mode == MemoryKind::Incoherent {
            Incoherent::detect().map_err(|error| Error::Lacking(error.to_string()))?;
        }
        self.quota_bytes()?;
        match self.backing.why_one_user() {
            Some(why) if self.admits_others() => {
                Err(Error::OneUser { backing: self.backing.to_string(), why })
            }
            _ => Ok(()),
        }
    }

    /// Opens the memory, before anything is allocated in it.
    pub(super) fn store(&self, space_sections: u64) -> Result<Store, Error> {
        let (mut devices, mut folder) = (None, None);
        match &self.backing {
            Backing::Memfd { huge: false } => {}
            Backing::Memfd { huge: true } => backing::try_huge().map_err(|error| {
                let error = io::Error::from(error);
                Error::Lacking(format!(
                    "there are no huge pages ({error}): reserve some with `sysctl vm.nr_hugepages=N`"
                ))
            })?,
            Backing::Directory(path) => folder = Some(SegmentFolder::take(path)?),
            Backing::Devices { paths, granularity } => {
                let lock = if self.host.is_some() { Lock::Shared } else { Lock::Alone };
                let set = Devices::open(paths, *granularity, space_sections, self.mode, lock)?;
                devices = Some(Arc::new(set));
            }
        }
        Ok(Store { backing: self.backing.clone(), devices, folder })
    }
}
