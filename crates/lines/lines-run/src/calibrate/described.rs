//! Description of the machine by the kernel, as read from `/proc/cpuinfo` and from the sysfs entries for the caches of
//! the first core.

use serde::{Deserialize, Serialize};
use std::path::Path;
use unrack_lines::processor::{CacheSize, Processor};

/// Processor and caches of the machine, as reported by the kernel. In a virtual machine, the reported caches may be
/// larger than the part of them that the machine obtains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Name of the processor model.
    pub name: String,
    /// Vendor of the processor, as spelled by `cpuid`.
    pub vendor: String,
    /// Family number of the processor.
    pub family: u32,
    /// Model number within the processor's family.
    pub model: u32,
    /// Whether this machine is a virtual machine.
    pub is_virtual: bool,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Caches that hold data, in the order from the nearest to the core to the last level.
    pub caches: Vec<DescribedCache>,
}

/// Cache that holds data, as reported by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedCache {
    /// Number of the cache level; 1 is the nearest to the core.
    pub level: u8,
    /// Size in bytes.
    pub bytes: u64,
    /// Associativity: lines per set.
    pub ways: u32,
    /// Number of sets.
    pub sets: u32,
    /// Number of cores that share the cache.
    pub shared_by: u32,
}

impl Described {
    /// Reads the description of this machine. Properties that the kernel does not report are empty or 0.
    pub fn this() -> Described {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Described {
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            ..Described::from_cpuinfo(&cpuinfo)
        }
    }

    pub(super) fn from_cpuinfo(cpuinfo: &str) -> Described {
        let number = |key| value(cpuinfo, key).parse().unwrap_or(0);
        Described {
            name: value(cpuinfo, "model name").into(),
            vendor: value(cpuinfo, "vendor_id").into(),
            family: number("cpu family"),
            model: number("model"),
            is_virtual: value(cpuinfo, "flags").split(' ').any(|flag| flag == "hypervisor"),
            cores: 1,
            caches: Vec::new(),
        }
    }

    /// Returns the name of the processor preset of `unrack-lines` for the processor of this machine, or `None` if there
    /// is no preset for it.
    ///
    /// Families and models are those of AMD's revision guides (56323, 56683, 57095) and of Intel's Software
    /// Developer's Manual, volume 4, table 2-1.
    pub fn preset(&self) -> Option<&'static str> {
        match (self.vendor.as_str(), self.family, self.model) {
            ("AuthenticAMD", 0x17, 0x30..) => Some("zen2"),
            ("AuthenticAMD", 0x19, 0x00..=0x0f | 0x20..=0x5f) => Some("zen3"),
            ("AuthenticAMD", 0x19, _) => Some("zen4"),
            ("AuthenticAMD", 0x1a, _) => Some("zen5"),
            ("GenuineIntel", 6, 0x4e | 0x55 | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6) => Some("skylake-sp"),
            ("GenuineIntel", 6, 0x6a | 0x6c | 0x7d | 0x7e) => Some("icelake-sp"),
            ("GenuineIntel", 6, 0x8f | 0xcf) => Some("sapphire-rapids"),
            _ => None,
        }
    }

    /// Returns the processor to simulate: the preset for the processor of this machine, with the cache sizes that the
    /// kernel reports. If there is no such preset, the newest preset of the same vendor is used. Returns `None` if the
    /// vendor is unknown.
    pub fn processor(&self) -> Option<Processor> {
        let newest = match self.vendor.as_str() {
            "AuthenticAMD" => Some("zen5"),
            "GenuineIntel" => Some("sapphire-rapids"),
            _ => None,
        };
        let mut processor = Processor::by_name(self.preset().or(newest)?).ok()?;
        let size = |level| self.cache(level).map(|cache| CacheSize { bytes: cache.bytes, ways: cache.ways });
        let usual = processor.clone();
        processor.l1 = size(1).unwrap_or(usual.l1);
        processor.l2 = size(2).unwrap_or(usual.l2);
        processor.l3 = size(3).unwrap_or(usual.l3);
        // A virtual machine may report impossible caches, with 0 ways or with a fractional number of sets.
        Some(if processor.check().is_ok() { processor } else { usual })
    }

    /// Returns the cache with this level number, or `None` if the kernel reports no such cache.
    pub fn cache(&self, level: u8) -> Option<&DescribedCache> {
        self.caches.iter().find(|cache| cache.level == level)
    }

    /// Returns the size of the last cache level in bytes, or 0 if the kernel reports no caches.
    pub(super) fn last_level_bytes(&self) -> u64 {
        self.caches.last().map_or(0, |cache| cache.bytes)
    }
}

