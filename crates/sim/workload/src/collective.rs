//! Collective operations among ranks, such as an all-reduce. A rank sends data as soon as it has received the data on
//! which it depends.
//!
//! The data of a rank has `bytes` bytes, and is cut into one chunk for each rank. An operation is a sequence of steps.
//! In each step, a rank sends some chunks to some ranks, as soon as it has received all data of the previous step. A
//! repeated operation begins its next iteration when the previous iteration is complete on all ranks and each rank has
//! computed.
//!
//! | operation | messages |
//! |---|---|
//! | `ring-all-reduce` | two passes around a ring: one adds chunks, one distributes the sums (Patarasuk and Yuan, JPDC 2009) |
//! | `halving-doubling` | exchanges between ranks at halving and then doubling distances (Thakur et al., IJHPCA 2005) |
//! | `all-gather` | one pass around a ring, after which every rank has the chunks of all ranks |
//! | `all-to-all` | a chunk from every rank to every other rank, all sent at once |
//! | `parameter-server` | all other ranks send the last ranks, the servers, their parts of the data, and receive the sums |
//!
//! `halving-doubling` requires that the number of ranks is a power of two. With `parameter-server`, each server holds
//! the sum of a part of the data. The size of an operation is the size of each rank's data. For `all-gather` and
//! `all-to-all`, it is the total size of all chunks.

use crate::error::WorkloadError;
use crate::jobs::ComputedJob;
use crate::jobs::tasks::Builder;
use crate::size::MAX_BYTES;
use crate::source::TaskLoads;
use std::ops::Range;
use std::sync::Arc;
use unrack_rack::{Collective, Operation};
use unrack_units::Bytes;

/// Message that a rank sends in a step: its destination and the chunks that it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StepMessage {
    to: u32,
    chunks: Range<u32>,
}

/// Plan of a collective operation among a given number of ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollectivePlan {
    operation: Operation,
    ranks: u32,
    /// Number of ranks that are parameter servers. They have the highest rank numbers. 0 for all other operations.
    servers: u32,
}

impl CollectivePlan {
    /// Creates the plan of an operation among `ranks` ranks.
    ///
    /// # Errors
    /// If the operation is not possible among these ranks. The key in the error is relative to the table of the
    /// collective.
    pub(crate) fn new(
        operation: Operation,
        servers: Option<u32>,
        ranks: u32,
    ) -> Result<CollectivePlan, WorkloadError> {
        let refuse = |rule: &'static str, value: String| Err(WorkloadError::new("operation", rule, value));
        let servers = match operation {
            Operation::ParameterServer => servers.unwrap_or(0),
            _ => 0,
        };
        match operation {
            _ if ranks < 2 => refuse("is of at least 2 nodes", format!("of {ranks}")),
            Operation::HalvingDoubling if !ranks.is_power_of_two() => {
                refuse("is of a power of two of nodes if it is halving-doubling", format!("of {ranks}"))
            }
            Operation::ParameterServer if !(1..ranks).contains(&servers) => {
                let value = format!("{servers} of {ranks}");
                Err(WorkloadError::new("servers", "is at least 1, and leaves a node that works", value))
            }
            _ => Ok(CollectivePlan { operation, ranks, servers }),
        }
    }

    /// Returns the number of ranks that have data at the start of the operation. They have the lowest rank numbers.
    pub(crate) fn workers(&self) -> u32 {
        self.ranks - self.servers
    }

