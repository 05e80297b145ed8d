//! First file system of a guest: busybox, modules, and a script that mounts this machine's file system and starts the agent.

use crate::agent::PORT;
use crate::cpio::Archive;
use crate::kernel::{InstalledKernel, unpack};
use crate::scenario::DeviceKind;
use std::path::{Path, PathBuf};
use unrack_live::Error;

/// Tag of the file system that QEMU offers over 9p.
pub(crate) const ROOT_TAG: &str = "root";
/// Variable with the host's name on the kernel's command line. The kernel passes it on to the script.
pub(crate) const NAME_VARIABLE: &str = "unrack_host";
/// Path of the memory device in a guest, whatever its kind.
pub const DEVICE: &str = "/dev/rack-memory";
/// Slot of the doorbell on a guest's PCI bus.
pub(crate) const DOORBELL_SLOT: u32 = 0x10;
/// Name of the doorbell's folder in `/sys/bus/pci/devices`, which follows from [`DOORBELL_SLOT`].
const DOORBELL_PATH: &str = "0000:00:10.0";

const BUSYBOX: [&str; 3] = ["/bin/busybox", "/usr/bin/busybox", "/sbin/busybox"];
/// Modules that every guest needs.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];

impl DeviceKind {
    /// Returns the modules that a guest's kernel needs to offer the device.
    fn modules(self) -> &'static [&'static str] {
        match self {
            DeviceKind::Nvdimm => &["libnvdimm", "nd_pmem", "device_dax", "dax_pmem", "nfit"],
            DeviceKind::Ivshmem => &[],
            DeviceKind::IvshmemDoorbell => &["vfio", "vfio_iommu_type1", "vfio_pci"],
        }
    }

    /// Returns the shell commands that set the variable `device` to the path of the device, once the device is there.
    fn find(self) -> String {
        let bind = match self {
            DeviceKind::Nvdimm => return "[ -c /dev/dax0.0 ] && device=/dev/dax0.0".into(),
            DeviceKind::Ivshmem => "",
            DeviceKind::IvshmemDoorbell => BIND,
        };
        // The vendor and device numbers of QEMU's ivshmem, with or without a doorbell.
        format!(
            r#"for pci in /sys/bus/pci/devices/*; do
    [ "$($B cat $pci/vendor) $($B cat $pci/device)" = "0x1af4 0x1110" ] || continue
    case $pci in
        */{DOORBELL_PATH}) doorbell=$pci ;;
        *) echo 1 > $pci/enable && device=$pci/resource2 ;;
    esac
done
{bind}"#
        )
    }
}

