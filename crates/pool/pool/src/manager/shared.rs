//! Devices that several hosts share: they are formatted once, and the manager of each host reads their superblocks.

use super::backing::Backing;
use super::devices::{Devices, Lock};
use super::doorbell::Doorbell;
use super::error::Error;
use super::options::Options;
use crate::SECTION;
use crate::cache_control::{Incoherent, MemoryKind};
use crate::hosts::{self, HostIdentity, Membership, Superblock};
use crate::interleave::Interleave;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use unrack_units::Bytes;

/// Number, name and doorbell of this host among the hosts that share the devices of a pool.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Number of the host, from zero. Each kernel must have a different number.
    pub host: u32,
    /// Name of the host, which is shown to people who list the pool.
    pub name: String,
    /// Time without a heartbeat after which another host counts as silent, so that channels to it end.
    pub silence: Duration,
    /// Doorbell by which the managers of other hosts wake this host's manager; `None` if this host has no doorbell.
    pub doorbell: Option<Arc<dyn Doorbell>>,
}

/// Default time without a heartbeat after which another host counts as silent.
pub const SILENCE: Duration = Duration::from_secs(3);

impl HostOptions {
    /// Makes the options of a host with a number. Its name is the host name of the kernel.
    pub fn new(host: u32) -> HostOptions {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = if name.trim().is_empty() { format!("host {host}") } else { name.trim().to_string() };
        HostOptions { host, name, silence: SILENCE, doorbell: None }
    }

    /// Joins the group of hosts that share mapped devices.
    ///
    /// # Errors
    /// See [`Membership::join`].
    pub(super) fn join(
        &self,
        devices: &Devices,
        superblock: &Superblock,
        socket: &Path,
        programs_remain: bool,
    ) -> Result<Membership, Error> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
        let identity = HostIdentity {
            host: self.host,
            name: self.name.clone(),
            boot: u128::from_str_radix(&boot, 16).unwrap_or(0),
            socket: unrack_basis::fnv_1a(socket.as_os_str().as_encoded_bytes()),
        };
        Ok(Membership::join(devices.space(), superblock, &identity, programs_remain, self.silence)?)
    }
}

impl Options {
    /// Makes options for a host of devices that were [formatted](format()) for several hosts. Capacity, size of queue
    /// areas and kind of memory are those that the devices were formatted with.
    ///
    /// # Errors
    /// If a device cannot be used, or was formatted with other parameters.
    pub fn for_host(
        socket: impl Into<PathBuf>,
        paths: Vec<PathBuf>,
        host: HostOptions,
    ) -> Result<Options, Error> {
        let superblock = read(&paths)?;
        let mut options = Options::new(socket, Bytes::new(u64::from(superblock.sections) * SECTION));
        options.backing = Backing::Devices { paths, granularity: superblock.set.granularity.get() };
        options.queue_bytes = Bytes::new(superblock.queue_bytes);
        options.mode = superblock.mode;
        options.host = Some(host);
        Ok(options)
    }
}

/// Reads the superblocks of all devices of a set, and returns the superblock of the first device.
///
/// # Errors
/// If a device cannot be used, was formatted with other parameters, or belongs to another place in the set.
pub(super) fn read(paths: &[PathBuf]) -> Result<Superblock, Error> {
    let mut first: Option<Superblock> = None;
    for (device, path) in (0..).zip(paths) {
        let unusable = |why| Error::Unusable { path: path.clone(), why };
        let alone = one(path)?;
        let found = hosts::read_superblock(&alone.space(), 0).map_err(unusable)?;
        let expected = Superblock { device, ..first.unwrap_or(found) };
        if found != expected || found.set.devices as usize != paths.len() {
            let is = format!("{}: device {device} of {}", path.display(), paths.len());
            let why = hosts::Unusable::Geometry { was: found.geometry(), is };
            return Err(Error::Unusable { path: path.clone(), why });
        }
        first = first.or(Some(found));
    }
    first.ok_or_else(|| Error::Devices("give at least one device".into()))
}

/// Maps the first section of one device. Because its kind of memory is not known yet, it is accessed as incoherent
/// memory where the processor supports that.
fn one(path: &Path) -> Result<Devices, Error> {
    let mode = if Incoherent::detect().is_ok() { MemoryKind::Incoherent } else { MemoryKind::Coherent };
    Devices::open(&[path.to_path_buf()], crate::PAGE, 1, mode, Lock::Shared)
}

/// Parameters for formatting devices.
#[derive(Debug, Clone)]
pub struct Format {
    pub paths: Vec<PathBuf>,
    /// Bytes on one device before the address space continues on the next device.
    pub granularity: u64,
    pub hosts: u32,
    /// Size of every queue area: whole pages, at most a section.
    pub queue_bytes: Bytes,
    pub mode: MemoryKind,
    /// True to format a device even if hosts seem to use it.
    pub force: bool,
}

/// Formats devices for hosts that share them. The previous contents of the devices are lost.
///
/// # Errors
/// If a device cannot be used, is too small, or is served by a host.
pub fn format(format: &Format) -> Result<Superblock, Error> {
    let Format { paths, granularity, mode, .. } = format;
    let queues = format.queue_bytes.get();
    if queues == 0 || !queues.is_multiple_of(crate::PAGE) || queues > SECTION {
        return Err(Error::QueueBytes(format.queue_bytes));
    }
    if *mode == MemoryKind::Incoherent {
        Incoherent::detect().map_err(|error| Error::Lacking(error.to_string()))?;
    }
    if !(1..=hosts::MOST_HOSTS).contains(&format.hosts) {
        return Err(Error::Devices(format!("give 1 to {} hosts", hosts::MOST_HOSTS)));
    }
    super::devices::check_distinct(paths)?;
    if !format.force {
        refuse_served(paths)?;
    }
    let set = Interleave::new(paths.len().max(1) as u32, *granularity);
    let set = set.map_err(|unfit| Error::Devices(unfit.to_string()))?;
    let sections = Devices::sections_of(paths, set)?;
    let superblock = Superblock {
        hosts: format.hosts,
        sections,
        set,
        device: 0,
        queue_bytes: queues,
        pool: hosts::random_identity(),
        mode: *mode,
    };
    let devices = open(paths, &superblock)?;
    hosts::write_records(&devices.space(), &superblock).map_err(Error::Devices)?;
    Ok(superblock)
}

/// Refuses devices that a host serves, either as the given set or as one device alone.
fn refuse_served(paths: &[PathBuf]) -> Result<(), Error> {
    let alone = paths.iter().map(std::slice::from_ref);
    for set in std::iter::once(paths).chain(alone) {
        match read(set) {
            Ok(superblock) => {
                let devices = open(set, &superblock)?;
                if let Some(name) = hosts::find_serving(devices.space(), &superblock) {
                    return Err(Error::Devices(format!(
                        "host {name:?} serves them: stop its manager, or give --force"
                    )));
                }
                if set.len() == paths.len() {
                    return Ok(());
                }
            }
            // The heartbeats of the set are on another device of it, so the check needs all devices of that set.
            Err(Error::Unusable { path, why: hosts::Unusable::Geometry { was, .. } }) if set.len() == 1 => {
                return Err(Error::Devices(format!(
                    "{} was formatted as {was}: give all devices of that set, in order, or --force",
                    path.display()
                )));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Maps all devices of a set.
fn open(paths: &[PathBuf], superblock: &Superblock) -> Result<Devices, Error> {
    let granularity = superblock.set.granularity.get();
    Devices::open(paths, granularity, superblock.sections.into(), superblock.mode, Lock::Shared)
}
