//! Records of the ledger.

use crate::wire::{Access, ChannelId, ClientId, Extent, PeerProcess};
use serde::{Deserialize, Serialize};

/// An object that outlives the manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LedgerRecord {
    Client(Process),
    Segment { extent: Extent, owner: Option<ClientId>, file: Option<FileIdentity> },
    Grant(GrantRecord),
    Service { name: String, by: ClientId },
    Channel(ChannelRecord),
}

/// A process. Its start time distinguishes it from later processes with the same process number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub peer: PeerProcess,
    /// Start time of the process, in clock ticks since boot.
    pub started: u64,
}

/// Identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    pub device: u64,
    pub inode: u64,
}

/// A grant of a segment to one side of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GrantRecord {
    pub offset: u64,
    pub channel: ChannelId,
    pub to: ClientId,
    pub access: Access,
}

/// A channel and the state of its two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChannelRecord {
    pub id: ChannelId,
    pub service: String,
    pub client: ClientId,
    pub server: ClientId,
    pub client_open: bool,
    pub server_open: bool,
    /// True while the service has not answered the request.
    pub asked: bool,
    pub queues: Extent,
}

/// Immutable part of a record, which identifies it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Client(ClientId),
    Segment(u64),
    Grant(u64, ChannelId, ClientId),
    Service(String),
    Channel(ChannelId),
}

impl LedgerRecord {
    /// Returns the record's key.
    pub(crate) fn key(&self) -> Key {
        match self {
            LedgerRecord::Client(process) => Key::Client(process.peer.id),
            LedgerRecord::Segment { extent, .. } => Key::Segment(extent.offset),
            LedgerRecord::Grant(granted) => Key::Grant(granted.offset, granted.channel, granted.to),
            LedgerRecord::Service { name, .. } => Key::Service(name.clone()),
            LedgerRecord::Channel(pair) => Key::Channel(pair.id),
        }
    }
}
