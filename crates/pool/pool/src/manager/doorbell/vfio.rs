//! PCI device of the driver `vfio-pci`: its registers and one interrupt (Linux, `include/uapi/linux/vfio.h`).

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::{CString, c_void};
use std::fs::File;
use std::io::Error as IoError;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Type code of the `ioctl` commands of VFIO.
const GROUP: u8 = b';';
const SET_IOMMU: Opcode = opcode::none(GROUP, 102);
const GROUP_STATUS: Opcode = opcode::none(GROUP, 103);
const SET_CONTAINER: Opcode = opcode::none(GROUP, 104);
const DEVICE_FD: Opcode = opcode::none(GROUP, 106);
const REGION_INFO: Opcode = opcode::none(GROUP, 108);
const SET_IRQS: Opcode = opcode::none(GROUP, 110);

/// Kind of IOMMU that the drivers of x86-64 and aarch64 offer.
const TYPE1: usize = 1;
const IS_VIABLE: u32 = 1;
/// Index of the MSI-X interrupts.
const MSIX: u32 = 2;
/// Flags of [`SET_IRQS`]: the interrupt signals the given eventfd.
const TRIGGERS_EVENTFD: u32 = 1 << 2 | 1 << 5;

/// Offset of the command register in the configuration space, and the bits in it that let the device answer accesses
/// and send interrupts.
const COMMAND: u64 = 4;
const ANSWERS: u16 = 1 << 1;
const MASTERS: u16 = 1 << 2;

/// Indices of the regions with the registers and the configuration space.
const REGISTERS: u32 = 0;
const CONFIGURATION: u32 = 7;

/// An open device.
#[derive(Debug)]
pub(super) struct Device {
    device: File,
    /// Offset of the registers in the device's file.
    registers: u64,
    /// Kept open because the device needs its group and container.
    _group: File,
    _container: File,
}

#[repr(C)]
struct GroupStatus {
    size: u32,
    flags: u32,
}

#[repr(C)]
struct RegionInfo {
    size: u32,
    flags: u32,
    index: u32,
    capabilities: u32,
    bytes: u64,
    offset: u64,
}

#[repr(C)]
struct SetIrqs {
    size: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    eventfd: i32,
}

const _: () =
    assert!(size_of::<GroupStatus>() == 8 && size_of::<RegionInfo>() == 32 && size_of::<SetIrqs>() == 24);

/// An `ioctl` whose argument is a number, or the address of a value that the kernel reads and writes.
struct Call(Opcode, *mut c_void);

// SAFETY: each caller of `call` pairs an opcode with the argument that the kernel defines for it.
unsafe impl Ioctl for Call {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.0
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.1
    }

    unsafe fn output_from_ptr(value: IoctlOutput, _: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(value)
    }
}

/// Calls an `ioctl` with the address of a value. The value contains its size if the kernel expects it.
fn call<T>(file: &File, opcode: Opcode, value: &mut T) -> rustix::io::Result<IoctlOutput> {
    // SAFETY: each caller passes the `#[repr(C)]` struct, or the bytes, that the kernel defines for the opcode.
    unsafe { ioctl(file, Call(opcode, std::ptr::from_mut(value).cast())) }
}

impl Device {
    /// Opens the device with this address. `group` is the folder of the device's IOMMU group in `/sys`.
    ///
    /// # Errors
    /// If the group has devices of other drivers, another process uses the device, or this process may not use it.
    pub(super) fn open(group: &Path, address: &str) -> Result<Device, IoError> {
        let open = |path: &Path| {
            let opened = File::options().read(true).write(true).open(path);
            opened.map_err(|error| IoError::new(error.kind(), format!("{}: {error}", path.display())))
        };
        let container = open(Path::new("/dev/vfio/vfio"))?;
        let number = group.file_name().ok_or_else(|| IoError::other("it has no IOMMU group"))?;
        let group = open(&Path::new("/dev/vfio").join(number))?;
        let mut status = GroupStatus { size: size_of::<GroupStatus>() as u32, flags: 0 };
        call(&group, GROUP_STATUS, &mut status)?;
        if status.flags & IS_VIABLE == 0 {
            return Err(IoError::other("its IOMMU group has devices of other drivers"));
        }
        call(&group, SET_CONTAINER, &mut container.as_raw_fd())?;
        // SAFETY: the argument is a number, so the kernel accesses no memory of this process.
        unsafe { ioctl(&container, Call(SET_IOMMU, std::ptr::without_provenance_mut(TYPE1)))? };
        let device = device_of(&group, address)?;
        enable(&device, offset_of(&device, CONFIGURATION)?)?;
        let registers = offset_of(&device, REGISTERS)?;
        Ok(Device { device, registers, _group: group, _container: container })
    }

    /// Reads a register of 32 bits.
    pub(super) fn read(&self, offset: u64) -> Result<u32, IoError> {
        let mut bytes = [0; 4];
        self.device.read_exact_at(&mut bytes, self.registers + offset)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Writes a register of 32 bits.
    pub(super) fn write(&self, offset: u64, value: u32) -> Result<(), IoError> {
        self.device.write_all_at(&value.to_le_bytes(), self.registers + offset)
    }

    /// Makes an eventfd count the first MSI-X interrupt of the device.
    pub(super) fn interrupt(&self, eventfd: BorrowedFd<'_>) -> Result<(), IoError> {
        let mut irqs = SetIrqs {
            size: size_of::<SetIrqs>() as u32,
            flags: TRIGGERS_EVENTFD,
            index: MSIX,
            start: 0,
            count: 1,
            eventfd: eventfd.as_raw_fd(),
        };
        call(&self.device, SET_IRQS, &mut irqs)?;
        Ok(())
    }
}

fn device_of(group: &File, address: &str) -> Result<File, IoError> {
    let name = CString::new(address)?;
    // SAFETY: the kernel reads the name up to its terminating zero.
    let device = unsafe { ioctl(group.as_fd(), Call(DEVICE_FD, name.as_ptr().cast_mut().cast()))? };
    // SAFETY: the kernel has just made the descriptor, so it has no other owner.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(device) }))
}

/// Enables a device to answer accesses, and to write to memory, which VFIO disables. The device must be able to write
/// to memory because its interrupts are such writes.
fn enable(device: &File, configuration: u64) -> Result<(), IoError> {
    let mut command = [0; 2];
    device.read_exact_at(&mut command, configuration + COMMAND)?;
    let command = u16::from_le_bytes(command) | ANSWERS | MASTERS;
    device.write_all_at(&command.to_le_bytes(), configuration + COMMAND)
}

fn offset_of(device: &File, region: u32) -> Result<u64, IoError> {
    let size = size_of::<RegionInfo>() as u32;
    let mut info = RegionInfo { size, flags: 0, index: region, capabilities: 0, bytes: 0, offset: 0 };
    call(device, REGION_INFO, &mut info)?;
    Ok(info.offset)
}
