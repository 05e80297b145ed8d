//! Memory that a process can still get according to the kernel, limited by the machine and by control groups (versions 1 and 2).
//!
//! In all functions, `root` is the folder that contains `proc` and `sys`.

use std::path::{Path, PathBuf};

/// Returns the number of bytes in a line of `/proc/meminfo`, for example `MemAvailable:`.
pub fn meminfo(root: &Path, name: &str) -> Option<u64> {
    Some(number_after(&read(&root.join("proc/meminfo")), name)?.saturating_mul(1024))
}

/// Returns the number of processes on this machine that the kernel has killed for lack of memory.
pub fn killed(root: &Path) -> Option<u64> {
    number_after(&read(&root.join("proc/vmstat")), "oom_kill")
}

/// A control group that may limit the memory of its processes.
#[derive(Debug, Clone)]
pub struct ControlGroup {
    mount: PathBuf,
    folder: PathBuf,
    files: &'static GroupFiles,
}

/// Names of the files of a control group, and of fields in them.
#[derive(Debug)]
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// Field of `memory.stat` with the memory that the kernel reclaims first when memory is short.
    cached: &'static str,
    /// Files with the swap limit and the swap usage. If `swap_has_memory` is true, both include memory itself.
    swap_limit: &'static str,
    swap_used: &'static str,
    swap_has_memory: bool,
    /// File with the number of killed processes.
    events: &'static str,
}

const UNIFIED: GroupFiles = GroupFiles {
    limit: "memory.max",
    used: "memory.current",
    cached: "inactive_file",
    swap_limit: "memory.swap.max",
    swap_used: "memory.swap.current",
    swap_has_memory: false,
    events: "memory.events",
};
const LEGACY: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: "total_inactive_file",
    swap_limit: "memory.memsw.limit_in_bytes",
    swap_used: "memory.memsw.usage_in_bytes",
    swap_has_memory: true,
    events: "memory.oom_control",
};

impl ControlGroup {
    /// Returns the control groups of a process. `process` names the process as `/proc` does: by its number, or as `self`.
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

    /// Returns this group and its ancestors, whose limits apply to this group too.
    pub fn and_around(&self) -> impl Iterator<Item = ControlGroup> {
        let inside = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount));
        inside.map(|folder| ControlGroup { folder: folder.into(), ..self.clone() })
    }

    /// Returns the folder that contains the group's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the memory that is left below the limit of the control group; `None` if the group has no limit.
    pub fn memory_left(&self) -> Option<u64> {
        Some(self.number(self.files.limit)?.saturating_sub(self.used()?))
    }

    /// Returns the memory and swap that is left below the group's limits. `swap` is the number of free bytes of swap on the machine.
    /// Returns `None` if the group has no limit.
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

    /// Returns the number of processes of this group that the kernel has killed for lack of memory, if the group counts them.
    pub fn killed(&self) -> Option<u64> {
        number_after(&read(&self.folder.join(self.files.events)), "oom_kill")
    }

    /// Returns the used memory that the kernel could not reclaim at once.
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

/// Returns the number that follows a name at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the text of one of the kernel's files; empty if the file does not exist.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
