//! Memory that this process may still use.

use crate::error::ScenarioRunError;
use rustix::process::{Resource, getrlimit};
use unrack_sim::Need;
use unrack_units::Bytes;

/// Remaining memory, according to the tightest of all limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLeft {
    pub bytes: u64,
    /// Description of the tightest limit.
    limit: &'static str,
}

/// Divisor of the remaining memory that a single table may use, because the rest of the run needs memory too.
const SHARE: u64 = 2;

impl MemoryLeft {
    /// Determines the remaining memory. If no limit is known, the result is unlimited.
    pub fn now() -> MemoryLeft {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let available = available(&read("/proc/meminfo"));
        let of_group = in_groups(&read("/proc/self/cgroup"), |path| read(&format!("/sys/fs/cgroup{path}")));
        let mapped = pages(&read("/proc/self/statm")).saturating_mul(rustix::param::page_size() as u64);
        let address_space = getrlimit(Resource::As).current.map(|most| most.saturating_sub(mapped));
        let limits = [
            (available, "of this machine's memory is available"),
            (of_group, "is left to this control group"),
            (address_space, "is left of the address space (ulimit -v)"),
        ];
        let known = limits.into_iter().filter_map(|(bytes, limit)| Some(MemoryLeft { bytes: bytes?, limit }));
        known.min_by_key(|left| left.bytes).unwrap_or(MemoryLeft { bytes: u64::MAX, limit: "" })
    }

    /// Returns the number of bytes that a table may use if its size depends on the course of the run.
    pub fn for_a_table(self) -> u64 {
        self.bytes / SHARE
    }

    /// Rejects a run that certainly needs more memory than is left.
    ///
    /// # Errors
    /// [`ScenarioRunError::Lacking`], with the key that needs most of the memory.
    pub fn check(self, need: &Need) -> Result<(), ScenarioRunError> {
        let sure = need.sure_bytes();
        let Some(driver) = need.driver().filter(|_| sure > self.bytes as f64) else { return Ok(()) };
        Err(ScenarioRunError::Lacking(format!(
            "this scenario takes at least {} of memory, most of it by `{}` ({}, {}), and {} {}: lower that key, or \
             use a machine with more",
            rounded(sure),
            driver.key,
            driver.what,
            rounded(driver.bytes),
            rounded(self.bytes as f64),
            self.limit
        )))
    }
}

/// Formats bytes to three digits, in the largest unit that fits.
pub fn rounded(bytes: f64) -> String {
    let units = [("EiB", 60), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >= (1u64 << shift) as f64) {
        Some((unit, shift)) => {
            let value = bytes / (1u64 << shift) as f64;
            let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            format!("{value:.decimals$} {unit}")
        }
        None => Bytes::new(bytes as u64).to_string(),
    }
}

/// Returns `MemAvailable` of /proc/meminfo, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Returns the number of mapped pages, which is the first number of /proc/self/statm.
fn pages(statm: &str) -> u64 {
    statm.split_whitespace().next().and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// Returns the bytes that the control groups of this process leave: the minimum over its group and all groups around
/// it.
fn in_groups(groups: &str, read: impl Fn(&str) -> String) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let number = |path: String| read(&path).trim().parse::<u64>().ok();
    let left = |group: &str| {
        let (most, used) =
            (number(format!("{group}/memory.max"))?, number(format!("{group}/memory.current"))?);
        Some(most.saturating_sub(used))
    };
    ends.filter_map(|end| left(&path[..end])).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_sim::memory::NeedPart;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(pages("123 45 6\n"), 123);
        let read = |path: &str| match path {
            "/a/memory.max" => "1000\n".into(),
            "/a/memory.current" => "400\n".into(),
            "/a/b/memory.max" => "max\n".into(),
            "/a/b/c/memory.max" => "900\n".into(),
            "/a/b/c/memory.current" => "100\n".into(),
            _ => String::new(),
        };
        assert_eq!(in_groups("1:cpu:/x\n0::/a/b/c\n", read), Some(600));
        assert_eq!(in_groups("0::/\n", read), None);
        assert!(MemoryLeft::now().bytes > 1 << 20, "{:?}", MemoryLeft::now());
    }

    #[test]
    fn what_is_too_much_is_refused_by_its_key() {
        let part = |key, bytes, is_sure| NeedPart { key, what: "rows", bytes, is_sure };
        let left = MemoryLeft { bytes: 1 << 30, limit: "is available" };
        let need = |sure| Need { parts: vec![part("a.b", sure, true), part("c", 1e12, false)] };
        assert!(left.check(&need(1e9)).is_ok());
        let Err(ScenarioRunError::Lacking(why)) = left.check(&need(3e9)) else { panic!("refused") };
        assert!(
            why.contains("2.79 GiB of memory, most of it by `a.b` (rows, 2.79 GiB), and 1.00 GiB is"),
            "{why}"
        );
    }

    #[test]
    fn sizes_have_three_digits() {
        let shown = [512.0, 1536.0, 20e6, 131e6, 3e9, 5e12, 1e20].map(rounded);
        assert_eq!(shown, ["512B", "1.50 KiB", "19.1 MiB", "125 MiB", "2.79 GiB", "4.55 TiB", "86.7 EiB"]);
    }
}
