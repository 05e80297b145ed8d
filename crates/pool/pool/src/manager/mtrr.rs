//! Check that memory type range registers make a device's memory uncachable (HydraRPC §5.2).

use std::path::Path;

/// Checks that a device's memory is not cached. A file passes the check, because it is in the memory of this host,
/// which is coherent anyway.
///
/// # Errors
/// If the device is a device-DAX device that may be cached.
pub(super) fn check_uncached(device: &Path) -> Result<(), String> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let of_device = |what: &str| std::fs::read_to_string(format!("/sys/bus/dax/devices/{name}/{what}")).ok();
    let Some(resource) = of_device("resource") else { return Ok(()) };
    let start = u64::from_str_radix(resource.trim().trim_start_matches("0x"), 16).ok();
    let bytes = of_device("size").and_then(|text| text.trim().parse::<u64>().ok());
    let (Some(start), Some(bytes)) = (start, bytes) else {
        return Err(format!("cannot find out where the memory of {} is: run as root", device.display()));
    };
    let registers = std::fs::read_to_string("/proc/mtrr").unwrap_or_default();
    if is_uncachable(&registers, start, bytes) {
        return Ok(());
    }
    Err(format!(
        "{} may be cached: no register of /proc/mtrr makes {start:#x}, {bytes} bytes, uncachable. Set one \
         (echo 'base=… size=… type=uncachable' > /proc/mtrr), or use --memory incoherent",
        device.display()
    ))
}

/// Returns whether one register makes the whole range uncachable. This is an example of a line:
/// `reg00: base=0x0c0000000 ( 3072MB), size= 1024MB, count=1: uncachable`.
fn is_uncachable(registers: &str, start: u64, bytes: u64) -> bool {
    let covers = |line: &str| -> Option<bool> {
        let after = |key: &str| line.split_once(key).map(|(_, rest)| rest.trim_start());
        let base = after("base=0x")?.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        let base = u64::from_str_radix(base, 16).ok()?;
        let size = after("size=")?;
        let digits = size.find(|c: char| !c.is_ascii_digit())?;
        let unit = match size[digits..].split(',').next()?.trim() {
            "KB" => 1 << 10,
            "MB" => 1 << 20,
            "GB" => 1u64 << 30,
            _ => return None,
        };
        let size = size[..digits].parse::<u64>().ok()?.checked_mul(unit)?;
        let inside = start >= base && start.checked_add(bytes)? <= base.checked_add(size)?;
        Some(inside && line.trim_end().ends_with("uncachable"))
    };
    registers.lines().any(|line| covers(line) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERS: &str = "\
reg00: base=0x0c0000000 ( 3072MB), size= 1024MB, count=1: uncachable
reg01: base=0x800000000 (32768MB), size=    2MB, count=1: write-back
nonsense
reg02: base=0xzz size=9999999999999999999999MB: uncachable
";

    #[test]
    fn registers_are_read() {
        assert!(is_uncachable(REGISTERS, 0xc000_0000, 1 << 30));
        assert!(is_uncachable(REGISTERS, 0xd000_0000, 1 << 20));
        assert!(!is_uncachable(REGISTERS, 0xc000_0000, (1 << 30) + 1), "not all of it");
        assert!(!is_uncachable(REGISTERS, 0xbfff_0000, 1 << 20));
        assert!(!is_uncachable(REGISTERS, 0x8_0000_0000, 4096), "cached");
        assert!(!is_uncachable(REGISTERS, u64::MAX, 2));
        assert!(!is_uncachable("", 0, 1));
    }

    #[test]
    fn a_file_is_no_device() {
        assert_eq!(check_uncached(Path::new("/tmp/file")), Ok(()));
    }
}