/// Returns the value of the first line of the form `key : value` with this key.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(k, _)| k.trim() == key).map(|(_, value)| value.trim()).next().unwrap_or("")
}

/// Reads the descriptions of the data caches in a directory of sysfs, in the order from the nearest to the core to the
/// last level.
fn caches(folder: &Path) -> Vec<DescribedCache> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut caches: Vec<DescribedCache> =
        entries.flatten().filter_map(|entry| cache(&entry.path())).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn cache(folder: &Path) -> Option<DescribedCache> {
    let read =
        |name: &str| std::fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_string());
    if read("type")? == "Instruction" {
        return None;
    }
    Some(DescribedCache {
        level: read("level")?.parse().ok()?,
        bytes: bytes(&read("size")?)?,
        ways: read("ways_of_associativity")?.parse().ok()?,
        sets: read("number_of_sets")?.parse().ok()?,
        shared_by: cores_in(&read("shared_cpu_list")?)?,
    })
}

/// Parses a size such as `32K`, and returns it in bytes.
fn bytes(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()? {
        b'K' => 1 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the number of cores in a list such as `0-3,8`.
fn cores_in(list: &str) -> Option<u32> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').try_fold(0u32, |sum, text| sum.checked_add(range(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_testing::TestFolder;

    const CPUINFO: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n\
                           model name\t: Example: 9\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel\t\t: 7\n";

    #[test]
    fn the_first_processor_is_described() {
        let described = Described::from_cpuinfo(CPUINFO);
        assert_eq!((described.family, described.model), (25, 1));
        assert_eq!(described.name, "Example: 9");
        assert!(described.is_virtual);
        assert_eq!(described.preset(), Some("zen3"));
        assert_eq!(Described::from_cpuinfo("").preset(), None);
    }

    #[test]
    fn the_processor_has_the_sizes_that_the_kernel_tells() {
        let cache = |level, bytes, ways| DescribedCache { level, bytes, ways, sets: 0, shared_by: 1 };
        let mut described = Described::from_cpuinfo(CPUINFO);
        assert_eq!(described.processor().unwrap().to_string(), "zen3");
        described.caches = vec![cache(1, 48 << 10, 12), cache(2, 1 << 20, 16), cache(3, 3 << 20, 16)];
        let text = described.processor().unwrap().to_string();
        assert_eq!(text, "zen3:l1=49152/12:l2=1048576/16:l3=3145728/16");
        described.caches[1].ways = 0;
        assert_eq!(described.processor().unwrap().to_string(), "zen3", "such a cache cannot be");
        described.family = 0x99;
        assert_eq!(described.processor().unwrap().to_string(), "zen5");
        described.vendor = "Other".into();
        assert_eq!(described.processor(), None);
    }

    #[test]
    fn caches_are_read_nearest_first_and_instructions_left_out() {
        let folder = TestFolder::new("described-caches");
        let files = ["type", "level", "size", "ways_of_associativity", "number_of_sets", "shared_cpu_list"];
        let write = |index: &str, values: [&str; 6]| {
            std::fs::create_dir(folder.join(index)).unwrap();
            let pairs = files.iter().zip(values);
            pairs.for_each(|(file, value)| std::fs::write(folder.join(index).join(file), value).unwrap());
        };
        write("index0", ["Unified\n", "3\n", "2M\n", "16\n", "2048\n", "0-3,8\n"]);
        write("index1", ["Data\n", "1\n", "32K\n", "8\n", "64\n", "0\n"]);
        write("index2", ["Instruction\n", "1\n", "32K\n", "8\n", "64\n", "0\n"]);
        write("index3", ["Unified\n", "2\n", "large\n", "8\n", "64\n", "0\n"]);
        let expected = [
            DescribedCache { level: 1, bytes: 32 << 10, ways: 8, sets: 64, shared_by: 1 },
            DescribedCache { level: 3, bytes: 2 << 20, ways: 16, sets: 2048, shared_by: 5 },
        ];
        assert_eq!(caches(&folder), expected);
        assert_eq!(caches(&folder.join("absent")), []);
    }

    proptest! {
        #[test]
        fn odd_texts_are_no_numbers(text in ".{0,12}") {
            let _ = (bytes(&text), cores_in(&text), Described::from_cpuinfo(&text));
        }
    }
}
