//! Performs operations in batches: sends one operation on each connection, and then reads all answers.

use super::connection::Connection;
use super::options::{Args, Store};
use super::record::FIELDS;
use super::server::Server;
use super::{memcached, redis};
use crate::ProgramError;
use unrack_basis::SplitMix64;
use unrack_workload::ycsb::{CoreWorkload, Operations, RecordKey, RecordOperation};

/// Number of records that were read, and total bytes of their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub records: u64,
    pub bytes: u64,
}

pub(super) struct Driver {
    store: Store,
    connections: Vec<Connection>,
    /// Number of records that were loaded or inserted.
    records: u64,
    seed: u64,
    /// Generator for the fields to update and their contents.
    random: SplitMix64,
    pub read: Read,
}

/// The answers that an operation expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Written(u32),
    Record,
    RecordAndWritten,
    Keys,
}

impl Driver {
    pub(super) fn connect(server: &Server, args: &Args) -> Result<Driver, ProgramError> {
        let open = |_| Connection::open(&server.socket());
        let connections = (0..args.connections).map(open).collect::<Result<_, _>>()?;
        let (records, seed) = (args.records, args.seed);
        let random = SplitMix64::new(seed);
        Ok(Driver { store: server.store, connections, records, seed, random, read: Read::default() })
    }

    /// Writes all records.
    pub(super) fn load(&mut self) -> Result<(), ProgramError> {
        for first in (0..self.records).step_by(self.connections.len()) {
            let batch = (first..self.records).map(|record| (RecordOperation::Insert, record, 0));
            self.batch(batch.take(self.connections.len()).collect())?;
        }
        Ok(())
    }

    /// Performs operations of a workload. Each insert is a separate batch; together with other operations, it would depend on timing in the
    /// store whether a scan finds the inserted record.
    pub(super) fn run(&mut self, workload: CoreWorkload, operations: u64) -> Result<(), ProgramError> {
        let mut drawn = Operations::new(workload, self.records, self.seed);
        let mut batch = Vec::new();
        for _ in 0..operations {
            let (operation, record) = drawn.draw();
            let length = if operation == RecordOperation::Scan { drawn.draw_length() } else { 0 };
            let is_insert = operation == RecordOperation::Insert;
            if is_insert {
                self.batch(std::mem::take(&mut batch))?;
                self.records += 1;
            }
            batch.push((operation, record, length));
            if is_insert || batch.len() == self.connections.len() {
                self.batch(std::mem::take(&mut batch))?;
            }
        }
        self.batch(batch)
    }

    /// Performs one operation on each connection. An operation is given as its kind, its record, and the length of a scan.
    fn batch(&mut self, batch: Vec<(RecordOperation, u64, u64)>) -> Result<(), ProgramError> {
        let mut waited = Vec::new();
        for (at, (operation, record, length)) in batch.into_iter().enumerate() {
            waited.push(self.begin(at, operation, record, length)?);
        }
        for (at, answers) in waited.into_iter().enumerate() {
            self.end(at, answers)?;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        at: usize,
        operation: RecordOperation,
        record: u64,
        length: u64,
    ) -> Result<Answers, ProgramError> {
        let key = RecordKey::for_record(record);
        let (field, seed) = ((self.random.next_u64() % FIELDS as u64) as usize, self.random.next_u64());
        let to = &mut self.connections[at];
        let answers = match (self.store, operation) {
            (Store::Redis, RecordOperation::Insert) => {
                redis::insert(to, &key, seed);
                Answers::Written(2)
            }
            (Store::Redis, RecordOperation::Update) => {
                redis::update(to, &key, field, seed);
                Answers::Written(1)
            }
            (Store::Redis, RecordOperation::ReadModifyWrite) => {
                redis::read(to, &key);
                redis::update(to, &key, field, seed);
                Answers::RecordAndWritten
            }
            (Store::Redis, RecordOperation::Read) => {
                redis::read(to, &key);
                Answers::Record
            }
            (Store::Redis, RecordOperation::Scan) => {
                redis::find(to, &key, length);
                Answers::Keys
            }
            (Store::Memcached, RecordOperation::Insert | RecordOperation::Update) => {
                memcached::write(to, &key, seed);
                Answers::Written(1)
            }
            (Store::Memcached, RecordOperation::ReadModifyWrite) => {
                memcached::read(to, &key);
                memcached::write(to, &key, seed);
                Answers::RecordAndWritten
            }
            (Store::Memcached, RecordOperation::Read | RecordOperation::Scan) => {
                memcached::read(to, &key);
                Answers::Record
            }
        };
        to.send()?;
        Ok(answers)
    }

    fn end(&mut self, at: usize, answers: Answers) -> Result<(), ProgramError> {
        let (from, read) = (&mut self.connections[at], &mut self.read);
        let (record, written): (Reads, Writes) = match self.store {
            Store::Redis => (redis::record, redis::written),
            Store::Memcached => (memcached::record, memcached::written),
        };
        match answers {
            Answers::Written(count) => (0..count).try_for_each(|_| written(from)),
            Answers::Record => record(from, read),
            Answers::RecordAndWritten => {
                record(from, read)?;
                written(from)
            }
            Answers::Keys => {
                let keys = redis::keys(from)?;
                keys.iter().for_each(|key| redis::read(from, key));
                from.send()?;
                keys.iter().try_for_each(|_| record(from, read))
            }
        }
    }
}

/// Functions that read the answer to a read and the answer to a write.
type Reads = fn(&mut Connection, &mut Read) -> Result<(), ProgramError>;
type Writes = fn(&mut Connection) -> Result<(), ProgramError>;
