//! Memory that a process can still get, limited by the machine and by the control groups of the process (versions 1 and 2).

use std::path::Path;
use unrack_input::memory::{self, ControlGroup};

/// Free memory, and the name of the machine or control group that limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryHeadroom {
    pub bytes: u64,
    pub of: String,
}

impl MemoryHeadroom {
    /// Returns the smallest headroom among the limits of a process; `None` if no limit can be read.
    pub(crate) fn of_process(pid: u32) -> Option<MemoryHeadroom> {
        least(Path::new("/"), &pid.to_string())
    }
}

/// Returns the number of processes that the kernel has killed for lack of memory: in the control group of this process if the group counts
/// them, otherwise on the whole machine.
pub(crate) fn killed() -> u64 {
    killed_below(Path::new("/"), "self")
}

fn killed_below(root: &Path, process: &str) -> u64 {
    let counts = ControlGroup::of_process(root, process).into_iter().filter_map(|group| group.killed());
    counts.max().or_else(|| memory::killed(root)).unwrap_or(0)
}

/// Implements [`MemoryHeadroom::of_process`]. `root` is the folder that contains `proc` and `sys`.
fn least(root: &Path, process: &str) -> Option<MemoryHeadroom> {
    let swap = memory::meminfo(root, "SwapFree:").unwrap_or(0);
    let machine = memory::meminfo(root, "MemAvailable:")
        .map(|available| MemoryHeadroom { bytes: available.saturating_add(swap), of: "this machine".into() });
    let of_group = |group: ControlGroup| {
        let left = group.and_around().filter_map(|one| {
            let bytes = one.memory_and_swap_left(swap)?;
            Some(MemoryHeadroom { bytes, of: format!("its control group ({})", one.folder().display()) })
        });
        left.min_by_key(|left| left.bytes)
    };
    let groups = ControlGroup::of_process(root, process).into_iter().filter_map(of_group);
    machine.into_iter().chain(groups).min_by_key(|left| left.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable:  4000 kB\nSwapFree: 96 kB\n");

    fn machine(name: &str, files: &[(&str, &str)]) -> TestFolder {
        let root = TestFolder::new(name);
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
            Some(MemoryHeadroom { bytes: 4096 << 10, of: "this machine".into() })
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
