//! Description of the machine on which a run was made.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRow {
    /// Name of the operating system, as the distribution gives it.
    pub os: String,
    pub kernel: String,
    pub cpu: String,
    /// Number of cores that this process may use, which a container may limit.
    pub cores: usize,
    pub memory_bytes: u64,
}

impl HostRow {
    /// Describes this machine. Unknown properties are `unknown` or 0.
    pub fn this() -> HostRow {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        HostRow {
            os: or_unknown(value(&read("/etc/os-release"), "PRETTY_NAME", '=').trim_matches('"')),
            kernel: or_unknown(read("/proc/sys/kernel/osrelease").trim()),
            cpu: or_unknown(value(&read("/proc/cpuinfo"), "model name", ':')),
            cores: std::thread::available_parallelism().map_or(0, |n| n.get()),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
        }
    }
}

/// Returns the value of the first `key <separator> value` line.
fn value<'a>(text: &'a str, key: &str, separator: char) -> &'a str {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.filter(|(k, _)| k.trim() == key).map(|(_, v)| v.trim()).next().unwrap_or("")
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = value(meminfo, "MemTotal", ':').trim_end_matches(" kB").parse::<u64>();
    kib.unwrap_or(0).saturating_mul(1024)
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(memory_bytes("MemTotal:       16384 kB\nMemFree:  1 kB\n"), 16 << 20);
        assert_eq!(memory_bytes("MemTotal: lots\n"), 0);
        let cpuinfo = "processor\t: 0\nmodel name\t: Example CPU: 3 GHz\nprocessor\t: 1\n";
        assert_eq!(value(cpuinfo, "model name", ':'), "Example CPU: 3 GHz");
        assert_eq!(or_unknown(value("", "model name", ':')), "unknown");
    }

    #[test]
    fn this_machine_has_a_core_and_memory() {
        let host = HostRow::this();
        assert!(host.cores >= 1 && host.memory_bytes > 1 << 20, "{host:?}");
    }
}
