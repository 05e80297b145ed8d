//! Insides of nodes as plain data: the components of a host, and the counts of a run.

use crate::link::Link;
use std::sync::Arc;
use unrack_rack::HostSpec;
use unrack_units::Time;

/// Components inside a host; all hosts of a network are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostModel {
    pub spec: Arc<HostSpec>,
    /// CXL port of the host.
    pub cxl: Link,
}

/// Counts from inside the hosts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounts {
    /// Loads of 64 B that were looked up in the DRAM cache.
    pub loads: u64,
    /// Loads whose line was in the cache, or already being fetched.
    pub hits: u64,
    pub interrupts: u64,
    pub doorbells: u64,
    /// Packets lost because the headroom of the NIC was full.
    pub no_room: u64,
    /// Packets lost because no receive descriptor was posted.
    pub no_descriptor: u64,
    /// Packets lost because no section of memory was left for a buffer.
    pub no_buffer: u64,
    /// Time that the busiest core worked.
    pub busiest: Time,
    /// Time that a core worked, as the mean over all cores.
    pub mean: Time,
    /// Bytes read or written without crossing the CXL port of a host.
    pub local_bytes: u64,
    /// Bytes read or written across the CXL port of a host.
    pub remote_bytes: u64,
}
