//! Command that runs one guest.

use crate::accelerator::Accelerator;
use crate::agent::PORT;
use crate::doorbell::Doorbells;
use crate::engine::{Engines, GuestEngine};
use crate::initramfs::{DOORBELL_SLOT, NAME_VARIABLE, ROOT_TAG};
use crate::machine::QEMU;
use crate::memory::{inherit, path};
use crate::scenario::{DeviceKind, GuestHost, SharedDevice};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Files and devices that all guests of a rack have in common.
#[derive(Debug)]
pub(crate) struct GuestFiles {
    pub engines: Engines,
    pub initramfs: File,
    pub device: SharedDevice,
    pub memory: File,
    /// Server of doorbells, if the device has them.
    pub doorbells: Option<Doorbells>,
}

/// Kernel parameters: output to the console, no features that are slow under emulation, and no reboot after a panic.
const PARAMETERS: &str = "console=ttyS0 panic=-1 mitigations=off tsc=reliable no_timer_check audit=0 apparmor=0 \
                          selinux=0 cryptomgr.notests random.trust_cpu=on";

/// Kernel parameter under emulation, where each line on the console takes long. It is not used under KVM, because there a guest that hangs
/// is recognized by its silent console.
const QUIET: &str = "quiet";

/// Kernel parameters that let programs receive a device's interrupts. They enable an IOMMU, which VFIO requires.
const VFIO_PARAMETERS: &str = "intel_iommu=on";

/// QEMU's ends of a guest's sockets.
#[derive(Debug)]
pub(crate) struct GuestSockets {
    /// Connection to the agent.
    pub port: UnixStream,
    /// Connection of the doorbell, if the device has a doorbell.
    pub doorbell: Option<UnixStream>,
}

/// Returns the command that runs a guest. The command ends together with the thread that starts it.
pub(crate) fn command(
    common: &GuestFiles,
    engine: &GuestEngine,
    host: &GuestHost,
    sockets: &GuestSockets,
) -> Command {
    let device = &common.device;
    let GuestEngine { accelerator, kernel } = engine;
    let GuestSockets { port, doorbell } = sockets;
    let mut command = Command::new(QEMU);
    let mut option = |name: &str, value: String| _ = command.arg(name).arg(value);
    option("-name", format!("unrack-{}", host.name));
    option("-accel", accelerator.name().into());
    option("-cpu", "max".into());
    option("-smp", host.cpus.to_string());
    option("-kernel", path(kernel));
    option("-initrd", path(&common.initramfs));
    let quiet = if *accelerator == Accelerator::Tcg { QUIET } else { "" };
    let vfio = if doorbell.is_some() { VFIO_PARAMETERS } else { "" };
    option("-append", format!("{PARAMETERS} {NAME_VARIABLE}={} {quiet} {vfio}", host.name));
    let backend = format!(
        "memory-backend-file,id=memory,share=on,mem-path={},size={}",
        path(&common.memory),
        device.file_bytes()
    );
    option("-object", backend);
    let memory = host.memory.get() >> 10;
    match device.kind {
        DeviceKind::Nvdimm => {
            // Reserve 2 GiB more, because the DIMM's addresses begin at a multiple of 1 GiB.
            let most = memory + (device.file_bytes() >> 10) + (2 << 20);
            option("-machine", "q35,smbus=off,nvdimm=on".into());
            option("-m", format!("{memory}k,slots=1,maxmem={most}k"));
            option("-device", "nvdimm,memdev=memory".into());
        }
        DeviceKind::Ivshmem | DeviceKind::IvshmemDoorbell => {
            // The IOMMU that VFIO needs must also remap interrupts, which KVM's own interrupt controller does not allow.
            let controller = match accelerator {
                Accelerator::Kvm if doorbell.is_some() => ",kernel-irqchip=split",
                _ => "",
            };
            option("-machine", format!("q35,smbus=off{controller}"));
            option("-m", format!("{memory}k"));
            if doorbell.is_some() {
                // The IOMMU must precede the devices that it serves.
                option("-device", "intel-iommu,intremap=on".into());
            }
            option("-device", "ivshmem-plain,memdev=memory".into());
        }
    }
    if let Some(doorbell) = doorbell {
        option("-chardev", format!("socket,id=doorbell,fd={}", doorbell.as_raw_fd()));
        // The doorbell is separate from the memory device, because VFIO switches a device's memory off and on when a program that uses the
        // device ends.
        let address = format!("addr={DOORBELL_SLOT:#x}");
        option("-device", format!("ivshmem-doorbell,chardev=doorbell,vectors=1,{address}"));
    }
    option("-device", "virtio-serial-pci,max_ports=2".into());
    option("-chardev", format!("socket,id=agent,fd={}", port.as_raw_fd()));
    option("-device", format!("virtserialport,chardev=agent,name={PORT},nr=1"));
    let root = "local,path=/,security_model=none,readonly=on,multidevs=remap";
    option("-virtfs", format!("{root},mount_tag={ROOT_TAG}"));
    option("-serial", "stdio".into());
    command.args(["-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"]);
    let files = [kernel.as_fd(), common.initramfs.as_fd(), common.memory.as_fd(), port.as_fd()];
    let inherited: Vec<BorrowedFd> = files.into_iter().chain(doorbell.iter().map(AsFd::as_fd)).collect();
    inherit(&mut command, &inherited);
    command
}
