//! Doorbell of QEMU's `ivshmem-doorbell` (QEMU, `docs/specs/ivshmem-spec`): a register that interrupts a peer, and an
//! MSI-X interrupt by which peers interrupt this host.

use super::Doorbell;
use super::vfio::Device;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io::Error as IoError;
use std::path::{Path, PathBuf};

/// Vendor and device number of an ivshmem device.
const IDENTITY: [&str; 2] = ["0x1af4", "0x1110"];
/// Offsets of registers, in bytes.
const OWN_NUMBER: u64 = 8;
const DOORBELL: u64 = 12;
/// Maximum number of peers of a device, because their numbers have 16 bits.
const MOST_PEERS: u32 = 1 << 16;

/// Doorbell of an ivshmem device that is bound to the driver `vfio-pci`.
#[derive(Debug)]
pub struct Ivshmem {
    device: Device,
    number: u32,
    wakeup: OwnedFd,
}

/// Reason why a doorbell cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CannotRing {
    #[error("it is no folder of an ivshmem device: give one of /sys/bus/pci/devices, or a link to one")]
    NotOne,
    #[error(
        "{address} needs the driver `vfio-pci`, and an IOMMU: `modprobe vfio-pci`, then write `vfio-pci` to \
         {folder}/driver_override and `{address}` to /sys/bus/pci/drivers_probe", folder = .folder.display()
    )]
    Unbound { address: String, folder: PathBuf },
    #[error(
        "{0} has the pool's memory, which VFIO turns off for a moment when the manager ends: give a doorbell that is a \
         device of its own"
    )]
    HasMemory(String),
    #[error("{address} cannot be used: {error}")]
    Device { address: String, error: IoError },
}

impl Ivshmem {
    /// Opens the doorbell at a folder in `/sys/bus/pci/devices`, for a pool whose devices are at `memory`.
    ///
    /// # Errors
    /// If the folder is not one of an ivshmem device, the device has memory of the pool, another driver uses it, or
    /// VFIO refuses it.
    pub fn open(path: &Path, memory: &[PathBuf]) -> Result<Ivshmem, CannotRing> {
        let folder = std::fs::canonicalize(path).map_err(|_| CannotRing::NotOne)?;
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        if ["vendor", "device"].map(read) != IDENTITY.map(|word| Some(format!("{word}\n"))) {
            return Err(CannotRing::NotOne);
        }
        let address =
            folder.file_name().and_then(|name| name.to_str()).ok_or(CannotRing::NotOne)?.to_string();
        let is_here =
            |memory: &PathBuf| std::fs::canonicalize(memory).is_ok_and(|at| at.starts_with(&folder));
        if memory.iter().any(is_here) {
            return Err(CannotRing::HasMemory(address));
        }
        let driver = std::fs::canonicalize(folder.join("driver"));
        if !driver.is_ok_and(|driver| driver.ends_with("vfio-pci")) {
            return Err(CannotRing::Unbound { address, folder });
        }
        Ivshmem::start(&folder, &address).map_err(|error| CannotRing::Device { address, error })
    }

    fn start(folder: &Path, address: &str) -> Result<Ivshmem, IoError> {
        let group = std::fs::canonicalize(folder.join("iommu_group"))?;
        let device = Device::open(&group, address)?;
        let number = device.read(OWN_NUMBER)?;
        if number >= MOST_PEERS {
            return Err(IoError::other("its server has not given it a number"));
        }
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        device.interrupt(wakeup.as_fd())?;
        Ok(Ivshmem { device, number, wakeup })
    }
}

impl Doorbell for Ivshmem {
    fn number(&self) -> u32 {
        self.number
    }

    fn ring(&self, number: u32) {
        if number < MOST_PEERS {
            // Errors are ignored: an absent peer has no manager to wake, and a present peer polls later.
            let _ = self.device.write(DOORBELL, number << 16);
        }
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    fn silence(&self) {
        // If no host rang, there is no count to read.
        let _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use unrack_testing::TestFolder;

    /// Makes the files that `/sys` shows for a PCI device.
    fn device(folder: &Path, [vendor, device]: [&str; 2]) -> PathBuf {
        let path = folder.join("0000:00:04.0");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("vendor"), format!("{vendor}\n")).unwrap();
        std::fs::write(path.join("device"), format!("{device}\n")).unwrap();
        std::fs::write(path.join("resource2"), "").unwrap();
        path
    }

    #[test]
    fn each_reason_says_what_to_do() {
        let folder = TestFolder::new("doorbell");
        let path = device(&folder, IDENTITY);
        let link = folder.join("rack-doorbell");
        symlink(&path, &link).unwrap();
        let why = |path: &Path, memory: &[PathBuf]| Ivshmem::open(path, memory).unwrap_err().to_string();
        assert!(why(&link, &[]).contains("0000:00:04.0 needs the driver `vfio-pci`"));
        assert!(why(&link, &[path.join("resource2")]).contains("a device of its own"));
        let driver = folder.join("vfio-pci");
        std::fs::create_dir(&driver).unwrap();
        symlink(&driver, path.join("driver")).unwrap();
        let error = why(&link, &[]);
        assert!(error.contains("0000:00:04.0 cannot be used"), "{error}");
        device(&folder, ["0x8086", "0x1110"]);
        for other in [link, folder.join("absent"), folder.to_path_buf()] {
            assert!(why(&other, &[]).contains("no folder of an ivshmem device"));
        }
    }
}
