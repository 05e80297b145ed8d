//! Memory that a process may still get, as the kernel shows it: of the machine, and of control groups (versions 1 and 2).
//!
//! `root` is always the folder that contains `proc` and `sys`.

use std::path::{Path, PathBuf};

/// Returns the bytes in a line of `/proc/meminfo`, such as `MemAvailable:`.
pub fn meminfo(root: &Path, name: &str) -> Option<u64> {
    Some(number_after(&read(&root.join("proc/meminfo")), name)?.saturating_mul(1024))
}

/// Returns how many processes the kernel has killed on this machine for lack of memory.
pub fn killed(root: &Path) -> Option<u64> {
    number_after(&read(&root.join("proc/vmstat")), "oom_kill")
}

/// Control group that could limit the memory of its processes.
#[derive(Debug, Clone)]
pub struct ControlGroup {
    mount: PathBuf,
    folder: PathBuf,
    files: &'static Files,
}

/// Names of a control group's files.
#[derive(Debug)]
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

impl ControlGroup {
    /// Returns the groups of a process, which `process` names as `/proc` does: a number, or `self`.
    pub fn of_process(root: &Path, process: &str) -> Vec<ControlGroup> {
        let lines = read(&root.join("proc").join(process).join("cgroup"));
        let of_line = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let (mount, files) = match controllers {
                "" => ("sys/fs/cgroup", &UNIFIED),
                _ if controllers.split(',').any(|one| one == "memory") => ("sys/fs/cgroup/memory", &LEGACY),
                _ => return None,
            };
            let mount = root.join(mount);
            Some(ControlGroup { folder: mount.join(path.trim_start_matches('/')), mount, files })
        };
        lines.lines().filter_map(of_line).collect()
    }

    /// Returns this group and those around it, whose limits hold for it, too.
    pub fn and_around(&self) -> impl Iterator<Item = ControlGroup> {
        let inside = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount));
        inside.map(|folder| ControlGroup { folder: folder.into(), ..self.clone() })
    }

    /// Returns the folder of the group's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what is left of the group's limit; `None` without a limit.
    pub fn memory_left(&self) -> Option<u64> {
        Some(self.number(self.files.limit)?.saturating_sub(self.used()?))
    }

    /// Returns what is left of the group's limits on memory and swap, with `swap` bytes free on the machine; `None` without a
    /// limit.
    pub fn memory_and_swap_left(&self, swap: u64) -> Option<u64> {
        let memory = self.memory_left()?;
        let swappable = self.number(self.files.swap_limit).zip(self.number(self.files.swap_used));
        let swappable =
            swappable.map_or(swap, |(limit, used)| limit.saturating_sub(used.saturating_sub(self.cached())));
        Some(match self.files.swap_has_memory {
            true => memory.saturating_add(swap).min(swappable.max(memory)),
            false => memory.saturating_add(swappable.min(swap)),
        })
    }

    /// Returns how many processes of this group the kernel has killed for lack of memory, if the group counts them.
    pub fn killed(&self) -> Option<u64> {
        number_after(&read(&self.folder.join(self.files.events)), "oom_kill")
    }

    /// Returns the memory that the kernel could not take back at once.
    fn used(&self) -> Option<u64> {
        Some(self.number(self.files.used)?.saturating_sub(self.cached()))
    }

    fn cached(&self) -> u64 {
        number_after(&read(&self.folder.join("memory.stat")), self.files.cached).unwrap_or(0)
    }

    fn number(&self, file: &str) -> Option<u64> {
        read(&self.folder.join(file)).trim().parse().ok()
    }
}

/// Returns the number after a name at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the text of a file of the kernel's; empty if it does not exist.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