    /// Adds this operation, on data of `bytes` bytes, to the tasks of a job. A layer has one task for each rank, in the
    /// order of ranks. A rank begins the operation when its task in the layer `after` is done, and has its result when
    /// its task in the returned layer is done. If a rank adds received data to its own, its task loads the received
    /// data and the same number of bytes of its own data. Data that a rank only passes on is not loaded.
    pub(crate) fn append(&self, builder: &mut Builder, bytes: u64, after: u32) -> u32 {
        let mut before = after;
        for step in 0..self.steps() {
            let next = builder.layer(self.ranks);
            let mut came = vec![0; self.ranks as usize];
            for rank in 0..self.ranks {
                builder.after(before + rank, next + rank);
                for StepMessage { to, chunks } in self.sends(rank, step) {
                    let bytes = self.size(bytes, &chunks);
                    builder.send(before + rank, next + to, bytes);
                    came[to as usize] += bytes;
                }
            }
            if self.adds(step) {
                for (task, bytes) in (next..).zip(came) {
                    builder.loads(task, TaskLoads { came: bytes, again: bytes, ..TaskLoads::default() });
                }
            }
            before = next;
        }
        before
    }

    fn steps(&self) -> u32 {
        match self.operation {
            Operation::RingAllReduce => 2 * (self.ranks - 1),
            Operation::HalvingDoubling => 2 * self.ranks.ilog2(),
            Operation::AllGather => self.ranks - 1,
            Operation::AllToAll => 1,
            Operation::ParameterServer => 2,
        }
    }

    /// Returns whether the ranks add the data that they receive in this step to their own data.
    fn adds(&self, step: u32) -> bool {
        match self.operation {
            Operation::RingAllReduce => step < self.ranks - 1,
            Operation::HalvingDoubling => step < self.ranks.ilog2(),
            Operation::ParameterServer => step == 0,
            Operation::AllGather | Operation::AllToAll => false,
        }
    }

