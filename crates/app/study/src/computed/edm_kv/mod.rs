//! EDM figures 6 and 7: YCSB on a key-value store whose memory is behind a switch (§4.2.2).
//!
//! A read transfers 1 KB, which is a record of YCSB, and a write transfers 100 B, which is one of the record's ten fields. A
//! read-modify-write consists of a read and a write, so that a third of the requests of workload F are writes, as in the paper.
//!
//! | module | |
//! |---|---|
//! | [`authors`] | the accounting behind the authors' figures |
//! | [`edm`] | EDM: blocks through the stacks of two nodes and a switch |
//! | [`rdma`] | RoCEv2: frames over a store-and-forward switch, with the latencies of table 1 |
//! | [`cxl`] | the simulator's CXL, without load |

mod access;
mod authors;
mod cxl;
mod edm;
mod rdma;

use crate::computed::Computed;
use crate::file::StudyScale;
use access::{DRAM, RecordAccess, StackLatency, UnloadedLatency};
use unrack_basis::mix;
use unrack_units::Time;
use unrack_workload::ycsb::{CoreWorkload, Operations, RecordOperation};

/// Records of the store, 1 KB each.
const RECORDS: u64 = 100_000;
const SEED: u64 = 1;
/// Weights of local and remote objects in figure 7.
const SPLITS: [(u64, u64); 5] = [(100, 10), (66, 34), (50, 50), (34, 66), (10, 100)];

/// Returns figure 6 in million writes per second: by the authors' accounting, by our blocks and frames on the compute node's own line
/// alone (`up`), and with answers and acknowledgements on their way back.
pub(super) fn throughput(scale: StudyScale) -> Computed {
    let count = match scale {
        StudyScale::Full => 20_000,
        StudyScale::Quick => 500,
    };
    let workloads = [CoreWorkload::A, CoreWorkload::B, CoreWorkload::F];
    let mean = |ratios: [f64; 3]| ratios.iter().sum::<f64>() / ratios.len() as f64;
    let mut values = Computed::new();
    let (mut over, mut over_up) = ([0.0; 3], [0.0; 3]);
    for (n, workload) in workloads.into_iter().enumerate() {
        let accesses = accesses(workload, count);
        let writes = accesses.iter().filter(|access| !access.is_read).count() as f64 / accesses.len() as f64;
        let (edm, rdma) = (edm::rate(&accesses), rdma::rate(&accesses));
        let requests_up = |up: fn(bool) -> Time| {
            1e9 / (up(true).as_ns_f64() * (1.0 - writes) + up(false).as_ns_f64() * writes)
        };
        let (edm_up, rdma_up) = (requests_up(edm::up), requests_up(rdma::up));
        (over[n], over_up[n]) = (edm / rdma, edm_up / rdma_up);
        let name = workload.name();
        values.extend([
            (format!("{name}_edm"), writes * edm / 1e6),
            (format!("{name}_rdma"), writes * rdma / 1e6),
            (format!("{name}_over"), over[n]),
            (format!("{name}_up_edm"), writes * edm_up / 1e6),
            (format!("{name}_up_rdma"), writes * rdma_up / 1e6),
            (format!("{name}_up_over"), over_up[n]),
        ]);
    }
    values.extend([("over".into(), mean(over)), ("up_over".into(), mean(over_up))]);
    let theirs = authors::TRACES.map(|(name, trace)| {
        let [edm, rdma] = [authors::EDM, authors::RDMA].map(|columns| columns.million_writes(trace));
        values.extend([
            (format!("{name}_authors_edm"), edm),
            (format!("{name}_authors_rdma"), rdma),
            (format!("{name}_authors_over"), edm / rdma),
        ]);
        edm / rdma
    });
    values.insert("authors_over".into(), mean(theirs));
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
    let theirs = [("edm", authors::edm()), ("cxl", authors::cxl()), ("rdma", authors::rdma())];
    for (name, stack) in theirs {
        let of = |(split, local): (&str, f64)| (format!("{name}_authors_{split}"), stack.mean_ns(local));
        values.extend(authors::SPLITS.map(of));
    }
    values.insert("authors_edm_over_cxl".into(), theirs[0].1.mean_ns(0.1) / theirs[1].1.mean_ns(0.1));
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
