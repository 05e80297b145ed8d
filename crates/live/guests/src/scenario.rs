//! Scenario of a rack of virtual machines: its keys, with their defaults and limits.

use crate::header::DATA_OFFSET;
use serde::{Deserialize, Serialize};
use unrack_rack::{Scenario, ScenarioError};
use unrack_units::Bytes;

/// Rack of virtual machines that share one memory device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestRack {
    /// Memory device that all hosts share.
    #[serde(default)]
    pub device: SharedDevice,
    /// Hosts, at most 16.
    #[serde(default)]
    pub host: Vec<GuestHost>,
}

/// Memory device that all hosts share. Its bytes are zero when the rack is built, and are lost when the rack is taken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedDevice {
    /// Number of bytes that hosts can use. It is a multiple of 2 MiB, and for `ivshmem` and `ivshmem-doorbell` also a power of two.
    pub bytes: Bytes,
    pub kind: DeviceKind,
}

/// Kind of device, as the hosts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// Persistent memory DIMM: `/dev/dax0.0`, which is mapped like ordinary memory.
    #[default]
    Nvdimm,
    /// PCI device with shared memory: `resource2` of the device in `/sys/bus/pci/devices`.
    Ivshmem,
    /// PCI device with shared memory, as [`DeviceKind::Ivshmem`], and in addition a PCI device for interrupts between hosts. Programs
    /// receive these interrupts through VFIO.
    #[serde(rename = "ivshmem-doorbell")]
    IvshmemDoorbell,
}

/// One host: a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestHost {
    /// Name of the host: letters, digits and `-`.
    pub name: String,
    /// Private memory of the host in bytes, in addition to the device.
    #[serde(default = "memory")]
    pub memory: Bytes,
    /// Number of processors.
    #[serde(default = "cpus")]
    pub cpus: u32,
}

impl Default for SharedDevice {
    fn default() -> SharedDevice {
        SharedDevice { bytes: Bytes::new(256 << 20), kind: DeviceKind::Nvdimm }
    }
}

/// Memory in which Debian's kernel, the agent and a few programs fit.
fn memory() -> Bytes {
    Bytes::new(768 << 20)
}

fn cpus() -> u32 {
    1
}

/// Least memory with which Debian's kernel boots and runs a program, in bytes.
const LEAST_MEMORY: u64 = 256 << 20;
const MOST_MEMORY: u64 = 1 << 40;
const MOST_CPUS: u32 = 64;
const MOST_HOSTS: usize = 16;
/// Longest name. This is the limit for host names in Linux; the name is also used for a file.
const LONGEST_NAME: usize = 63;

impl GuestRack {
    /// Returns whether a scenario describes virtual machines, because it has a list of hosts.
    pub fn is_of(scenario: &Scenario) -> bool {
        scenario.has_list("host")
    }

    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Fails with all problems of the keys, or with the first value that is out of bounds, each with its line.
    pub fn read(scenario: &Scenario) -> Result<GuestRack, ScenarioError> {
        let rack: GuestRack = scenario.read_as()?;
        match rack.problem() {
            Some((path, why)) => Err(scenario.error_at(&path, why)),
            None => Ok(rack),
        }
    }

