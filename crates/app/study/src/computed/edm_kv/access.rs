//! Accesses of the workloads, and what both stacks assume about them.

use unrack_units::{Rate, Time};

/// Rate of a link (§4.1).
pub(super) const RATE: Rate = Rate::from_gbps(25);
/// Bytes of a read's answer, and below, of a write (§4.2.2).
pub(super) const READ: u16 = 1_024;
pub(super) const WRITE: u16 = 100;
/// Maximum number of requests of a compute node under way: more than either stack needs to fill a link.
pub(super) const WINDOW: usize = 64;
/// Latency of local DRAM: 40 ns to the controller, 45 ns there (Pond, ASPLOS 2023). The memory of the remote
/// node has the same latency.
pub(super) const DRAM: Time = Time::from_ns(85);

/// A memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordAccess {
    pub(super) is_read: bool,
    pub(super) record: u64,
}

/// Latency of a single read and of a single write.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnloadedLatency {
    pub(super) read: Time,
    pub(super) write: Time,
}

/// Latencies of one stack: until the first word arrives, as in table 1, and until all requested data has.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackLatency {
    pub(super) first: UnloadedLatency,
    pub(super) whole: UnloadedLatency,
}
