//! Core workloads of YCSB (Yahoo! Cloud Serving Benchmark): sequences of operations on records.
//!
//! An operation names a record, and the code that executes it decides how many bytes it moves. In YCSB, a record has
//! ten fields of 100 B. A read returns all fields, and an update writes one field (`readallfields=true`,
//! `writeallfields=false`).

pub mod zipf;

use self::zipf::{Zipf, scatter};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Core workloads of YCSB (`workloads/workload[a-f]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreWorkload {
    A,
    B,
    C,
    D,
    E,
    F,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordOperation {
    Read,
    Update,
    ReadModifyWrite,
    /// Write of a new record.
    Insert,
    /// Read of several consecutive records in the order of their keys, beginning with the drawn record; see
    /// [`Operations::draw_length`].
    Scan,
}

/// Maximum number of records that a scan reads (`maxscanlength`).
const LONGEST_SCAN: u64 = 100;

impl CoreWorkload {
    /// All workloads, in the order in which YCSB's authors run them. The workloads that insert records come last,
    /// because the inserted records remain in the store.
    pub const ALL: [CoreWorkload; 6] = [
        CoreWorkload::A,
        CoreWorkload::B,
        CoreWorkload::C,
        CoreWorkload::F,
        CoreWorkload::D,
        CoreWorkload::E,
    ];
    /// Workloads that have neither inserts nor scans.
    pub const FIXED: [CoreWorkload; 4] = [CoreWorkload::A, CoreWorkload::B, CoreWorkload::C, CoreWorkload::F];

    /// Returns the name of the workload in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            CoreWorkload::A => "a",
            CoreWorkload::B => "b",
            CoreWorkload::C => "c",
            CoreWorkload::D => "d",
            CoreWorkload::E => "e",
            CoreWorkload::F => "f",
        }
    }

    /// Returns a short description of the workload.
    pub fn about(self) -> &'static str {
        match self {
            CoreWorkload::A => "Half reads, half updates",
            CoreWorkload::B => "95 % reads, 5 % updates",
            CoreWorkload::C => "Reads",
            CoreWorkload::D => "95 % reads of the newest records, 5 % inserts",
            CoreWorkload::E => "95 % scans, 5 % inserts",
            CoreWorkload::F => "Half reads, half read-modify-writes",
        }
    }

    /// Returns the fraction of operations that are reads or, in a workload with scans, that are scans.
    pub fn reads(self) -> f64 {
        match self {
            CoreWorkload::A | CoreWorkload::F => 0.5,
            CoreWorkload::B | CoreWorkload::D | CoreWorkload::E => 0.95,
            CoreWorkload::C => 1.0,
        }
    }

    /// Returns the kind of operation of this workload that only reads: a read or a scan.
    pub fn reading(self) -> RecordOperation {
        match self {
            CoreWorkload::E => RecordOperation::Scan,
            _ => RecordOperation::Read,
        }
    }

    /// Returns the kind of operation of this workload that writes.
    pub fn other(self) -> RecordOperation {
        match self {
            CoreWorkload::F => RecordOperation::ReadModifyWrite,
            CoreWorkload::D | CoreWorkload::E => RecordOperation::Insert,
            _ => RecordOperation::Update,
        }
    }
}

/// Generator that draws the operations of a workload.
pub struct Operations {
    workload: CoreWorkload,
    records: u64,
    zipf: Zipf,
    random: Pcg64Mcg,
}

impl Operations {
    /// Creates a generator of operations on a store of `records` records. The same seed yields the same operations.
    pub fn new(workload: CoreWorkload, records: u64, seed: u64) -> Operations {
        Operations { workload, records, zipf: Zipf::ycsb(), random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Draws an operation and the number of the record that it accesses. The popular records are scattered over all
    /// records (`requestdistribution=zipfian`). In workload D, the newest records are popular instead (`latest`). An
    /// insert receives the number after the last record.
    ///
    /// Departure: in workload D, the rank of a record is drawn from all [`zipf::RANKS`] ranks, modulo the number of
    /// records. In YCSB, it is drawn from a number of ranks that is equal to the number of records.
    pub fn draw(&mut self) -> (RecordOperation, u64) {
        let is_read = self.random.random::<f64>() < self.workload.reads();
        let rank = self.zipf.draw(&mut self.random);
        if !is_read && self.workload.other() == RecordOperation::Insert {
            self.records += 1;
            return (RecordOperation::Insert, self.records - 1);
        }
        let operation = if is_read { self.workload.reading() } else { self.workload.other() };
        let record = match self.workload {
            CoreWorkload::D => self.records - 1 - rank % self.records,
            _ => scatter(rank) % self.records,
        };
        (operation, record)
    }

    /// Draws the number of records that a scan reads, uniformly from 1 to 100 (`scanlengthdistribution=uniform`).
    pub fn draw_length(&mut self) -> u64 {
        self.random.random_range(1..=LONGEST_SCAN)
    }
}

/// Key of a record, as text in the form that YCSB uses with `insertorder=hashed`.
pub struct RecordKey([u8; 24], usize);

impl RecordKey {
    /// Returns the key of the record with this number.
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
        for workload in CoreWorkload::ALL {
            let mut operations = Operations::new(workload, 1000, 3);
            let drawn: Vec<_> = (0..50_000).map(|_| operations.draw()).collect();
            let reads = drawn.iter().filter(|(operation, _)| *operation == workload.reading()).count() as f64
                / 50_000.0;
            let deviation = (workload.reads() * (1.0 - workload.reads()) / 50_000.0).sqrt();
            assert!((reads - workload.reads()).abs() <= 4.0 * deviation, "{workload:?}: {reads}");
            let inserts: Vec<u64> = drawn
                .iter()
                .filter(|(operation, _)| *operation == RecordOperation::Insert)
                .map(|drawn| drawn.1)
                .collect();
            assert!(drawn.iter().all(|&(_, record)| record < 1000 + inserts.len() as u64));
            assert!(inserts.iter().copied().eq(1000..1000 + inserts.len() as u64), "one after the other");
        }
    }

    #[test]
    fn the_newest_records_are_read_most() {
        let mut operations = Operations::new(CoreWorkload::D, 1000, 3);
        let mut newest = 999;
        let mut ages = [0u32; 2];
        for _ in 0..50_000 {
            match operations.draw() {
                (RecordOperation::Insert, record) => newest = record,
                (_, record) => {
                    if let Some(count) = ages.get_mut((newest - record) as usize) {
                        *count += 1;
                    }
                }
            }
        }
        let share = f64::from(ages[0]) / (50_000.0 * 0.95);
        assert!((share - 1.0 / ZETA).abs() < 0.005, "{share}");
        assert!(ages[0] > ages[1] && ages[1] > 0);
    }

    #[test]
    fn scans_have_all_lengths() {
        let mut operations = Operations::new(CoreWorkload::E, 1000, 3);
        let lengths: std::collections::BTreeSet<u64> =
            (0..10_000).map(|_| operations.draw_length()).collect();
        assert_eq!((lengths.first(), lengths.last(), lengths.len()), (Some(&1), Some(&100), 100));
    }

    /// The hottest record is the record onto which the first rank is scattered. Its probability also includes those of
    /// the other ranks that are scattered onto the same record.
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
