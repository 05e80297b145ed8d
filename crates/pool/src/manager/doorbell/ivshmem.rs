//! Doorbell of QEMU's `ivshmem-doorbell` (QEMU, `docs/specs/ivshmem-spec`): a register that interrupts a peer, and an
//! interrupt of this host's own, by MSI-X.

use super::Doorbell;
use super::vfio::{Device, Region};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io::Error as IoError;
use std::path::{Path, PathBuf};

/// Vendor and device of an ivshmem.
const IDENTITY: [&str; 2] = ["0x1af4", "0x1110"];
/// File of the shared memory in the device's folder.
const MEMORY: &str = "resource2";
/// Line of the file `resource` about the region with the MSI-X table, which only the kind with a doorbell has.
const MSIX_REGION: usize = 1;
/// Registers in the first region, as offsets in bytes.
const OWN_NUMBER: u64 = 8;
const DOORBELL: u64 = 12;
/// Most peers of a device: their numbers have 16 bits.
const MOST_PEERS: u32 = 1 << 16;

/// Doorbell of an ivshmem device that is bound to the driver `vfio-pci`.
#[derive(Debug)]
pub struct Ivshmem {
    address: String,
    device: Device,
    number: u32,
    bell: OwnedFd,
}

/// Reason why a device's doorbell cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CannotRing {
    #[error(
        "the doorbell of {address} needs the driver `vfio-pci`, and an IOMMU: `modprobe vfio-pci`, then write `vfio-pci` \
         to {folder}/driver_override and `{address}` to /sys/bus/pci/drivers_probe", folder = .folder.display()
    )]
    Unbound { address: String, folder: PathBuf },
    #[error("the doorbell of {address} cannot be used: {error}")]
    Device { address: String, error: IoError },
}

impl Ivshmem {
    /// Opens the doorbell of the device whose memory `path` names; `None` if it has none.
    ///
    /// # Errors
    /// If it has one that cannot be used: another driver has it, or VFIO refuses it.
    pub fn of(path: &Path) -> Result<Option<Ivshmem>, CannotRing> {
        let Some((folder, address)) = find(path) else { return Ok(None) };
        let driver = std::fs::canonicalize(folder.join("driver"));
        if !driver.is_ok_and(|driver| driver.ends_with("vfio-pci")) {
            return Err(CannotRing::Unbound { address, folder });
        }
        let opened = Ivshmem::open(&folder, &address);
        opened.map(Some).map_err(|error| CannotRing::Device { address, error })
    }

    fn open(folder: &Path, address: &str) -> Result<Ivshmem, IoError> {
        let group = std::fs::canonicalize(folder.join("iommu_group"))?;
        let device = Device::open(&group, address)?;
        let number = device.read(Region::First, OWN_NUMBER)?;
        if number >= MOST_PEERS {
            return Err(IoError::other("it has no number: the ivshmem server has not given one"));
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        device.interrupt(bell.as_fd())?;
        Ok(Ivshmem { address: address.into(), device, number, bell })
    }

    /// Returns the device's address on the PCI bus.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Doorbell for Ivshmem {
    fn number(&self) -> u32 {
        self.number
    }

    fn ring(&self, number: u32) {
        if number < MOST_PEERS {
            // A peer that is not there has none to wake; one that is looks by itself, later.
            let _ = self.device.write(Region::First, DOORBELL, number << 16);
        }
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn silence(&self) {
        // If there was no ring, there is nothing to read.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

/// Finds the folder and the address of the ivshmem with a doorbell whose memory a path names.
fn find(path: &Path) -> Option<(PathBuf, String)> {
    let memory = std::fs::canonicalize(path).ok()?;
    let folder = memory.parent().filter(|_| memory.ends_with(MEMORY))?;
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let is_ivshmem = ["vendor", "device"].map(read) == IDENTITY.map(|word| Some(format!("{word}\n")));
    let regions = read("resource")?;
    let msix = regions.lines().nth(MSIX_REGION)?;
    let has_doorbell =
        msix.split(' ').any(|word| word.trim_start_matches("0x").contains(|digit| digit != '0'));
    let address = folder.file_name()?.to_str()?.to_string();
    (is_ivshmem && has_doorbell).then(|| (folder.to_path_buf(), address))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use unrack_testing::Folder;

    /// Makes what `/sys` shows of an ivshmem.
    fn device(folder: &Path, identity: [&str; 2], msix: &str) -> PathBuf {
        let device = folder.join("0000:00:04.0");
        std::fs::create_dir_all(&device).unwrap();
        let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000";
        let files = [
            ("vendor", format!("{}\n", identity[0])),
            ("device", format!("{}\n", identity[1])),
            (
                "resource",
                format!("0x00000000febf0000 0x00000000febf00ff 0x0000000000040200\n{msix}\n{none}\n"),
            ),
            (MEMORY, String::new()),
        ];
        for (name, text) in files {
            std::fs::write(device.join(name), text).unwrap();
        }
        device.join(MEMORY)
    }

    const NONE: &str = "0x0000000000000000 0x0000000000000000 0x0000000000000000";
    const MSIX: &str = "0x00000000febf1000 0x00000000febf1fff 0x0000000000040200";

    #[test]
    fn a_device_with_interrupts_is_found_by_its_memory() {
        let folder = Folder::new("doorbell");
        let memory = device(&folder, IDENTITY, MSIX);
        let link = folder.join("rack-memory");
        std::os::unix::fs::symlink(&memory, &link).unwrap();
        let (found, address) = find(&link).unwrap();
        assert_eq!(address, "0000:00:04.0");
        assert_eq!(found, std::fs::canonicalize(memory.parent().unwrap()).unwrap());
        let error = Ivshmem::of(&link).unwrap_err().to_string();
        assert!(error.contains("modprobe vfio-pci") && error.contains("/driver_override"), "{error}");
    }

    #[test]
    fn other_memory_has_no_doorbell() {
        let folder = Folder::new("doorbell");
        assert!(find(&device(&folder, IDENTITY, NONE)).is_none());
        assert!(find(&device(&folder, ["0x8086", "0x1110"], MSIX)).is_none());
        let file = folder.join("file");
        std::fs::write(&file, "").unwrap();
        assert!(find(&file).is_none() && find(&folder.join("absent")).is_none());
        assert!(Ivshmem::of(&file).unwrap().is_none());
    }

    #[test]
    fn a_device_that_vfio_does_not_have_is_an_error() {
        let folder = Folder::new("doorbell");
        let memory = device(&folder, IDENTITY, MSIX);
        let driver = folder.join("vfio-pci");
        std::fs::create_dir(&driver).unwrap();
        std::os::unix::fs::symlink(&driver, memory.with_file_name("driver")).unwrap();
        let error = Ivshmem::of(&memory).unwrap_err().to_string();
        assert!(error.contains("0000:00:04.0 cannot be used"), "{error}");
    }
}