/// Commands that bind the device in the folder `$doorbell` to VFIO and link it. If this fails, they clear `device`, so that there is no
/// memory device either.
const BIND: &str =
    "echo vfio-pci > $doorbell/driver_override && echo ${doorbell##*/} > /sys/bus/pci/drivers_probe &&
    group=$($B readlink $doorbell/iommu_group) && [ -c /dev/vfio/${group##*/} ] &&
    $B ln -s $doorbell /dev/rack-doorbell || device=";

/// Returns the path of a busybox that needs no libraries.
///
/// # Errors
/// [`Error::Lacking`] if busybox is not installed, or needs libraries.
pub(crate) fn busybox() -> Result<PathBuf, Error> {
    let is_static = |path: &&&str| {
        std::fs::read(**path).is_ok_and(|bytes| !bytes.windows(LOADER.len()).any(|window| window == LOADER))
    };
    BUSYBOX.iter().find(is_static).map(PathBuf::from).ok_or_else(|| {
        Error::Lacking("no static busybox is installed: it is in the package busybox-static".into())
    })
}

/// Path of the loader, which a program that needs libraries contains.
const LOADER: &[u8] = b"/ld-linux-x86-64.so";

/// Builds the file system of guests with this kind of device. The guests start `agent` from this machine's file system.
///
/// # Errors
/// [`Error::Lacking`] if busybox or a module is not installed; [`Error::File`] if a file cannot be read.
pub(crate) fn build(kernel: &InstalledKernel, kind: DeviceKind, agent: &Path) -> Result<Vec<u8>, Error> {
    let read = |path: &Path| std::fs::read(path).map_err(|why| Error::File { path: path.into(), why });
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "sys", "modules", "machine", "changes", "root"] {
        archive.folder(folder);
    }
    archive.program("bin/busybox", &read(&busybox()?)?);
    let names: Vec<&str> = MODULES.iter().chain(kind.modules()).copied().collect();
    let mut order = String::new();
    for (number, path) in kernel.modules.in_order(&names)?.iter().enumerate() {
        let name = format!("{number}.ko");
        archive.file(&format!("modules/{name}"), &unpack(&read(path)?)?);
        order += &format!("{name} {}\n", path.file_name().unwrap_or_default().to_string_lossy());
    }
    archive.file("modules/order", order.as_bytes());
    archive.program("init", script(kind).as_bytes());
    archive.file("main", main(agent).as_bytes());
    Ok(archive.finish())
}

/// Returns the script that the kernel starts. It mounts this machine's file system as the lower layer of an overlay, whose upper layer in
/// memory receives all changes, and makes the overlay the root.
fn script(kind: DeviceKind) -> String {
    let find = kind.find();
    format!(
        r#"#!/bin/busybox sh
B=/bin/busybox
fail() {{ echo "unrack: $*" > /dev/console; $B poweroff -f; }}
$B mount -t devtmpfs dev /dev
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
while read -r file name; do
    $B insmod /modules/$file || fail "the module $name cannot be loaded"
done < /modules/order
tries=0
device=
while [ -z "$device" ] && [ $tries -lt 600 ]; do
    {find}
    [ -n "$device" ] || $B sleep 0.1
    tries=$((tries + 1))
done
[ -n "$device" ] || fail "the memory device is missing"
$B ln -s $device {DEVICE}
$B mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose {ROOT_TAG} /machine ||
    fail "the machine's file system cannot be mounted"
$B mount -t tmpfs changes /changes
$B mkdir /changes/upper /changes/work
$B mount -t overlay -o lowerdir=/machine,upperdir=/changes/upper,workdir=/changes/work root /root ||
    fail "the root cannot be mounted"
for folder in dev proc sys; do
    $B mkdir -p /root/$folder
    $B mount -o move /$folder /root/$folder
done
B=/root/run/busybox
/bin/busybox mkdir -p /root/run
/bin/busybox mount -t tmpfs run /root/run
/bin/busybox cp /bin/busybox /main /root/run/
$B mkdir /root/dev/shm /root/dev/pts
$B mount -t tmpfs shm /root/dev/shm
$B mount -t devpts pts /root/dev/pts
$B hostname "${NAME_VARIABLE}"
$B ip link set lo up
exec /root/run/busybox switch_root /root /run/busybox sh /run/main < /root/dev/null > /root/dev/console 2>&1
"#
    )
}

/// Returns the script that becomes process 1. It waits for the agent, and reaps processes that lost their parent.
fn main(agent: &Path) -> String {
    let agent = agent.to_string_lossy().replace('\'', r"'\''");
    format!(
        r#"'{agent}' rack __agent &
agent=$!
while kill -0 $agent 2> /dev/null; do wait $agent; done
echo "unrack: the agent of port {PORT} has ended"
/run/busybox poweroff -f
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_doorbell_is_where_the_script_looks() {
        assert_eq!(DOORBELL_PATH, format!("0000:00:{DOORBELL_SLOT:02x}.0"));
    }

    #[test]
    fn the_scripts_are_valid_whatever_the_path() {
        let kinds = [DeviceKind::Nvdimm, DeviceKind::Ivshmem, DeviceKind::IvshmemDoorbell];
        for text in kinds.map(script).into_iter().chain([main(Path::new("/it's $(a) path"))]) {
            let checked = Command::new("sh").args(["-n", "-c", &text]).output().unwrap();
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
        let quoted = main(Path::new("/it's $(a) path"));
        assert!(quoted.starts_with(r"'/it'\''s $(a) path' rack __agent &"), "{quoted}");
    }
}
