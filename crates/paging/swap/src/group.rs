//! The memory cgroup, with version 1 or 2 of the kernel's interface.
//!
//! The limit of a cgroup includes page cache and kernel memory, which are always local in a disaggregated rack. Therefore the limit is
//! adapted continuously: it is the requested local memory plus all memory of the group that is not anonymous.

use crate::error::{SwapError, failed, lacking};
use crate::undo::Undo;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Shell command that enters the group and then becomes the program.
const ENTER: &str = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";

#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    files: &'static InterfaceFiles,
}

/// Names of files and values in one version of the interface.
#[derive(Debug)]
struct InterfaceFiles {
    usage: &'static str,
    limit: &'static str,
    /// Value that means "no limit".
    unlimited: &'static str,
    /// Key of anonymous memory in `memory.stat`.
    anonymous: &'static str,
    /// Settings of a new group.
    settings: &'static [(&'static str, &'static str)],
}

const VERSION_1: InterfaceFiles = InterfaceFiles {
    usage: "memory.usage_in_bytes",
    limit: "memory.limit_in_bytes",
    unlimited: "-1",
    anonymous: "rss",
    // Swappiness 200 makes the kernel prefer anonymous memory, because page cache does not count here; however, the kernel sometimes
    // reclaims page cache nevertheless (`waits_in`). Because the out-of-memory killer is disabled, a group without memory waits until its
    // limit is raised.
    settings: &[("memory.swappiness", "200"), ("memory.oom_control", "1")],
};
const VERSION_2: InterfaceFiles = InterfaceFiles {
    usage: "memory.current",
    limit: "memory.max",
    unlimited: "max",
    anonymous: "anon",
    settings: &[],
};

/// Memory that a group uses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupMemory {
    pub anonymous: u64,
    /// Page cache, shared memory, and the kernel's memory for the group.
    pub other: u64,
}

fn no_group() -> SwapError {
    SwapError::Lacking("no memory cgroup is mounted: mount the memory controller at /sys/fs/cgroup".into())
}

impl MemoryGroup {
    /// Checks that memory cgroups can limit memory on this machine.
    pub(crate) fn check() -> Result<(), SwapError> {
        hierarchy().map(drop).ok_or_else(no_group)
    }

    /// Makes a group without limit.
    pub(crate) fn make(undo: &mut Undo) -> Result<MemoryGroup, SwapError> {
        let (root, files) = hierarchy().ok_or_else(no_group)?;
        let path = root.join(format!("unrack-swap-{}", std::process::id()));
        let at = path.display();
        undo.add(&format!(
            "for n in $(seq 100); do while read -r pid; do kill -9 \"$pid\"; done < {at}/cgroup.procs; \
             echo 0 > {at}/memory.force_empty; rmdir {at} && break; sleep 0.05; done"
        ))?;
        fs::create_dir(&path)
            .map_err(lacking(format_args!("make the cgroup {at} (only root can: use sudo)")))?;
        let group = MemoryGroup { path, files };
        files.settings.iter().try_for_each(|(name, value)| group.write(name, value))?;
        Ok(group)
    }

    /// Returns the command that runs `words` in the group.
    pub(crate) fn command(&self, words: &[OsString]) -> Vec<OsString> {
        let shell = ["sh".into(), "-c".into(), ENTER.into(), self.path.clone().into_os_string()];
        shell.into_iter().chain(words.iter().cloned()).collect()
    }

    /// Returns the memory that the group uses now.
    pub(crate) fn memory(&self) -> Result<GroupMemory, SwapError> {
        let usage: u64 =
            self.read(self.files.usage)?.trim().parse().map_err(failed("read the group's memory"))?;
        let anonymous = field(&self.read("memory.stat")?, self.files.anonymous).unwrap_or(0);
        Ok(GroupMemory { anonymous: anonymous.min(usage), other: usage.saturating_sub(anonymous) })
    }

    /// Returns the group's processes.
    pub(crate) fn processes(&self) -> Result<Vec<u32>, SwapError> {
        Ok(self.read("cgroup.procs")?.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Returns whether a thread of the group waits in this function of the kernel (proc_pid_wchan(5)).
    pub(crate) fn waits_in(&self, function: &str) -> Result<bool, SwapError> {
        let waits = |thread: fs::DirEntry| {
            fs::read_to_string(thread.path().join("wchan")).is_ok_and(|text| text.trim() == function)
        };
        // A process that ends meanwhile does not wait.
        Ok(self.processes()?.into_iter().any(|pid| {
            fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.flatten().any(waits))
        }))
    }

    /// Returns a count from the group's `memory.stat`, if this kernel has it.
    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        field(&self.read("memory.stat").ok()?, key)
    }

    /// Returns whether the group is out of memory and waits for its limit to be raised.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.read("memory.oom_control").is_ok_and(|text| field(&text, "under_oom") == Some(1))
    }

    /// Limits the group's memory; `None` removes the limit. If the limit is below the memory that the group uses, the kernel first swaps;
    /// if it cannot, the limit stays as it was and no error is returned.
    pub(crate) fn limit(&self, bytes: Option<u64>) -> Result<(), SwapError> {
        let value = bytes.map_or(self.files.unlimited.into(), |bytes| bytes.to_string());
        match fs::write(self.path.join(self.files.limit), value) {
            Err(why) if why.kind() == std::io::ErrorKind::ResourceBusy => Ok(()),
            done => done.map_err(failed("limit the group's memory")),
        }
    }

    fn read(&self, name: &str) -> Result<String, SwapError> {
        fs::read_to_string(self.path.join(name)).map_err(failed(format_args!("read {name} of the cgroup")))
    }

    fn write(&self, name: &str, value: &str) -> Result<(), SwapError> {
        fs::write(self.path.join(name), value).map_err(failed(format_args!("set {name} of the cgroup")))
    }
}

/// Returns the folder in which groups are made, and the names of the interface there.
fn hierarchy() -> Option<(PathBuf, &'static InterfaceFiles)> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("memory").join(VERSION_1.usage).exists() {
        return Some((root.join("memory"), &VERSION_1));
    }
    let has_memory = |file: &str| {
        fs::read_to_string(root.join(file)).is_ok_and(|text| text.split_whitespace().any(|it| it == "memory"))
    };
    if has_memory("cgroup.controllers") && !has_memory("cgroup.subtree_control") {
        // If the kernel refuses this, the error shows when the limit is set.
        let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
    }
    has_memory("cgroup.controllers").then(|| (root.to_path_buf(), &VERSION_2))
}

/// Returns the number that follows a key, in a text with a key and a number on each line.
pub(crate) fn field(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_key() {
        let text = "cache 12\nrss_huge 5\nrss 7\ntotal_rss 9\n";
        assert_eq!(field(text, "rss"), Some(7));
        assert_eq!(field(text, "total_rss"), Some(9));
        assert_eq!(field(text, "swap"), None);
        assert_eq!(field("rss x\n", "rss"), None);
    }
}