    /// Returns the path of the first value that is out of bounds, and its bounds.
    fn problem(&self) -> Option<(String, String)> {
        let SharedDevice { bytes, kind } = self.device;
        let bytes = bytes.get();
        let at = |path: &str, why: String| Some((path.to_string(), why));
        if bytes == 0 || !bytes.is_multiple_of(DATA_OFFSET) || bytes > MOST_MEMORY {
            return at("device.bytes", "is a multiple of 2 MiB, at most 1 TiB".into());
        }
        if kind.is_on_bus() && !bytes.is_power_of_two() {
            return at("device.bytes", format!("is a power of two for an `{}`", kind.name()));
        }
        if self.host.is_empty() || self.host.len() > MOST_HOSTS {
            return at("host", format!("needs 1 to {MOST_HOSTS} hosts"));
        }
        for (number, host) in self.host.iter().enumerate() {
            let key = |key: &str| format!("host.{number}.{key}");
            if !is_name(&host.name) {
                let why = format!("is 1 to {LONGEST_NAME} letters, digits and `-`, and begins with a letter");
                return Some((key("name"), why));
            }
            if self.host[..number].iter().any(|other| other.name == host.name) {
                return Some((key("name"), format!("`{}` is the name of another host", host.name)));
            }
            if !(LEAST_MEMORY..=MOST_MEMORY).contains(&host.memory.get()) {
                return Some((key("memory"), "is 256 MiB to 1 TiB".into()));
            }
            if !(1..=MOST_CPUS).contains(&host.cpus) {
                return Some((key("cpus"), format!("is 1 to {MOST_CPUS}")));
            }
        }
        None
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(allowed)
}

impl DeviceKind {
    /// Returns the name of the kind in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Nvdimm => "nvdimm",
            DeviceKind::Ivshmem => "ivshmem",
            DeviceKind::IvshmemDoorbell => "ivshmem-doorbell",
        }
    }

    /// Returns whether hosts see the device as a PCI device, whose memory is `resource2`.
    pub(crate) fn is_on_bus(self) -> bool {
        matches!(self, DeviceKind::Ivshmem | DeviceKind::IvshmemDoorbell)
    }
}

impl SharedDevice {
    /// Returns the size of the memory of the device: the bytes that hosts can use, and the header.
    pub fn file_bytes(&self) -> u64 {
        self.data_offset() + self.bytes.get()
    }

    /// Returns the offset of the first byte that hosts can use, in bytes.
    pub fn data_offset(&self) -> u64 {
        if self.kind.is_on_bus() { 0 } else { DATA_OFFSET }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_rack::Overrides;

    fn read(text: &str) -> Result<GuestRack, String> {
        let scenario = Scenario::parse("rack.toml", text, &Overrides::none()).unwrap();
        assert!(GuestRack::is_of(&scenario));
        GuestRack::read(&scenario).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_have_defaults() {
        let rack =
            read("[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\nmemory = \"1GiB\"\ncpus = 2\n").unwrap();
        assert_eq!(rack.device, SharedDevice { bytes: Bytes::new(256 << 20), kind: DeviceKind::Nvdimm });
        let sizes: Vec<_> = rack.host.iter().map(|host| (host.memory.get() >> 20, host.cpus)).collect();
        assert_eq!(sizes, [(768, 1), (1024, 2)]);
    }

    #[test]
    fn errors_show_the_line() {
        let cases = [
            ("[[host]]\nname = \"a\"\nmemmory = \"1GiB\"\n", "did you mean `memory`?\n --> rack.toml:3:1\n"),
            ("[device]\nkind = \"nvdim\"\n[[host]]\nname = \"a\"\n", "`nvdimm`?\n --> rack.toml:2:8\n"),
            ("[[host]]\ncpus = 1\n", "name"),
            (
                "[[host]]\nname = \"a b\"\n",
                "letters, digits and `-`, and begins with a letter\n --> rack.toml:2:8\n",
            ),
            ("[[host]]\nname = \"a\"\n[[host]]\nname = \"a\"\n", "another host\n --> rack.toml:4:8\n"),
            ("[[host]]\nname = \"a\"\nmemory = \"1MiB\"\n", "is 256 MiB to 1 TiB\n --> rack.toml:3:10\n"),
            ("[[host]]\nname = \"a\"\ncpus = 0\n", "is 1 to 64\n --> rack.toml:3:8\n"),
            (
                "device.bytes = \"3MiB\"\n[[host]]\nname = \"a\"\n",
                "multiple of 2 MiB, at most 1 TiB\n --> rack.toml:1:16\n",
            ),
            (
                "device = { bytes = \"6MiB\", kind = \"ivshmem\" }\n[[host]]\nname = \"a\"\n",
                "a power of two for an `ivshmem`\n --> rack.toml:1:20\n",
            ),
            (
                "device = { bytes = \"6MiB\", kind = \"ivshmem-doorbell\" }\n[[host]]\nname = \"a\"\n",
                "a power of two for an `ivshmem-doorbell`\n --> rack.toml:1:20\n",
            ),
            ("host = []\n", "needs 1 to 16 hosts\n --> rack.toml:1:8\n"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
