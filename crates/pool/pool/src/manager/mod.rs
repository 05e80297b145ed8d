//! The manager: owns the memory, records the holder of each part, and reclaims the memory of dead processes.
//!
//! [`Manager::start`] runs a manager inside a program; `unrack pool serve` is a program that only does this. The
//! manager has one thread, which never waits for a process. Everything that a process sends is untrusted input. If it
//! violates the protocol, only that process's connection ends.
//!
//! | module | idea |
//! |---|---|
//! | [`options`], [`error`] | configuration; reasons why a manager cannot start |
//! | [`state`] | the manager's state, and its reaction to each message |
//! | [`sections`] | free sections of the address space |
//! | [`backing`] | the files behind segments, and their seals |
//! | [`folder`] | a folder whose files are segments |
//! | [`room`] | how much memory is free for a pool |
//! | [`ledger`] | the manager's state, in memory that outlives the manager |
//! | [`signals`] | a manager that serves until a signal |
//! | [`devices`] | memory that consists of devices |
//! | [`shared`] | devices that several hosts share |
//! | [`doorbell`] | interrupts between the managers of hosts |
//! | [`mtrr`] | check that a device's memory is uncachable |
//! | [`serve`] | sockets, and detection of processes that end |

mod backing;
mod devices;
pub mod doorbell;
mod error;
mod folder;
mod ledger;
mod lock;
mod mtrr;
mod options;
mod process;
mod room;
mod sections;
mod serve;
mod shared;
pub mod signals;
mod state;

pub use backing::Backing;
pub use error::Error;
pub use lock::capacity_before;
pub use options::{LEAST_QUOTA, Options};
pub use room::{default_capacity, half_of_memory};
pub use shared::{Format, HostOptions, SILENCE, format};
pub use state::HolderLimits;

use crate::SECTION;
use ledger::{LedgerRecord, LedgerShape};
use lock::LockedLedger;
use rustix::fd::OwnedFd;
use sections::Sections;
use state::{FarHosts, Holders, State};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Manager that runs in a thread of this process until it is stopped or dropped.
pub struct Manager {
    socket: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Manager {
    /// Starts a manager. When this returns, processes can connect. If it fails, it leaves no files behind.
    ///
    /// # Errors
    /// If the options are inconsistent, the machine has less memory than they ask for, or the socket cannot be made.
    pub fn start(options: &Options) -> Result<Manager, Error> {
        options.check()?;
        let space = u32::try_from(options.space_bytes() / SECTION).expect("checked");
        let capacity = u32::try_from(options.capacity.get() / SECTION).expect("checked");
        let mut lock = LockedLedger::take(&options.socket)?;
        let shape = LedgerShape {
            capacity_sections: capacity as u64,
            space_sections: space as u64,
            queue_bytes: options.queue_bytes.get(),
            backing: options.backing.hash(),
        };
        let alive = |record: &LedgerRecord| matches!(record, LedgerRecord::Client(found) if process::watch(found).is_some());
        let (ledger, records) = lock.open(shape, alive)?;
        let store = options.store(space as u64)?;
        if !lock.is_needed() {
            // The check is skipped for a pool that is taken over, because processes already hold part of its memory.
            options.check_room(&store)?;
        }
        let devices = store.devices.clone();
        let hosts = match (&options.host, &devices, &options.backing) {
            (Some(host), Some(devices), Backing::Devices { paths, .. }) => {
                let superblock = shared::read(paths)?;
                let member = host.join(devices, &superblock, &options.socket, lock.is_needed())?;
                Some(FarHosts::new(member, host.silence, host.doorbell.clone()))
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

    /// Returns the path of the socket at which processes connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns a handle that can stop the manager from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits until the manager ends because it is stopped or idle.
    ///
    /// # Errors
    /// If this host was declared ended.
    pub fn wait(mut self) -> Result<(), Error> {
        self.join()
    }

    fn join(&mut self) -> Result<(), Error> {
        // A panic of the manager's thread has been reported already.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(Ok(()))
    }

    /// Stops the manager. Processes keep their mappings, and the next manager at this socket takes over. If no
    /// processes are connected, no files are left.
    pub fn stop(self) {}
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stopper().stop();
        // The result has no use here, because no caller waits for the manager.
        let _ = self.join();
    }
}

/// Handle that stops a manager.
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Asks the manager to end, without waiting for it.
    pub fn stop(&self) {
        rustix::io::write(&*self.0, &1u64.to_ne_bytes()).expect("an eventfd takes a 1");
    }
}
