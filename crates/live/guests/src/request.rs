//! Requests to the process of a rack, and its replies. They are JSON, one line each, on the socket in the rack's folder.

use crate::accelerator::Accelerator;
use crate::scenario::DeviceKind;
use serde::{Deserialize, Serialize};

/// Request to the rack's process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    List,
    /// Runs a program. Frames of the program follow ([`crate::wire`]).
    Exec {
        host: String,
    },
    Change {
        host: String,
        change: HostChange,
    },
    /// Asks the rack to end.
    Leave,
}

/// Change of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostChange {
    /// Kills the virtual machine, like a loss of power.
    Kill,
    /// Stops its processors.
    Stop,
    /// Lets its processors continue.
    Cont,
    /// Boots it again after it was killed.
    Boot,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Hosts(Box<RackStatus>),
    /// The request is not valid in the current state.
    Refused(String),
    Failed(String),
}

/// State of a rack of virtual machines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RackStatus {
    pub accelerator: Accelerator,
    pub device: DeviceStatus,
    pub hosts: Vec<HostStatus>,
}

/// Memory device of a rack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceStatus {
    pub kind: DeviceKind,
    /// Number of bytes that hosts can use.
    pub bytes: u64,
    /// Path of the device in every host.
    pub path: String,
    /// File through which processes of this machine access the same memory.
    pub file: String,
    /// Offset of the device's first byte in that file, in bytes.
    pub file_offset: u64,
}

/// State of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostStatus {
    pub name: String,
    pub state: HostState,
    /// Process number of its virtual machine.
    pub pid: Option<i32>,
    /// Private memory of the host, in bytes.
    pub memory_bytes: u64,
    pub cpus: u32,
    /// Duration of the last boot in seconds, from the start to the agent's greeting.
    pub boot_s: Option<f64>,
    /// File with the output of its kernel.
    pub console: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    Booting,
    Up,
    Stopped,
    Down,
}

impl HostState {
    /// Returns the state in words.
    pub fn name(self) -> &'static str {
        match self {
            HostState::Booting => "booting",
            HostState::Up => "up",
            HostState::Stopped => "stopped",
            HostState::Down => "down",
        }
    }
}
