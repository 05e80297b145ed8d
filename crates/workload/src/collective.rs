//! Collective operations: what each node may send depends on what it has got.
//!
//! Data of `bytes` is cut into as many chunks as there are ranks; a rank is a node, in the order of their numbers. An
//! operation is a number of steps: in each, a rank sends some chunks to some ranks, as soon as all that it gets in the
//! step before has arrived. An iteration begins when the one before is complete everywhere and each rank has computed.

use crate::error::WorkloadError;
use crate::message::{Message, NodeId};
use crate::size::MAX_BYTES;
use crate::source::{Outbox, Source};
use std::ops::Range;
use unrack_units::Time;

/// What is done together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Everybody gets the sum: a ring that adds, and one that tells (Patarasuk and Yuan, JPDC 2009).
    RingAllReduce,
    /// The same by exchanges at halving and doubling distances (Thakur et al., IJHPCA 2005). A power of two of ranks.
    HalvingDoubling,
    /// Everybody gets the chunk of everybody, by a ring.
    AllGather,
    /// Everybody has a chunk for everybody; all at once.
    AllToAll,
    /// The last ranks hold a part of the data each: all others send theirs to them, and get the sum.
    ParameterServer { servers: u32 },
}

/// What is asked of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveSpec {
    pub operation: Operation,
    /// Of each rank's data; of [`Operation::AllGather`] and [`Operation::AllToAll`], of all chunks together.
    pub bytes: u64,
    pub iterations: u32,
    /// What each rank computes before an iteration.
    pub compute: Time,
}

/// A message of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    to: NodeId,
    chunks: Range<u32>,
}

/// An operation among so many ranks.
#[derive(Debug, Clone, Copy)]
struct Plan {
    operation: Operation,
    ranks: u32,
    bytes: u64,
}

impl Plan {
    fn steps(&self) -> u32 {
        match self.operation {
            Operation::RingAllReduce => 2 * (self.ranks - 1),
            Operation::HalvingDoubling => 2 * self.ranks.ilog2(),
            Operation::AllGather => self.ranks - 1,
            Operation::AllToAll => 1,
            Operation::ParameterServer { .. } => 2,
        }
    }

