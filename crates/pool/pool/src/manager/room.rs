//! Free memory for a pool that is about to be made.

use super::backing::{Backing, Store};
use super::error::Error;
use super::options::Options;
use crate::SECTION;
use std::path::Path;
use unrack_input::memory::{ControlGroup, meminfo};
use unrack_units::Bytes;

/// Free memory of some kind, and its name in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeMemory {
    pub bytes: u64,
    pub of: &'static str,
}

impl Options {
    /// Compares the capacity with the free memory of the kind that the options ask for.
    ///
    /// # Errors
    /// If less memory is free than the capacity.
    pub(super) fn check_room(&self, store: &Store) -> Result<(), Error> {
        let least = self.room(store).into_iter().min_by_key(|room| room.bytes);
        match least {
            Some(FreeMemory { bytes, of }) if bytes < self.capacity.get() => Err(Error::NoRoom {
                capacity: self.capacity,
                free: Bytes::new(bytes / SECTION * SECTION),
                of,
            }),
            _ => Ok(()),
        }
    }

    fn room(&self, store: &Store) -> Vec<FreeMemory> {
        match &self.backing {
            Backing::Memfd { huge: false } => of_machine(Path::new("/")),
            Backing::Memfd { huge: true } => huge_pages(Path::new("/")).into_iter().collect(),
            Backing::Directory(_) => {
                let Some(folder) = &store.folder else { return Vec::new() };
                let free =
                    folder.free_bytes().map(|bytes| FreeMemory { bytes, of: "the file system of --backing" });
                let memory = if folder.is_huge() { Vec::new() } else { of_machine(Path::new("/")) };
                free.into_iter().chain(memory).collect()
            }
            // Devices have a fixed size, which is checked when they are opened.
            Backing::Devices { .. } => Vec::new(),
        }
    }
}

/// Returns half of the free memory, but at most one gibibyte: the default capacity of a pool.
pub fn default_capacity() -> Bytes {
    const USUAL: u64 = 1 << 30;
    half_of_memory().min(Bytes::new(USUAL))
}

/// Returns half of the free memory: the capacity of a pool of which only a small part is ever written.
pub fn half_of_memory() -> Bytes {
    let free = of_machine(Path::new("/")).iter().map(|room| room.bytes).min().unwrap_or(2 << 30);
    Bytes::new((free / 2).max(2 * SECTION) / SECTION * SECTION)
}

/// Returns the memory that the kernel can provide without swapping, and the memory that the limits of control groups
/// leave.
///
/// `root` is the folder that contains `proc` and `sys`.
fn of_machine(root: &Path) -> Vec<FreeMemory> {
    let machine =
        meminfo(root, "MemAvailable:").map(|bytes| FreeMemory { bytes, of: "this machine's memory" });
    let group = of_groups(root)
        .map(|bytes| FreeMemory { bytes, of: "the memory limit of this process's control group" });
    machine.into_iter().chain(group).collect()
}

/// Returns the smallest number of bytes that is left in the control group of this process or in a group around it;
/// `None` if there are no limits.
fn of_groups(root: &Path) -> Option<u64> {
    let groups = ControlGroup::of_process(root, "self");
    groups.iter().flat_map(ControlGroup::and_around).filter_map(|group| group.memory_left()).min()
}

/// Returns the free huge pages of 2 MiB, including those that the kernel may still make.
fn huge_pages(root: &Path) -> Option<FreeMemory> {
    let folder = root.join("sys/kernel/mm/hugepages/hugepages-2048kB");
    let count = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let free = count("free_hugepages")?.saturating_sub(count("resv_hugepages")?);
    let more = count("nr_overcommit_hugepages")?.saturating_sub(count("surplus_hugepages")?);
    Some(FreeMemory {
        bytes: (free + more).saturating_mul(SECTION),
        of: "the huge pages of this machine (vm.nr_hugepages)",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Folder with files like those of the kernel; it is removed when dropped.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, files: &[(&str, &str)]) -> Machine {
            let root = std::env::temp_dir().join(format!("unrack-room-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Machine(root)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: &str = "MemTotal:       8000 kB\nMemAvailable:    4000 kB\nSwapFree:  9 kB\n";

    #[test]
    fn memory_is_what_is_available() {
        let machine = Machine::new("plain", &[("proc/meminfo", MEMINFO)]);
        let room = of_machine(&machine.0);
        assert_eq!(room, [FreeMemory { bytes: 4000 * 1024, of: "this machine's memory" }]);
        assert_eq!(of_machine(Path::new("/nonexistent")), []);
    }

    #[test]
    fn a_control_group_or_one_around_it_limits() {
        let machine = Machine::new(
            "unified",
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/slice/job\n"),
                ("sys/fs/cgroup/slice/memory.max", "1000\n"),
                ("sys/fs/cgroup/slice/memory.current", "700\n"),
                ("sys/fs/cgroup/slice/memory.stat", "anon 300\ninactive_file 200\n"),
                ("sys/fs/cgroup/slice/job/memory.max", "max\n"),
                ("sys/fs/cgroup/slice/job/memory.current", "600\n"),
            ],
        );
        assert_eq!(of_groups(&machine.0), Some(500));
    }

    #[test]
    fn control_groups_of_the_first_version_limit_too() {
        let machine = Machine::new(
            "legacy",
            &[
                ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box/one\n0::/\n"),
                ("sys/fs/cgroup/memory/box/one/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/box/one/memory.usage_in_bytes", "300\n"),
                ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096\n"),
                ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "4196\n"),
                ("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 7\ntotal_inactive_file 200\n"),
            ],
        );
        assert_eq!(of_groups(&machine.0), Some(100));
    }

    #[test]
    fn huge_pages_are_those_that_nobody_has() {
        let folder = "sys/kernel/mm/hugepages/hugepages-2048kB";
        let file = |name: &str| format!("{folder}/{name}");
        let machine = Machine::new(
            "huge",
            &[
                (&file("free_hugepages"), "5\n"),
                (&file("resv_hugepages"), "2\n"),
                (&file("nr_overcommit_hugepages"), "4\n"),
                (&file("surplus_hugepages"), "1\n"),
            ],
        );
        assert_eq!(huge_pages(&machine.0).map(|room| room.bytes), Some(6 * SECTION));
        assert_eq!(huge_pages(Path::new("/nonexistent")), None);
    }
}
