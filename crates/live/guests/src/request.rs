//! Requests to the process of a rack, and its replies: JSON, a line each way, on the socket of the rack's folder.

use crate::accelerator::Accelerator;
use crate::scenario::DeviceKind;
use serde::{Deserialize, Serialize};

/// Request to the rack's process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    List,
    /// Frames of one program follow ([`crate::wire`]).
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
    /// Kills its virtual machine, as a loss of power does.
    Kill,
    /// Stops its processors.
    Stop,
    /// Lets its processors go on.
    Cont,
    /// Boots it again after it was killed.
    Boot,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Hosts(Box<RackStatus>),
    /// The request makes no sense at this time.
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
    /// Bytes that hosts can use.
    pub bytes: u64,
    /// Path of the device in every host.
    pub path: String,
    /// File by which processes of this machine reach the same memory.
    pub file: String,
    /// Offset in that file of the device's first byte, in bytes.
    pub file_offset: u64,
}

/// State of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostStatus {
    pub name: String,
    pub state: HostState,
    /// Process of its virtual machine.
    pub pid: Option<i32>,
    /// Memory of its own, in bytes.
    pub memory_bytes: u64,
    pub cpus: u32,
    /// Seconds from start to the agent's greeting, of the last boot.
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
