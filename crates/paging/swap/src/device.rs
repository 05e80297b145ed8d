//! Devices to which the kernel swaps.

use crate::error::{SwapError, failed, lacking};
use crate::undo::Undo;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};
use unrack_units::Bytes;

/// Kind of device to which the kernel swaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwapDevice {
    /// Compressed memory (the kernel's zram).
    Zram,
    /// A new file in this folder, which must be on a real disk.
    FileIn(PathBuf),
}

impl FromStr for SwapDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<SwapDevice, String> {
        match text {
            "zram" => Ok(SwapDevice::Zram),
            folder if Path::new(folder).is_dir() => Ok(SwapDevice::FileIn(folder.into())),
            other => Err(format!("{other:?} is neither zram nor a folder for a file to swap to")),
        }
    }
}

impl std::fmt::Display for SwapDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            SwapDevice::Zram => write!(f, "zram"),
            SwapDevice::FileIn(folder) => write!(f, "a file in {}", folder.display()),
        }
    }
}

const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// Highest priority, so that the kernel swaps to no other device.
const PRIORITY: &str = "32767";
/// Maximum time for a new device to appear.
const APPEARS: Duration = Duration::from_secs(5);

/// A swap device in use, until it is undone.
#[derive(Debug)]
pub(crate) struct OpenDevice {
    /// Folder of the zram device in `/sys/block`.
    zram: Option<PathBuf>,
    _lock: File,
}

impl OpenDevice {
    /// Makes the device, and makes the kernel swap to it, one page at a time.
    pub(crate) fn open(kind: &SwapDevice, size: Bytes, undo: &mut Undo) -> Result<OpenDevice, SwapError> {
        let lock = read_no_pages_ahead(undo)?;
        let zram = match kind {
            SwapDevice::Zram => Some(make_zram(size, undo)?),
            SwapDevice::FileIn(folder) => {
                make_file(folder, size, undo)?;
                None
            }
        };
        Ok(OpenDevice { zram, _lock: lock })
    }

    /// Returns the uncompressed and the compressed size of the data in the device in bytes, without pages that consist of one repeated
    /// word; `None` if the device does not compress.
    pub(crate) fn contents(&self) -> Option<(u64, u64)> {
        parse_mm_stat(&std::fs::read_to_string(self.zram.as_ref()?.join("mm_stat")).ok()?)
    }
}

/// Makes a zram device, and returns its folder in `/sys/block`.
fn make_zram(size: Bytes, undo: &mut Undo) -> Result<PathBuf, SwapError> {
    if !Path::new(HOT_ADD).exists() {
        // The driver may be a module. If loading it fails, the next step reports the error.
        let _ = Command::new("modprobe").arg("zram").stderr(Stdio::null()).status();
    }
    let what = "add a zram device (is the kernel built with CONFIG_ZRAM?)";
    let number = std::fs::read_to_string(HOT_ADD).map_err(lacking(what))?.trim().to_string();
    let (block, device) = (format!("/sys/block/zram{number}"), format!("/dev/zram{number}"));
    undo.add(&format!(
        "swapoff {device}; echo 1 > {block}/reset; echo {number} > /sys/class/zram-control/hot_remove"
    ))?;
    let set = std::fs::write(format!("{block}/disksize"), size.get().to_string());
    set.map_err(failed(format_args!("give {device} {size}")))?;
    let started = Instant::now();
    while !Path::new(&device).exists() && started.elapsed() < APPEARS {
        std::thread::sleep(Duration::from_millis(10));
    }
    swap_on(&device)?;
    Ok(block.into())
}

fn make_file(folder: &Path, size: Bytes, undo: &mut Undo) -> Result<(), SwapError> {
    let path = folder.join(format!("unrack-swap-{}", std::process::id()));
    let text = path.to_str().filter(|text| !text.contains(['\'', '\n'])).ok_or_else(|| {
        SwapError::Failed(format!("{} cannot be quoted for a shell: choose another folder", path.display()))
    })?;
    undo.add(&format!("swapoff '{text}'; rm -f '{text}'"))?;
    let what = format!("make a file of {size} in {}", folder.display());
    let file = File::create_new(&path).map_err(failed(&what))?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size.get())
        .map_err(failed(&what))?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).map_err(failed(&what))?;
    swap_on(text)
}

/// Parses `mm_stat` (the kernel's admin-guide/blockdev/zram.rst).
fn parse_mm_stat(text: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let (original, compressed, same_pages) = (fields.first()?, fields.get(1)?, fields.get(5)?);
    Some((original.saturating_sub(same_pages * unrack_basis::PAGE as u64), *compressed))
}

/// Disables swap read-ahead, so that each fault fetches only the page that it needs. Returns the file of that setting, locked. Without the
/// lock, a second `unrack swap` would find the first one's value and restore it at its end.
fn read_no_pages_ahead(undo: &mut Undo) -> Result<File, SwapError> {
    let what = format!("set {PAGE_CLUSTER} (only root can make swap: run it with sudo)");
    let file = File::open(PAGE_CLUSTER).map_err(lacking(&what))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        SwapError::Lacking("another `unrack swap` runs on this machine: wait for its end".into())
    })?;
    undo.record()?;
    let before = std::fs::read_to_string(PAGE_CLUSTER).map_err(lacking(&what))?;
    undo.add(&format!("echo {} > {PAGE_CLUSTER}", before.trim()))?;
    std::fs::write(PAGE_CLUSTER, "0").map_err(lacking(&what))?;
    Ok(file)
}

fn swap_on(device: &str) -> Result<(), SwapError> {
    run("mkswap", &[device])?;
    run("swapon", &["-p", PRIORITY, device])
}

fn run(program: &str, arguments: &[&str]) -> Result<(), SwapError> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(lacking(format_args!("run {program} (Debian: util-linux)")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().last().unwrap_or("it failed").to_string();
    if output.status.success() { Ok(()) } else { Err(SwapError::Lacking(why)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_word_take_no_part_in_the_compression() {
        let text = "  8192000  2048000  2200000        0  2200000      1000        0        3        9\n";
        assert_eq!(parse_mm_stat(text), Some((8_192_000 - 4_096_000, 2_048_000)));
        for damaged in ["", "1 2 3", "a b c d e f g"] {
            assert_eq!(parse_mm_stat(damaged), None);
        }
    }

    #[test]
    fn a_device_is_zram_or_a_folder() {
        assert_eq!("zram".parse(), Ok(SwapDevice::Zram));
        assert_eq!("/".parse(), Ok(SwapDevice::FileIn("/".into())));
        assert!("/dev/null".parse::<SwapDevice>().unwrap_err().contains("neither"));
    }
}
