//! Command that runs one guest.

use crate::accelerator::Accelerator;
use crate::agent::PORT;
use crate::initramfs::{NAME_VARIABLE, ROOT_TAG};
use crate::machine::QEMU;
use crate::memory::path;
use crate::scenario::{DeviceKind, GuestHost, SharedDevice};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Files that all guests of a rack have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub accelerator: Accelerator,
    pub kernel: File,
    pub initramfs: File,
    pub device: SharedDevice,
    pub memory: File,
}

/// Kernel parameters: output to the console, nothing that emulation makes slow, and no reboot after a panic.
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check audit=0 apparmor=0 \
                          selinux=0 cryptomgr.notests random.trust_cpu=on";

/// Returns the command of a guest, whose agent is at the other end of `port`. It ends with the thread that starts it.
pub(crate) fn command(common: &Common, host: &GuestHost, port: &UnixStream) -> Command {
    let Common { accelerator, device, .. } = common;
    let mut command = Command::new(QEMU);
    let mut option = |name: &str, value: String| _ = command.arg(name).arg(value);
    option("-name", format!("unrack-{}", host.name));
    option("-accel", accelerator.name().into());
    option("-cpu", "max".into());
    option("-smp", host.cpus.to_string());
    option("-kernel", path(&common.kernel));
    option("-initrd", path(&common.initramfs));
    option("-append", format!("{PARAMETERS} {NAME_VARIABLE}={}", host.name));
    let backend = format!(
        "memory-backend-file,id=memory,share=on,mem-path={},size={}",
        path(&common.memory),
        device.file_bytes()
    );
    option("-object", backend);
    let memory = host.memory.get() >> 10;
    match device.kind {
        DeviceKind::Nvdimm => {
            // The DIMM's addresses begin at a multiple of 1 GiB.
            let most = memory + (device.file_bytes() >> 10) + (2 << 20);
            option("-machine", "q35,smbus=off,nvdimm=on".into());
            option("-m", format!("{memory}k,slots=1,maxmem={most}k"));
            option("-device", "nvdimm,memdev=memory".into());
        }
        DeviceKind::Ivshmem => {
            option("-machine", "q35,smbus=off".into());
            option("-m", format!("{memory}k"));
            option("-device", "ivshmem-plain,memdev=memory".into());
        }
    }
    option("-device", "virtio-serial-pci,max_ports=2".into());
    option("-chardev", format!("socket,id=agent,fd={}", port.as_raw_fd()));
    option("-device", format!("virtserialport,chardev=agent,name={PORT},nr=1"));
    let root = "local,path=/,security_model=none,readonly=on,multidevs=remap";
    option("-virtfs", format!("{root},mount_tag={ROOT_TAG}"));
    option("-serial", "stdio".into());
    command.args(["-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"]);
    let inherited = [common.kernel.as_fd(), common.initramfs.as_fd(), common.memory.as_fd(), port.as_fd()];
    inherit(&mut command, &inherited);
    command
}

/// Lets a command inherit descriptors, which must be open when it is started, and has it killed when the thread that
/// starts it ends.
pub(crate) fn inherit(command: &mut Command, descriptors: &[BorrowedFd]) {
    let descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let parent = rustix::process::getpid();
    let prepare = move || {
        for descriptor in &descriptors {
            // SAFETY: the caller keeps it open until the command has started; this process has its own copy.
            let descriptor = unsafe { BorrowedFd::borrow_raw(*descriptor) };
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before.
        match getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec only system calls are made, and nothing is allocated.
    unsafe { command.pre_exec(prepare) };
}
