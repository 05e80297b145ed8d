//! YCSB's core workloads: sequences of operations on records.
//!
//! The bytes moved depend on who performs the operations: YCSB's records have ten fields of 100 B, of which a read
//! takes all and an update writes one (`readallfields=true`, `writeallfields=false`).

pub mod zipf;

use self::zipf::{Zipf, scatter};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// YCSB's workloads that need no scans and no inserts (`workloads/workload[abcf]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreWorkload {
    A,
    B,
    C,
    F,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordOperation {
    Read,
    Update,
    ReadModifyWrite,
}

impl CoreWorkload {
    /// All workloads.
    pub const ALL: [CoreWorkload; 4] = [CoreWorkload::A, CoreWorkload::B, CoreWorkload::C, CoreWorkload::F];

    /// Returns the name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            CoreWorkload::A => "a",
            CoreWorkload::B => "b",
            CoreWorkload::C => "c",
            CoreWorkload::F => "f",
        }
    }

    /// Returns a short description.
    pub fn about(self) -> &'static str {
        match self {
            CoreWorkload::A => "Half reads, half updates",
            CoreWorkload::B => "95 % reads, 5 % updates",
            CoreWorkload::C => "Reads",
            CoreWorkload::F => "Half reads, half read-modify-writes",
        }
    }

    /// Returns the share of reads among the operations.
    pub fn reads(self) -> f64 {
        match self {
            CoreWorkload::A | CoreWorkload::F => 0.5,
            CoreWorkload::B => 0.95,
            CoreWorkload::C => 1.0,
        }
    }

    /// Returns the operation that is not a read.
    pub fn other(self) -> RecordOperation {
        match self {
            CoreWorkload::F => RecordOperation::ReadModifyWrite,
            _ => RecordOperation::Update,
        }
    }
}

/// Generator of operations.
pub struct Operations {
    workload: CoreWorkload,
    records: u64,
    zipf: Zipf,
    random: Pcg64Mcg,
}

impl Operations {
    /// Creates a generator over `records` records; the same seed gives the same operations.
    pub fn new(workload: CoreWorkload, records: u64, seed: u64) -> Operations {
        Operations { workload, records, zipf: Zipf::ycsb(), random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Draws an operation and the number of its record: popular ones are scattered (`requestdistribution=zipfian`).
    pub fn draw(&mut self) -> (RecordOperation, u64) {
        let read = self.random.random::<f64>() < self.workload.reads();
        let operation = if read { RecordOperation::Read } else { self.workload.other() };
        (operation, scatter(self.zipf.draw(&mut self.random)) % self.records)
    }
}

/// Key of a record, as YCSB writes it with `insertorder=hashed`.
pub struct RecordKey([u8; 24], usize);

impl RecordKey {
    /// Returns the key of a record.
    pub fn for_record(record: u64) -> RecordKey {
        use std::io::Write;
        let mut bytes = [0; 24];
        let mut left = &mut bytes[..];
        write!(left, "user{}", scatter(record)).expect("four letters and at most twenty digits");
        let length = 24 - left.len();
        RecordKey(bytes, length)
    }
}

impl std::ops::Deref for RecordKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

#[cfg(test)]
mod tests {
    use super::zipf::ZETA;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn operations_are_as_frequent_as_the_workload_says() {
        for workload in [CoreWorkload::A, CoreWorkload::B, CoreWorkload::C, CoreWorkload::F] {
            let mut operations = Operations::new(workload, 1000, 3);
            let drawn: Vec<_> = (0..50_000).map(|_| operations.draw()).collect();
            let reads = drawn.iter().filter(|(operation, _)| *operation == RecordOperation::Read).count()
                as f64
                / 50_000.0;
            let deviation = (workload.reads() * (1.0 - workload.reads()) / 50_000.0).sqrt();
            assert!((reads - workload.reads()).abs() <= 4.0 * deviation, "{workload:?}: {reads}");
            assert!(drawn.iter().all(|&(_, record)| record < 1000));
        }
    }

    /// The hottest record is that of the first rank, with the other ranks that are scattered onto it.
    #[test]
    fn the_hottest_record_is_the_first_ranks() {
        const RECORDS: u64 = 100_000;
        let mut operations = Operations::new(CoreWorkload::C, RECORDS, 5);
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..200_000 {
            *counts.entry(operations.draw().1).or_default() += 1;
        }
        let (&hottest, &count) = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert_eq!(hottest, scatter(0) % RECORDS);
        let share = f64::from(count) / 200_000.0;
        assert!((share - 1.0 / ZETA).abs() < 0.003, "{share}");
    }

    #[test]
    fn keys_differ() {
        let keys: std::collections::BTreeSet<Vec<u8>> =
            (0..10_000).map(|record| RecordKey::for_record(record).to_vec()).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.starts_with(b"user")));
    }
}
