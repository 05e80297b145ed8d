//! The manager: owns the memory, records the holder of each part, and takes back what dead processes held.
//!
//! [`Manager::start`] embeds one in a program; `unrack pool serve` is a program that does nothing else. It has
//! one thread, which never waits for a process. All that a process sends is untrusted input: anything that the
//! protocol does not allow ends its connection and no other.
//!
//! | module | idea |
//! |---|---|
//! | [`state`] | the manager's state, and its reaction to each message |
//! | [`sections`] | free sections of the address space |
//! | [`backing`] | the files behind segments, and their seals |
//! | [`folder`] | a folder whose files are segments |
//! | [`room`] | how much memory there is |
//! | [`ledger`] | the manager's state, in memory that outlives it |
//! | [`signals`] | a manager that serves until a signal |
//! | [`devices`] | memory that consists of devices |
//! | [`shared`] | devices that several hosts share |
//! | [`doorbell`] | interrupts between the managers of hosts |
//! | [`mtrr`] | check that a device's memory is uncachable |
//! | [`serve`] | sockets, and detection of processes that end |

mod backing;
mod devices;
pub mod doorbell;
mod folder;
mod ledger;
mod lock;
mod mtrr;
mod process;
mod room;
mod sections;
mod serve;
mod shared;
pub mod signals;
mod state;

pub use backing::Backing;
pub use lock::capacity_before;
pub use room::{default_capacity, half_of_memory};
pub use shared::{Format, HostOptions, SILENCE, format};
pub use state::HolderLimits;

use crate::cache_control::{Incoherent, MemoryKind};
use crate::{PAGE, SECTION};
use backing::Store;
use devices::{Devices, Lock};
use folder::Folder;
use ledger::{Record, Shape};
use lock::Locked;
use rustix::fd::OwnedFd;
use sections::Sections;
use state::{Holders, Hosts, State};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use unrack_units::{Bytes, Share};

/// Sections of address space per section of memory: adjacent free sections are found although memory is
/// fragmented.
const SPACE_FACTOR: u64 = 4;

/// Configuration of a manager.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the socket at which processes connect.
    pub socket: PathBuf,
    pub backing: Backing,
    /// Memory for all clients together; whole sections.
    pub capacity: Bytes,
    /// Most sections that are leased at a time for small buffers (K; DRack §4.2).
    pub region_sections: u32,
    /// Bytes of every queue area; whole pages, at most a section.
    pub queue_bytes: Bytes,
    pub mode: MemoryKind,
    /// Permission bits of the socket. 0o600: only this user may connect; 0o660: the group too.
    pub permissions: u32,
    /// Time without connections after which the manager ends; `None`: it never ends by itself.
    pub idle: Option<std::time::Duration>,
    /// Share of the capacity that one client may have: a process with all its connections, or all processes of a
    /// user other than the manager's. `None`: half, so that a call has room for both its sides whatever one of
    /// them does. At least [`LEAST_QUOTA`].
    pub per_client: Option<Share>,
    pub limits: HolderLimits,
    /// This host's place among those that share the devices; `None` if no others do.
    pub host: Option<HostOptions>,
}

/// Least bytes that a client may have: a section to lease and one with queue areas. With less, a process can do
/// nothing.
pub const LEAST_QUOTA: u64 = 2 * SECTION;