    /// Returns the messages that a rank sends in one step.
    fn sends(&self, rank: u32, step: u32) -> Vec<StepMessage> {
        let n = self.ranks;
        let next = (rank + 1) % n;
        let ring = |chunk: u32| vec![StepMessage { to: next, chunks: chunk..chunk + 1 }];
        match self.operation {
            // In the adding ring, the chunk that was received in the step before is passed on.
            Operation::RingAllReduce if self.adds(step) => ring((rank + n - step) % n),
            Operation::RingAllReduce => ring((rank + 1 + n - (step - (n - 1))) % n),
            Operation::AllGather => ring((rank + n - step) % n),
            Operation::HalvingDoubling => {
                let rounds = n.ilog2();
                let adds = self.adds(step);
                let distance = if adds { n >> (step + 1) } else { 1 << (step - rounds) };
                let partner = rank ^ distance;
                // While adding, the half that the partner is to sum up; afterwards, everything that this rank has
                // summed up.
                let first = if adds { partner } else { rank } & !(distance - 1);
                vec![StepMessage { to: partner, chunks: first..first + distance }]
            }
            Operation::AllToAll => {
                let others = (1..n).map(|ahead| (rank + ahead) % n);
                others.map(|to| StepMessage { to, chunks: to..to + 1 }).collect()
            }
            Operation::ParameterServer => {
                let (workers, servers) = (self.workers(), self.servers);
                let part = |server: u32| server * n / servers..(server + 1) * n / servers;
                match (rank.checked_sub(workers), step) {
                    (None, 0) => {
                        (0..servers).map(|s| StepMessage { to: workers + s, chunks: part(s) }).collect()
                    }
                    (Some(server), 1) => {
                        (0..workers).map(|to| StepMessage { to, chunks: part(server) }).collect()
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Returns the total size of some of the chunks into which data of `bytes` bytes is cut. If the chunks cannot all
    /// have the same size, their sizes differ by at most one byte.
    fn size(&self, bytes: u64, chunks: &Range<u32>) -> u64 {
        let until = |chunk: u32| u64::from(chunk) * bytes / u64::from(self.ranks);
        until(chunks.end) - until(chunks.start)
    }
}

/// Returns the job in which `ranks` ranks execute a collective operation, possibly several times.
///
/// # Errors
/// If the operation is not possible among these ranks, or if its size or its number of messages is out of bounds. The
/// key in the error is relative to the table of the collective.
pub fn job(collective: &Collective, ranks: u32) -> Result<ComputedJob, WorkloadError> {
    let Collective { operation, size, servers, iterations, compute } = *collective;
    let bytes = size.get();
    let refuse = |key, rule: &'static str, value: u64| Err(WorkloadError::new(key, rule, value));
    let plan = CollectivePlan::new(operation, servers, ranks)?;
    if !(u64::from(ranks)..=MAX_BYTES).contains(&bytes) {
        let rule = format!("is from a byte for each node to {}", Bytes::new(MAX_BYTES));
        return Err(WorkloadError::new("size", rule, size));
    }
    if iterations == 0 {
        return refuse("iterations", "is at least 1", 0);
    }
    let of = |rank| (0..plan.steps()).map(|step| plan.sends(rank, step).len() as u64).sum::<u64>();
    let total = (0..ranks).map(of).sum::<u64>() * u64::from(iterations);
    if total > u64::from(u32::MAX) {
        return refuse("iterations", "leaves less than 2^32 messages", total);
    }
    let mut builder = Builder::new();
    let first = builder.task(0, compute);
    (1..ranks).for_each(|rank| _ = builder.task(rank, compute));
    plan.append(&mut builder, bytes, first);
    let iteration = Arc::new(builder.finish());
    Ok(ComputedJob::new("collective", ranks, vec![iteration; iterations as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::run_in;
    use crate::jobs::{JobsSpec, RunningJobs};
    use crate::message::Message;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use unrack_units::{Rate, Time};

    const RING: (Operation, Option<u32>) = (Operation::RingAllReduce, None);
    const HALVING: (Operation, Option<u32>) = (Operation::HalvingDoubling, None);
    const GATHER: (Operation, Option<u32>) = (Operation::AllGather, None);
    const ALL_TO_ALL: (Operation, Option<u32>) = (Operation::AllToAll, None);

    fn parameter_server(servers: u32) -> (Operation, Option<u32>) {
        (Operation::ParameterServer, Some(servers))
    }

    fn any_operation(ranks: u32) -> impl Strategy<Value = (Operation, Option<u32>)> {
        prop_oneof![
            Just(RING),
            Just(if ranks.is_power_of_two() { HALVING } else { GATHER }),
            Just(GATHER),
            Just(ALL_TO_ALL),
            (1..ranks).prop_map(parameter_server),
        ]
    }

    fn spec((operation, servers): (Operation, Option<u32>), bytes: u64) -> Collective {
        Collective { operation, size: Bytes::new(bytes), servers, iterations: 1, compute: Time::ZERO }
    }

    /// Runs a collective operation, in which `pick` chooses the message that arrives next. Returns all messages sent,
    /// in the order of their arrival, and the time of the last wakeup.
    fn run(spec: &Collective, ranks: u32, pick: impl FnMut(usize) -> usize) -> (Vec<Message>, Time) {
        let spec = JobsSpec::collective(spec, ranks).unwrap();
        let mut jobs = RunningJobs::new(&spec, ranks.into(), Rate::from_gbps(1), false).unwrap();
        run_in(&mut jobs, pick)
    }

    /// Returns, for each rank and each chunk, the set of ranks whose contributions to the chunk have reached the rank
    /// after all steps of an operation.
    fn contributions((operation, servers): (Operation, Option<u32>), n: u32) -> Vec<Vec<BTreeSet<u32>>> {
        let plan = CollectivePlan::new(operation, servers, n).unwrap();
        let own = |rank: u32| (0..n).map(|_| BTreeSet::from([rank])).collect::<Vec<_>>();
        let mut has: Vec<_> = (0..n).map(own).collect();
        for step in 0..plan.steps() {
            let before = has.clone();
            for rank in 0..n {
                for StepMessage { to, chunks } in plan.sends(rank, step) {
                    for chunk in chunks {
                        has[to as usize][chunk as usize].extend(&before[rank as usize][chunk as usize]);
                    }
                }
            }
        }
        has
    }

    #[test]
    fn an_all_reduce_sums_up_everything_everywhere() {
        for ranks in [2u32, 3, 4, 5, 8, 16] {
            let mut operations = vec![RING];
            if ranks.is_power_of_two() {
                operations.push(HALVING);
            }
            for operation in operations {
                let has = contributions(operation, ranks);
                let all: BTreeSet<u32> = (0..ranks).collect();
                assert!(has.iter().flatten().all(|chunk| *chunk == all), "{operation:?} of {ranks}");
            }
            for servers in 1..ranks {
                let has = contributions(parameter_server(servers), ranks);
                let workers: BTreeSet<u32> = (0..ranks - servers).collect();
                for rank in &has[..(ranks - servers) as usize] {
                    assert!(rank.iter().all(|chunk| chunk.is_superset(&workers)), "{servers} of {ranks}");
                }
            }
        }
    }

    #[test]
    fn who_adds_loads_what_came() {
        let came = |operation| {
            let round = &job(&spec(operation, 8_000), 8).unwrap().rounds[0];
            (0..round.len()).map(|task| round.loads_of(task).came).sum::<u64>()
        };
        // With 8 ranks, each rank receives 7 eighths of the data; the servers receive all data of 6 workers.
        assert_eq!([RING, HALVING].map(came), [56_000; 2]);
        assert_eq!(came(parameter_server(2)), 48_000);
        assert_eq!([ALL_TO_ALL, GATHER].map(came), [0; 2]);
    }

    #[test]
    fn a_gathering_has_the_chunk_of_everybody() {
        for ranks in [2u32, 3, 7, 8] {
            let has = contributions(GATHER, ranks);
            for rank in has {
                assert!((0..ranks).all(|owner| rank[owner as usize].contains(&owner)));
            }
        }
    }

    #[test]
    fn an_all_reduce_moves_no_more_than_it_must() {
        // With either algorithm, each rank sends 2 (n - 1) / n times the size of the data.
        for operation in [RING, HALVING] {
            let (sent, _) = run(&spec(operation, 8_000_000), 8, |_| 0);
            for rank in 0..8 {
                let bytes: u64 = sent.iter().filter(|one| one.src == rank).map(|one| one.bytes).sum();
                assert_eq!(bytes, 2 * 7 * 1_000_000, "{operation:?}");
            }
        }
    }

    #[test]
    fn iterations_wait_for_everybody_and_compute() {
        let compute = Time::from_us(5);
        let spec = Collective { iterations: 3, compute, ..spec(ALL_TO_ALL, 400) };
        let (sent, last) = run(&spec, 4, |waiting| waiting - 1);
        assert_eq!((sent.len(), last), (3 * 12, compute * 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |spec: Collective, nodes| job(&spec, nodes).err().unwrap().to_string();
        assert!(refused(spec(HALVING, 100), 6).contains("power of two"));
        assert!(refused(spec(parameter_server(4), 100), 4).contains("leaves a node"));
        assert!(refused(spec(ALL_TO_ALL, 3), 4).contains("a byte for each node"));
        assert!(refused(spec(ALL_TO_ALL, 3), 1).contains("2 nodes"));
    }

    proptest! {
        /// Every message is sent exactly once, regardless of how long messages take.
        #[test]
        fn any_order_of_arrival_comes_to_an_end(
            (ranks, operation) in (2u32..10).prop_flat_map(|ranks| (Just(ranks), any_operation(ranks))),
            bytes in 10u64..10_000,
            picks in prop::collection::vec(any::<usize>(), 1..50),
        ) {
            let mut picks = picks.into_iter().cycle();
            let (mut sent, _) = run(&spec(operation, bytes), ranks, |_| picks.next().unwrap());
            let mut expected = run(&spec(operation, bytes), ranks, |_| 0).0;
            let key = |message: &Message| (message.src, message.dst, message.tag, message.bytes);
            sent.sort_by_key(key);
            expected.sort_by_key(key);
            prop_assert_eq!(sent, expected);
        }
    }
}
