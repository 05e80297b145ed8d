//! EDM figures 6 and 7: YCSB on a key-value store whose memory is behind a switch (§4.2.2).
//!
//! A read transfers 1 KB, which is a record of YCSB, and a write transfers 100 B, which is one of the record's ten fields. A
//! read-modify-write consists of a read and a write, so that a third of the requests of workload F are writes, as in the paper.
//!
//! | module | |
//! |---|---|
//! | [`edm`] | EDM: blocks through the stacks of two nodes and a switch |
//! | [`rdma`] | RoCEv2: frames over a store-and-forward switch, with the latencies of table 1 |
//! | [`cxl`] | the simulator's CXL, without load |

mod access;
mod cxl;
mod edm;
mod rdma;

use crate::computed::Computed;
use crate::file::StudyScale;
use access::{DRAM, RecordAccess, StackLatency, UnloadedLatency, WRITE};
use unrack_basis::mix;
use unrack_units::Time;
use unrack_workload::ycsb::{CoreWorkload, Operations, RecordOperation};

/// Records of the store, 1 KB each.
const RECORDS: u64 = 100_000;
const SEED: u64 = 1;
/// Weights of local and remote objects in figure 7.
const SPLITS: [(u64, u64); 5] = [(100, 10), (66, 34), (50, 50), (34, 66), (10, 100)];

/// Returns figure 6: million requests per second over both directions of the links, and what the compute node's own
/// line alone would allow.
pub(super) fn throughput(scale: StudyScale) -> Computed {
    let count = match scale {
        StudyScale::Full => 20_000,
        StudyScale::Quick => 500,
    };
    let workloads = [CoreWorkload::A, CoreWorkload::B, CoreWorkload::F];
    let mut values = Computed::new();
    let (mut over, mut over_up) = (0.0, 0.0);
    for workload in workloads {
        let accesses = accesses(workload, count);
        let writes = accesses.iter().filter(|access| !access.is_read).count() as f64 / accesses.len() as f64;
        let (edm, rdma) = (edm::rate(&accesses), rdma::rate(&accesses));
        let per_request = |up: fn(bool) -> Time| {
            (up(true).as_ns_f64() * (1.0 - writes) + up(false).as_ns_f64() * writes) / 1e9
        };
        let (edm_up, rdma_up) = (per_request(edm::up), per_request(rdma::up));
        let goodput = |seconds: f64| writes * f64::from(WRITE) * 8.0 / seconds / 1e9;
        over += edm / rdma / workloads.len() as f64;
        over_up += rdma_up / edm_up / workloads.len() as f64;
        let name = workload.name();
        values.extend([
            (format!("{name}_writes"), writes),
            (format!("{name}_edm"), edm / 1e6),
            (format!("{name}_rdma"), rdma / 1e6),
            (format!("{name}_over"), edm / rdma),
            (format!("{name}_up_over"), rdma_up / edm_up),
            (format!("{name}_up_edm_gbps"), goodput(edm_up)),
            (format!("{name}_up_rdma_gbps"), goodput(rdma_up)),
        ]);
    }
    values.extend([("over".into(), over), ("up_over".into(), over_up)]);
    values
}

