//! Insides of nodes as plain data: what hosts are made of, and what was counted in them.

use crate::link::Link;
use std::sync::Arc;
use unrack_rack::HostSpec;
use unrack_units::Time;

/// Inside of a host; the same for every host of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    pub spec: Arc<HostSpec>,
    /// CXL port of the host.
    pub cxl: Link,
}

/// Counts from inside hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounts {
    /// Loads of 64 B that went to the DRAM cache.
    pub loads: u64,
    /// Loads that found their line in the cache or on its way.
    pub hits: u64,
    pub interrupts: u64,
    pub doorbells: u64,
    /// Packets lost because the NIC's headroom was full.
    pub no_room: u64,
    /// Packets lost because no receive descriptor was posted.
    pub no_descriptor: u64,
    /// Packets lost because no section was left for a buffer.
    pub no_buffer: u64,
    /// Time of work of the busiest core.
    pub busiest: Time,
    /// Mean time of work of all cores.
    pub mean: Time,
    /// Bytes that were read or written without crossing the CXL port of a host.
    pub local_bytes: u64,
    /// Bytes that were read or written across the CXL port of a host.
    pub remote_bytes: u64,
}
