//! Memory that a process may still get: of the machine, and of the control groups that it is in (versions 1 and 2).

use std::path::{Path, PathBuf};

/// Free memory, and the place that limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headroom {
    pub bytes: u64,
    pub of: String,
}

impl Headroom {
    /// Returns the least that is left for a process; `None` where nothing can be known.
    pub(crate) fn of_process(pid: u32) -> Option<Headroom> {
        least(Path::new("/"), &pid.to_string())
    }
}

/// Returns how many processes the kernel has killed for lack of memory, in the control group of this process if that counts
/// them, else on this machine.
pub(crate) fn killed() -> u64 {
    killed_below(Path::new("/"), "self")
}

fn killed_below(root: &Path, process: &str) -> u64 {
    let counts = groups(root, process)
        .into_iter()
        .filter_map(|(group, files)| field_of(&read(group.join(files.events)), "oom_kill"));
    counts.max().or_else(|| field_of(&read(root.join("proc/vmstat")), "oom_kill")).unwrap_or(0)
}

/// `root` is the folder that contains `proc` and `sys`.
fn least(root: &Path, process: &str) -> Option<Headroom> {
    let meminfo = read(root.join("proc/meminfo"));
    let kib = |name: &str| Some(field_of(&meminfo, name)?.saturating_mul(1024));
    let swap = kib("SwapFree:").unwrap_or(0);
    let machine = kib("MemAvailable:")
        .map(|available| Headroom { bytes: available.saturating_add(swap), of: "this machine".into() });
    let of_group = |(group, files): (PathBuf, &Files)| {
        let around: Vec<PathBuf> = group
            .ancestors()
            .take_while(|one| one.starts_with(root.join("sys")))
            .map(Path::to_path_buf)
            .collect();
        let left = around.into_iter().filter_map(|one| {
            let bytes = files.left(&one, swap)?;
            Some(Headroom { bytes, of: format!("its control group ({})", one.display()) })
        });
        left.min_by_key(|left| left.bytes)
    };
    let groups = groups(root, process).into_iter().filter_map(of_group);
    machine.into_iter().chain(groups).min_by_key(|left| left.bytes)
}

/// Returns the control groups of a process that could limit its memory.
fn groups(root: &Path, process: &str) -> Vec<(PathBuf, &'static Files)> {
    let lines = read(root.join("proc").join(process).join("cgroup"));
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (mount, files) = match controllers {
            "" => ("sys/fs/cgroup", &UNIFIED),
            _ if controllers.split(',').any(|one| one == "memory") => ("sys/fs/cgroup/memory", &LEGACY),
            _ => return None,
        };
        Some((root.join(mount).join(path.trim_start_matches('/')), files))
    };
    lines.lines().filter_map(of_line).collect()
}

/// Names of a control group's files.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Field of `memory.stat` with memory that the kernel takes back first when memory is short.
    cached: &'static str,
    /// Limit of what may be swapped out, and what is, with memory itself or without.
    swap_limit: &'static str,
    swap_used: &'static str,
    swap_has_memory: bool,
    /// File with the number of processes that were killed.
    events: &'static str,
}

const UNIFIED: Files = Files {
    limit: "memory.max",
    used: "memory.current",
    cached: "inactive_file",
    swap_limit: "memory.swap.max",
    swap_used: "memory.swap.current",
    swap_has_memory: false,
    events: "memory.events",
};
const LEGACY: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: "total_inactive_file",
    swap_limit: "memory.memsw.limit_in_bytes",
    swap_used: "memory.memsw.usage_in_bytes",
    swap_has_memory: true,
    events: "memory.oom_control",
};

impl Files {
    /// Returns what is left of a group's limit, with `swap` bytes free on the machine; `None` without a limit.
    fn left(&self, group: &Path, swap: u64) -> Option<u64> {
        let number = |name: &str| read(group.join(name)).trim().parse::<u64>().ok();
        let cached = field_of(&read(group.join("memory.stat")), self.cached).unwrap_or(0);
        let used = number(self.used)?.saturating_sub(cached);
        let memory = number(self.limit)?.saturating_sub(used);
        let swappable = number(self.swap_limit).zip(number(self.swap_used));
        let swappable =
            swappable.map_or(swap, |(limit, used)| limit.saturating_sub(used.saturating_sub(cached)));
        Some(match self.swap_has_memory {
            true => memory.saturating_add(swap).min(swappable.max(memory)),
            false => memory.saturating_add(swappable.min(swap)),
        })
    }
}

/// Returns the number after a name at the beginning of a line.
fn field_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the text of a file of the kernel's; empty if it does not exist.
fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::Folder;

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable:  4000 kB\nSwapFree: 96 kB\n");

    fn machine(name: &str, files: &[(&str, &str)]) -> Folder {
        let root = Folder::new(name);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_without_groups_has_its_memory_and_swap() {
        let root = machine("headroom-plain", &[MEMINFO]);
        assert_eq!(
            least(&root.join(""), "7"),
            Some(Headroom { bytes: 4096 << 10, of: "this machine".into() })
        );
        assert_eq!(least(Path::new("/nonexistent"), "7"), None);
    }

    #[test]
    fn the_tightest_group_around_a_process_counts() {
        let unified = machine(
            "headroom-unified",
            &[
                MEMINFO,
                ("proc/7/cgroup", "0::/slice/job\n"),
                ("sys/fs/cgroup/slice/memory.max", "700000\n"),
                ("sys/fs/cgroup/slice/memory.current", "600000\n"),
                ("sys/fs/cgroup/slice/memory.stat", "anon 300\ninactive_file 200000\n"),
                ("sys/fs/cgroup/slice/memory.swap.max", "1000\n"),
                ("sys/fs/cgroup/slice/memory.swap.current", "0\n"),
                ("sys/fs/cgroup/slice/job/memory.max", "max\n"),
                ("sys/fs/cgroup/slice/job/memory.current", "600\n"),
                ("sys/fs/cgroup/slice/job/memory.events", "oom 4\noom_kill 3\n"),
            ],
        );
        let left = least(&unified.join(""), "7").unwrap();
        assert_eq!(left.bytes, 301_000);
        assert!(left.of.contains("control group") && left.of.ends_with("/slice)"), "{}", left.of);
        assert_eq!(killed_below(&unified.join(""), "7"), 3);
        let legacy = machine(
            "headroom-legacy",
            &[
                MEMINFO,
                ("proc/7/cgroup", "9:name=systemd:/\n4:cpu,memory:/box/one\n0::/\n"),
                ("sys/fs/cgroup/memory/box/one/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/box/one/memory.usage_in_bytes", "300\n"),
                ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "700000\n"),
                ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "600000\n"),
                ("sys/fs/cgroup/memory/box/memory.memsw.limit_in_bytes", "700000\n"),
                ("sys/fs/cgroup/memory/box/memory.memsw.usage_in_bytes", "600000\n"),
                ("sys/fs/cgroup/memory/box/one/memory.oom_control", "under_oom 0\noom_kill 1\n"),
            ],
        );
        assert_eq!(least(&legacy.join(""), "7").unwrap().bytes, 100_000);
        assert_eq!(killed_below(&legacy.join(""), "7"), 1);
    }
}