impl Options {
    /// Makes options for a pool in this machine's memory, for this user only.
    pub fn new(socket: impl Into<PathBuf>, capacity: Bytes) -> Options {
        Options {
            socket: socket.into(),
            backing: Backing::Memfd { huge: false },
            capacity,
            // 32 MiB. DRack's 512 sections suit its DRAM cache, which is not here.
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

    /// Returns the bytes of the address space; devices have no more than their capacity.
    fn space_bytes(&self) -> u64 {
        match self.backing {
            Backing::Devices { .. } => self.capacity.get(),
            _ => self.capacity.get() * SPACE_FACTOR,
        }
    }

    /// Returns the bytes that one client may have.
    ///
    /// # Errors
    /// If they are too few to do anything with.
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
    fn admits_others(&self) -> bool {
        self.permissions & 0o022 != 0
    }

    /// Checks that the options make sense, except whether the machine has as much as they ask for.
    fn check(&self) -> Result<(), Error> {
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
    fn store(&self, space_sections: u64) -> Result<Store, Error> {
        let (mut devices, mut folder) = (None, None);
        match &self.backing {
            Backing::Memfd { huge: false } => {}
            Backing::Memfd { huge: true } => backing::try_huge().map_err(|error| {
                let error = std::io::Error::from(error);
                Error::Lacking(format!(
                    "there are no huge pages ({error}): reserve some with `sysctl vm.nr_hugepages=N`"
                ))
            })?,
            Backing::Directory(path) => folder = Some(Folder::take(path)?),
            Backing::Devices { paths, granularity } => {
                let lock = if self.host.is_some() { Lock::Shared } else { Lock::Alone };
                let set = Devices::open(paths, *granularity, space_sections, self.mode, lock)?;
                devices = Some(Arc::new(set));
            }
        }
        Ok(Store { backing: self.backing.clone(), devices, folder })
    }
}

/// Returns the valid size of queue areas that is closest in intent to an invalid one.
fn queue_meant(size: Bytes) -> Bytes {
    size.in_whole(Bytes::new(PAGE)).min(Bytes::new(SECTION))
}

/// Reason why a manager cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen at {}: {error}", path.display())]
    Listen { path: PathBuf, error: std::io::Error },
    #[error("{} is served by another manager: use it, or give another --socket", .0.display())]
    Served(PathBuf),
    #[error("a capacity of {0} is not a whole number of 2 MiB sections; did you mean `{meant}`?", meant = .0.in_whole(Bytes::new(SECTION)))]
    Capacity(Bytes),
    #[error("queue areas of {0} are not whole pages of 4 KiB, at most 2 MiB; did you mean `{meant}`?", meant = queue_meant(*.0))]
    QueueBytes(Bytes),
    #[error("a region of 0 sections is too small: give at least 1")]
    Region,
    #[error(
        "--per-client {0} is too little: give at least 4MiB, for a section to lease and one with queue areas"
    )]
    PerClient(Share),
    #[error(
        "a pool of {backing} must be for one user: {why}, which kills any process that touches it next; give \
         `--backing memfd`, or `--permissions 600`"
    )]
    OneUser { backing: String, why: &'static str },
    #[error("--backing {}: {why}", path.display())]
    Folder { path: PathBuf, why: String },
    #[error("--capacity {capacity} is more than {free}, the free part of {of}: give less")]
    NoRoom { capacity: Bytes, free: Bytes, of: &'static str },
    #[error("cannot keep the ledger {}: {error}", path.display())]
    Ledger { path: PathBuf, error: std::io::Error },
    #[error("programs still use the pool of {}, which has another capacity, kind of memory or size of queue areas: \
    give the same options, or stop the programs first", .0.display())]
    OtherPool(PathBuf),
    #[error("cannot use {}: {error}", path.display())]
    Device { path: PathBuf, error: std::io::Error },
    #[error("the devices cannot be used: {0}")]
    Devices(String),
    #[error("{} cannot be used: {why}", path.display())]
    Unusable { path: PathBuf, why: crate::hosts::Unusable },
    #[error(transparent)]
    Host(#[from] crate::hosts::CannotJoin),
    #[error(
        "this host was declared ended (`unrack pool fence`): its programs were ended, since others may have their memory"
    )]
    Fenced,
    #[error("this machine cannot serve the pool: {0}")]
    Lacking(String),
    #[error("cannot serve the pool: {0}")]
    System(#[from] std::io::Error),
}

/// Manager that runs in a thread of this process until it is stopped or dropped.
pub struct Manager {
    socket: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Manager {
    /// Starts a manager; processes can connect when this returns. If it fails, it leaves nothing behind.
    ///
    /// # Errors
    /// If the options make no sense, the machine has less than they ask for, or the socket cannot be made.
    pub fn start(options: &Options) -> Result<Manager, Error> {
        options.check()?;
        let space = u32::try_from(options.space_bytes() / SECTION).expect("checked");
        let capacity = u32::try_from(options.capacity.get() / SECTION).expect("checked");
        let mut lock = Locked::take(&options.socket)?;
        let shape = Shape {
            capacity_sections: capacity as u64,
            space_sections: space as u64,
            queue_bytes: options.queue_bytes.get(),
            backing: options.backing.hash(),
        };
        let alive =
            |record: &Record| matches!(record, Record::Client(found) if process::watch(found).is_some());
        let (ledger, records) = lock.open(shape, alive)?;
        let store = options.store(space as u64)?;
        if !lock.is_needed() {
            // Not checked for a pool that is taken over, part of which processes hold already.
            options.check_room(&store)?;
        }
        let devices = store.devices.clone();
        let hosts = match (&options.host, &devices, &options.backing) {
            (Some(host), Some(devices), Backing::Devices { paths, .. }) => {
                let superblock = shared::read(paths)?;
                let member = host.join(devices, &superblock, &options.socket, lock.is_needed())?;
                Some(Hosts::new(member, host.silence, host.doorbell.clone()))
            }
            _ => None,
        };
        let sections = match hosts {
            Some(_) => Sections::empty(options.queue_bytes.get()),
            None => Sections::new(0, space, capacity, options.queue_bytes.get()),
        };
        let holders =
            Holders::new(options.limits, options.quota_bytes()?, options.capacity.get(), shape.slots());
        let mut state = State::new(store, sections, holders, ledger, hosts);
        let before = state.recover(records);
        state.release_unused();
        let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        let stop = Arc::new(stop.map_err(std::io::Error::from)?);
        let server = serve::Server::new(options, state, before, lock, devices, stop.clone())?;
        let thread = std::thread::Builder::new().name("unrack-pool".into()).spawn(move || server.run())?;
        Ok(Manager { socket: options.socket.clone(), stop, thread: Some(thread) })
    }

    /// Returns the path at which processes connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns a handle that stops the manager from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits until the manager has ended: stopped, or idle.
    ///
    /// # Errors
    /// If this host was declared ended.
    pub fn wait(mut self) -> Result<(), Error> {
        self.join()
    }

    fn join(&mut self) -> Result<(), Error> {
        // A panic of the manager was reported already.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(Ok(()))
    }

    /// Stops the manager. Processes keep their mappings, and the next manager at this socket takes over; if there
    /// are no processes, nothing is left.
    pub fn stop(self) {}
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stopper().stop();
        // Nobody waits for it.
        let _ = self.join();
    }
}

/// Handle that stops a manager.
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Tells the manager to end; does not wait for it.
    pub fn stop(&self) {
        rustix::io::write(&*self.0, &1u64.to_ne_bytes()).expect("an eventfd takes a 1");
    }
}