/// Returns the values of figure 7: mean latency in nanoseconds for each split of objects between local and remote memory, with one
/// request at a time.
pub(super) fn latency(scale: StudyScale) -> Computed {
    let count = match scale {
        StudyScale::Full => 200_000,
        StudyScale::Quick => 20_000,
    };
    let accesses = accesses(CoreWorkload::A, count);
    let stacks = [("edm", edm::latency()), ("cxl", cxl::latency()), ("rdma", rdma::latency())];
    let mut values = Computed::new();
    let mut most = [0.0_f64; 2];
    for (local, remote) in SPLITS {
        let is_remote = |record: u64| mix(record) % (local + remote) < remote;
        let mean = |alone: UnloadedLatency| {
            let of = |access: &RecordAccess| match (is_remote(access.record), access.is_read) {
                (false, _) => DRAM,
                (true, true) => alone.read + DRAM,
                (true, false) => alone.write + DRAM,
            };
            accesses.iter().map(|access| of(access).as_ns_f64()).sum::<f64>() / accesses.len() as f64
        };
        let [(_, edm), (_, cxl), _] = stacks;
        most[0] = most[0].max(mean(edm.first) / mean(cxl.first));
        most[1] = most[1].max(mean(edm.whole) / mean(cxl.whole));
        for (name, latency) in stacks {
            values.insert(format!("{name}_first_{local}_{remote}"), mean(latency.first));
            values.insert(format!("{name}_{local}_{remote}"), mean(latency.whole));
        }
    }
    let [(_, edm), (_, cxl), _] = stacks;
    let read = |latency: StackLatency| (latency.first.read + DRAM).as_ns_f64();
    values.insert("edm_over_cxl_read".into(), read(edm) / read(cxl));
    values.insert("edm_over_cxl_first".into(), most[0]);
    values.insert("edm_over_cxl".into(), most[1]);
    values
}

/// Returns the memory accesses of a workload.
fn accesses(workload: CoreWorkload, operations: usize) -> Vec<RecordAccess> {
    let mut of = Operations::new(workload, RECORDS, SEED);
    let mut accesses = Vec::with_capacity(2 * operations);
    for _ in 0..operations {
        let (operation, record) = of.draw();
        if operation != RecordOperation::Update {
            accesses.push(RecordAccess { is_read: true, record });
        }
        if operation != RecordOperation::Read {
            accesses.push(RecordAccess { is_read: false, record });
        }
    }
    accesses
}

#[cfg(test)]
mod tests {
    use super::access::{RATE, READ};
    use super::*;

    /// §4.2.2: "A: 50% write, B: 5% write, and F: 33% write".
    #[test]
    fn writes_are_as_frequent_as_the_paper_says() {
        for (workload, share) in
            [(CoreWorkload::A, 0.5), (CoreWorkload::B, 0.05), (CoreWorkload::F, 1.0 / 3.0)]
        {
            let accesses = accesses(workload, 40_000);
            let writes = accesses.iter().filter(|access| !access.is_read).count();
            let ours = writes as f64 / accesses.len() as f64;
            assert!((ours - share).abs() < 0.01, "{workload:?}: {ours}");
        }
    }

    /// No stack carries more than its links allow: the requests in one direction, and 1 KB for each read in the other.
    #[test]
    fn no_rate_is_above_that_of_the_links() {
        for workload in [CoreWorkload::A, CoreWorkload::B, CoreWorkload::F] {
            let accesses = accesses(workload, 500);
            let reads = accesses.iter().filter(|access| access.is_read).count() as f64;
            let all = accesses.len() as f64;
            let answers = RATE.as_bps() as f64 / 8.0 / f64::from(READ) * all / reads;
            for (rate, up) in
                [(edm::rate(&accesses), edm::up as fn(bool) -> Time), (rdma::rate(&accesses), rdma::up)]
            {
                let asked =
                    all / (up(true).as_ns_f64() * reads + up(false).as_ns_f64() * (all - reads)) * 1e9;
                assert!(rate < answers.min(asked) * 1.01, "{workload:?}: {rate} of {answers} and {asked}");
                assert!(rate > 0.5 * answers.min(asked), "{workload:?}: {rate} of {answers} and {asked}");
            }
        }
    }

    /// The totals in table 1 equal our latencies until the first word of 64 B, except for rounding.
    #[test]
    fn first_words_are_as_late_as_table_1_says() {
        let edm = edm::latency().first;
        assert_eq!((edm.read.as_ps(), edm.write.as_ps()), (299_520, 296_960));
        let rdma = rdma::latency().first;
        assert_eq!((rdma.read.as_ps(), rdma.write.as_ps()), (2_035_680, 1_017_840));
    }
}