    /// What a rank sends in a step.
    fn sends(&self, rank: u32, step: u32) -> Vec<Sent> {
        let n = self.ranks;
        let next = (rank + 1) % n;
        let ring = |chunk: u32| vec![Sent { to: next, chunks: chunk..chunk + 1 }];
        match self.operation {
            // Adds on the way: the chunk that came in the step before goes on.
            Operation::RingAllReduce if step < n - 1 => ring((rank + n - step) % n),
            Operation::RingAllReduce => ring((rank + 1 + n - (step - (n - 1))) % n),
            Operation::AllGather => ring((rank + n - step) % n),
            Operation::HalvingDoubling => {
                let rounds = n.ilog2();
                let adds = step < rounds;
                let distance = if adds { n >> (step + 1) } else { 1 << (step - rounds) };
                let partner = rank ^ distance;
                // The half that the partner is to add up; then all that is summed up here.
                let first = if adds { partner } else { rank } & !(distance - 1);
                vec![Sent { to: partner, chunks: first..first + distance }]
            }
            Operation::AllToAll => {
                let others = (1..n).map(|ahead| (rank + ahead) % n);
                others.map(|to| Sent { to, chunks: to..to + 1 }).collect()
            }
            Operation::ParameterServer { servers } => {
                let workers = n - servers;
                let part = |server: u32| server * n / servers..(server + 1) * n / servers;
                match (rank.checked_sub(workers), step) {
                    (None, 0) => (0..servers).map(|s| Sent { to: workers + s, chunks: part(s) }).collect(),
                    (Some(server), 1) => (0..workers).map(|to| Sent { to, chunks: part(server) }).collect(),
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Messages that a rank gets in a step.
    fn gets(&self, rank: u32, step: u32) -> u32 {
        match self.operation {
            Operation::AllToAll => self.ranks - 1,
            Operation::ParameterServer { servers } => {
                let is_server = rank >= self.ranks - servers;
                match (is_server, step) {
                    (true, 0) => self.ranks - servers,
                    (false, 1) => servers,
                    _ => 0,
                }
            }
            _ => 1,
        }
    }

    /// Bytes of some chunks; the first ones are a byte longer where they cannot be equal.
    fn size(&self, chunks: &Range<u32>) -> u64 {
        let until = |chunk: u32| u64::from(chunk) * self.bytes / u64::from(self.ranks);
        until(chunks.end) - until(chunks.start)
    }
}

/// Does one operation again and again.
pub struct Collective {
    plan: Plan,
    iterations: u32,
    compute: Time,
    /// Of this iteration, from 0.
    iteration: u32,
    ranks: Vec<Rank>,
    /// Ranks that have got all of this iteration.
    done: u32,
    submitted: u64,
    total: u64,
}

#[derive(Debug, Clone, Default)]
struct Rank {
    /// The step whose messages it waits for.
    step: u32,
    /// By step: messages that have come.
    got: Vec<u32>,
}

impl Collective {
    /// # Errors
    /// If so many nodes cannot do it.
    pub fn new(spec: &CollectiveSpec, nodes: u32) -> Result<Collective, WorkloadError> {
        let CollectiveSpec { operation, bytes, iterations, compute } = *spec;
        let refuse = |key, rule, value: u64| Err(WorkloadError::new(key, rule, value));
        if nodes < 2 {
            return refuse("network.topology", "has 2 nodes at least for a collective", nodes.into());
        }
        if operation == Operation::HalvingDoubling && !nodes.is_power_of_two() {
            return refuse(
                "network.topology",
                "has a power of two of nodes for halving-doubling",
                nodes.into(),
            );
        }
        if let Operation::ParameterServer { servers } = operation
            && !(1..nodes).contains(&servers)
        {
            return refuse("workload.servers", "is at least 1, and leaves a node that works", servers.into());
        }
        if !(u64::from(nodes)..=MAX_BYTES).contains(&bytes) {
            return refuse("workload.size", "is from a byte for each node to 4294967295 bytes", bytes);
        }
        if iterations == 0 {
            return refuse("workload.iterations", "is at least 1", 0);
        }
        let plan = Plan { operation, ranks: nodes, bytes };
        let rank = Rank { step: 0, got: vec![0; plan.steps() as usize] };
        let ranks = vec![rank; nodes as usize];
        let of = |rank| (0..plan.steps()).map(|step| plan.sends(rank, step).len() as u64).sum::<u64>();
        let total = (0..nodes).map(of).sum::<u64>() * u64::from(iterations);
        if total > u64::from(u32::MAX) {
            return refuse("workload.iterations", "leaves less than 2^32 messages", total);
        }
        Ok(Collective { plan, iterations, compute, iteration: 0, ranks, done: 0, submitted: 0, total })
    }

    fn send<O: Outbox>(&mut self, rank: u32, step: u32, out: &mut O) {
        for Sent { to, chunks } in self.plan.sends(rank, step) {
            out.submit(Message::flow(rank, to, self.plan.size(&chunks)).tagged(step));
            self.submitted += 1;
        }
    }

    /// Goes on as far as what has come allows.
    fn advance<O: Outbox>(&mut self, number: u32, now: Time, out: &mut O) {
        let steps = self.plan.steps();
        loop {
            let rank = &mut self.ranks[number as usize];
            let step = rank.step;
            if step == steps || rank.got[step as usize] < self.plan.gets(number, step) {
                return;
            }
            rank.step += 1;
            match step + 1 < steps {
                true => self.send(number, step + 1, out),
                false => self.finish(now, out),
            }
        }
    }

    /// A rank has all of this iteration.
    fn finish<O: Outbox>(&mut self, now: Time, out: &mut O) {
        self.done += 1;
        if self.done < self.plan.ranks {
            return;
        }
        self.done = 0;
        self.iteration += 1;
        if self.iteration < self.iterations {
            self.begin(now, out);
        }
    }

    fn begin<O: Outbox>(&mut self, now: Time, out: &mut O) {
        for (number, rank) in (0..).zip(&mut self.ranks) {
            rank.step = 0;
            rank.got.fill(0);
            out.wake_at(now + self.compute, number);
        }
    }
}

impl Source for Collective {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        self.begin(Time::ZERO, out);
    }

    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        self.send(actor, 0, out);
        self.advance(actor, now, out);
    }

    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O) {
        self.ranks[message.dst as usize].got[message.tag as usize] += 1;
        self.advance(message.dst, now, out);
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn is_exhausted(&self) -> bool {
        self.submitted == self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, VecDeque};

    fn any_operation(ranks: u32) -> impl Strategy<Value = Operation> {
        prop_oneof![
            Just(Operation::RingAllReduce),
            Just(if ranks.is_power_of_two() { Operation::HalvingDoubling } else { Operation::AllGather }),
            Just(Operation::AllGather),
            Just(Operation::AllToAll),
            (1..ranks).prop_map(|servers| Operation::ParameterServer { servers }),
        ]
    }

    fn spec(operation: Operation, bytes: u64) -> CollectiveSpec {
        CollectiveSpec { operation, bytes, iterations: 1, compute: Time::ZERO }
    }

    #[derive(Default)]
    struct Heard(VecDeque<Message>, VecDeque<(Time, u32)>);

    impl Outbox for Heard {
        fn submit(&mut self, message: Message) {
            self.0.push_back(message);
        }
        fn wake_at(&mut self, at: Time, actor: u32) {
            self.1.push_back((at, actor));
        }
    }

    /// All that was sent, in an order that `pick` chooses; and when the last wake was.
    fn run(spec: &CollectiveSpec, ranks: u32, mut pick: impl FnMut(usize) -> usize) -> (Vec<Message>, Time) {
        let mut source = Collective::new(spec, ranks).unwrap();
        let (mut heard, mut sent, mut now) = (Heard::default(), Vec::new(), Time::ZERO);
        source.start(&mut heard);
        loop {
            let waiting = heard.0.len();
            if let Some((at, actor)) = heard.1.pop_front() {
                now = at;
                source.wake(actor, now, &mut heard);
            } else if waiting > 0 {
                let message = heard.0.remove(pick(waiting) % waiting).unwrap();
                sent.push(message);
                source.completed(&message, now, &mut heard);
            } else {
                break;
            }
        }
        assert!(source.is_exhausted());
        assert_eq!(source.total(), Some(sent.len() as u64));
        (sent, now)
    }

    /// Whose contributions to each chunk each rank has, when all is done by the plan.
    fn contributions(plan: &Plan) -> Vec<Vec<BTreeSet<u32>>> {
        let n = plan.ranks;
        let own = |rank: u32| (0..n).map(|_| BTreeSet::from([rank])).collect::<Vec<_>>();
        let mut has: Vec<_> = (0..n).map(own).collect();
        for step in 0..plan.steps() {
            let before = has.clone();
            for rank in 0..n {
                for Sent { to, chunks } in plan.sends(rank, step) {
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
            let mut operations = vec![Operation::RingAllReduce];
            if ranks.is_power_of_two() {
                operations.push(Operation::HalvingDoubling);
            }
            for operation in operations {
                let has = contributions(&Plan { operation, ranks, bytes: 1000 });
                let all: BTreeSet<u32> = (0..ranks).collect();
                assert!(has.iter().flatten().all(|chunk| *chunk == all), "{operation:?} of {ranks}");
            }
            for servers in 1..ranks {
                let operation = Operation::ParameterServer { servers };
                let has = contributions(&Plan { operation, ranks, bytes: 1000 });
                let workers: BTreeSet<u32> = (0..ranks - servers).collect();
                for rank in &has[..(ranks - servers) as usize] {
                    assert!(rank.iter().all(|chunk| chunk.is_superset(&workers)), "{servers} of {ranks}");
                }
            }
        }
    }

    #[test]
    fn a_gathering_has_the_chunk_of_everybody() {
        for ranks in [2u32, 3, 7, 8] {
            let has = contributions(&Plan { operation: Operation::AllGather, ranks, bytes: 1000 });
            for rank in has {
                assert!((0..ranks).all(|owner| rank[owner as usize].contains(&owner)));
            }
        }
    }

    #[test]
    fn an_all_reduce_moves_no_more_than_it_must() {
        // 2 (n - 1) / n of the data leaves each rank, whichever way.
        for operation in [Operation::RingAllReduce, Operation::HalvingDoubling] {
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
        let spec = CollectiveSpec { iterations: 3, compute, ..spec(Operation::AllToAll, 400) };
        let (sent, last) = run(&spec, 4, |waiting| waiting - 1);
        assert_eq!((sent.len(), last), (3 * 12, compute * 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |spec: CollectiveSpec, nodes| Collective::new(&spec, nodes).err().unwrap().to_string();
        assert!(refused(spec(Operation::HalvingDoubling, 100), 6).contains("power of two"));
        assert!(refused(spec(Operation::ParameterServer { servers: 4 }, 100), 4).contains("leaves a node"));
        assert!(refused(spec(Operation::AllToAll, 3), 4).contains("a byte for each node"));
        assert!(refused(spec(Operation::AllToAll, 3), 1).contains("2 nodes"));
    }

    proptest! {
        /// However long each message takes, all is sent, and nothing twice.
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
