//! The accounting behind the authors' figures 6 and 7 (artifact `wegul/EDM`, folder `hwsimu`): only its parameters, which are
//! facts, are taken from there.
//!
//! Figure 6 (`hwsimu/src/utilization.cpp`): a line carries columns of 8 B, one in each cycle of 2.56 ns. A request occupies columns of
//! the compute node's line; its answer and its acknowledgement occupy none. The result is the number of writes per microsecond.
//!
//! Figure 7 (`hwsimu/include/{edm,numa,rdma}.h`, with the order of steps in `hwsimu/src/{EDM,NUMA,RDMA}.cpp`): a request takes a fixed
//! number of cycles, which differs between reads and writes, plus the cycles of DRAM.

use unrack_units::Time;

/// Time of a column: [`CYCLE`] in nanoseconds.
pub(super) const CYCLE: Time = Time::from_ps(2_560);

/// Columns of the compute node's line that a read and a write take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    read: f64,
    write: f64,
}

/// Whole columns of the 100 B of a write: the authors' division drops the rest.
const WRITE_DATA: f64 = 12.0;
/// EDM: the address and one column for a read; also the notification for a write.
pub(super) const EDM: Columns = Columns { read: 2.0, write: WRITE_DATA + 3.0 };
/// RDMA: 64 B and 1.5 columns of gap for a read; ten columns of headers, and the gap, for a write.
pub(super) const RDMA: Columns = Columns { read: 9.5, write: WRITE_DATA + 11.5 };

/// Reads and writes of the authors' traces of A, B and F (`hwsimu/db/run_{A,B,F}.csv`).
pub(super) const TRACES: [(&str, [f64; 2]); 3] =
    [("a", [491.0, 509.0]), ("b", [951.0, 49.0]), ("f", [1000.0, 481.0])];

impl Columns {
    /// Returns million writes per second, if the line carries nothing but these requests.
    pub(super) fn million_writes(self, [reads, writes]: [f64; 2]) -> f64 {
        writes / ((reads * self.read + writes * self.write) * CYCLE.as_ns_f64() / 1e3)
    }
}

/// Cycles of DRAM of a local access.
const DRAM: u64 = 32;

/// Latencies of a stack in the authors' simulator, in cycles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycles {
    read: u64,
    write: u64,
}

/// Steps of the authors' EDM (`edm.h`, `EDM.cpp`).
pub(super) fn edm() -> Cycles {
    const XCVR: u64 = 7;
    const PD: u64 = 5;
    const SYNC_FIFO: u64 = 4;
    const PCS: u64 = 2;
    const SCHEDULER: u64 = 10;
    let (to_switch, through_switch, from_switch) = (PCS + XCVR + PD, 2 * PCS + 2 * XCVR + PD, PCS + XCVR);
    let way = to_switch + through_switch + from_switch;
    // Two blocks of the request, the notification queue, and the scheduler, before the request leaves.
    let request = 2 + 1 + SCHEDULER + way;
    let serve = (1 + SYNC_FIFO + 1 + 1) + DRAM + 1;
    let send = 2 + 1;
    let store = DRAM + 1 + 2;
    // A notification's way to the switch and the grant's way back, or the read of the data from DRAM if that takes longer.
    let granted = PCS + XCVR + PD + SCHEDULER + through_switch + PCS + XCVR + SYNC_FIFO + 1 + 1;
    Cycles { read: request + serve + send + way + store, write: 2 + granted.max(DRAM) + send + way + store }
}

/// Steps of the authors' CXL (`numa.h`, `NUMA.cpp`): a switch of 44 cycles, which a read crosses twice.
pub(super) fn cxl() -> Cycles {
    const SWITCH: u64 = 44;
    // Every request waits one cycle in the work queue.
    Cycles { read: 1 + 2 * SWITCH + DRAM + DRAM, write: 1 + DRAM + SWITCH + DRAM }
}

/// Steps of the authors' RDMA (`rdma.h`, `RDMA.cpp`).
pub(super) fn rdma() -> Cycles {
    const XCVR: u64 = 8;
    const PD: u64 = 5;
    const TABLE: u64 = 7;
    const STACK: u64 = 90;
    /// DRAM has 30 cycles in this header, and 32 in the others.
    const RDMA_DRAM: u64 = 30;
    // `NET_DELAY` is written as `2 + 3` without parentheses, so that twice this delay is 2 * 2 + 3.
    const MAC_AND_PCS: u64 = 2 + 3;
    const SWITCH: u64 = 2 * 2 + 3 + 157;
    let way = (MAC_AND_PCS + XCVR + PD) + (SWITCH + 2 * XCVR + PD) + (MAC_AND_PCS + XCVR);
    let send = 1 + STACK + RDMA_DRAM + 2 + TABLE;
    let store = RDMA_DRAM + STACK + 2 + TABLE;
    let request = 2 + STACK + 1 + TABLE;
    let serve = STACK + 2 + TABLE + RDMA_DRAM + TABLE;
    Cycles { read: request + way + serve + send + way + store, write: 2 + send + way + store }
}

/// Split of objects in the authors' traces (`hwsimu/scripts/gen_trace.sh`): local objects for one remote object, by the name of the
/// split in the figure.
pub(super) const SPLITS: [(&str, f64); 5] =
    [("100_10", 10.0), ("66_34", 2.0), ("50_50", 1.0), ("34_66", 0.5), ("10_100", 0.1)];

impl Cycles {
    /// Returns the mean latency in nanoseconds of the trace of A, if a share of `local / (local + 1)` of the requests is local.
    pub(super) fn mean_ns(self, local: f64) -> f64 {
        let [reads, writes] = TRACES[0].1;
        let remote = (self.read as f64 * reads + self.write as f64 * writes) / (reads + writes);
        (remote + DRAM as f64 * local) / (local + 1.0) * CYCLE.as_ns_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The traces have the shares of writes of §4.2.2, within the authors' draw of 1,000 requests.
    #[test]
    fn traces_have_the_shares_of_the_paper() {
        for ((name, [reads, writes]), share) in TRACES.into_iter().zip([0.5, 0.05, 1.0 / 3.0]) {
            let ours = writes / (reads + writes);
            assert!((ours - share).abs() < 0.02, "{name}: {ours}");
        }
    }

    /// Without remote objects, latency is that of local DRAM, which the artifact gives as 82 ns; with all objects remote it is a
    /// stack's own.
    #[test]
    fn splits_end_at_local_and_at_remote() {
        for stack in [edm(), cxl(), rdma()] {
            assert!((stack.mean_ns(1e12) - 81.92).abs() < 1e-6);
            let remote = [stack.read, stack.write].map(|cycles| cycles as f64 * CYCLE.as_ns_f64());
            let all = stack.mean_ns(0.0);
            assert!(all >= remote[0].min(remote[1]) && all <= remote[0].max(remote[1]));
        }
    }

    /// A line that carries only writes is full of their columns.
    #[test]
    fn writes_alone_fill_the_line() {
        for columns in [EDM, RDMA] {
            let writes = columns.million_writes([0.0, 1.0]);
            assert!((writes * columns.write * CYCLE.as_ns_f64() - 1e3).abs() < 1e-6);
        }
    }
}
