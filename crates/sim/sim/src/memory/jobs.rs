//! Memory that the computation of a job takes: its data, its tasks, and the messages between them.

use super::{MESSAGE, Need};
use unrack_rack::jobs::{
    Embedding, EmbeddingSpread, Job, Jobs, KeyValue, Kronecker, Shuffle, Training, WordCount,
};
use unrack_rack::{Collective, Operation};
use unrack_workload::jobs::model::tensors;

/// Bytes of a descriptor in a queue inside a host.
pub(super) const QUEUED: f64 = 64.0;
/// Bytes of a task: 24 while tasks are put together, 32 sorted, 48 with its loads, and 12 while it runs.
const TASK: f64 = 24.0 + 32.0 + 48.0 + 12.0;
/// Bytes of an output of a task: 16 while tasks are put together, 16 sorted.
const OUTPUT: f64 = 16.0 + 16.0;
/// Bytes of the data that a mapper has for a reducer.
const SHUFFLED: f64 = 40.0;
/// Supersteps until no label changes, on Kronecker graphs: their diameter is small.
const SUPERSTEPS: f64 = 8.0;
/// Number of tables of an embedding.
const TABLES: f64 = 26.0;

/// Tasks and outputs of one round, and the number of rounds.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    tasks: f64,
    outputs: f64,
    /// Number of rounds that are kept, each with tasks of its own.
    kept: f64,
    /// Number of rounds that are run.
    run: f64,
    /// Further bytes while the rounds are computed.
    data: f64,
}

impl Need {
    pub(super) fn jobs(&mut self, jobs: &Jobs, nodes: u32) {
        for job in &jobs.jobs {
            let ranks = job.on.as_ref().map(|on| on.len() as u32).or(job.hosts).unwrap_or(nodes);
            self.rounds("workload.jobs", rounds(job, f64::from(ranks)));
        }
    }

    pub(super) fn collective(&mut self, collective: &Collective, nodes: u32) {
        self.rounds("workload", of_collective(collective, f64::from(nodes)));
    }

    fn rounds(&mut self, key: &'static str, rounds: Rounds) {
        let Rounds { tasks, outputs, kept, run, data } = rounds;
        self.sure(key, "what jobs compute with", data);
        self.sure(key, "tasks of jobs", kept * (tasks * TASK + outputs * OUTPUT));
        self.sure(key, "messages of jobs", run * outputs * MESSAGE);
    }
}

fn rounds(job: &Job, ranks: f64) -> Rounds {
    match job {
        Job { pagerank: Some(spec), .. } => {
            Rounds { kept: 1.0, run: f64::from(spec.iterations), ..of_graph(&spec.graph(), ranks, 1.0) }
        }
        Job { components: Some(spec), .. } => {
            Rounds { kept: SUPERSTEPS, run: SUPERSTEPS, ..of_graph(&spec.graph(), ranks, 2.0) }
        }
        Job { training: Some(spec), .. } => of_training(spec, ranks),
        Job { key_value: Some(spec), .. } => of_key_value(spec, ranks),
        Job { word_count: Some(spec), .. } => of_word_count(spec, ranks),
        Job { embedding: Some(spec), .. } => of_embedding(spec, ranks),
        Job { collective: Some(spec), .. } => of_collective(spec, ranks),
        _ => Rounds::default(),
    }
}

/// Returns the rounds of a graph whose edges are kept `ways` times. A pair of ranks has one message, if it has an
/// edge.
fn of_graph(graph: &Kronecker, ranks: f64, ways: f64) -> Rounds {
    let vertices = f64::from(graph.scale).exp2();
    let edges = vertices * f64::from(graph.degree) * ways;
    let pairs = ranks * ranks;
    // Edges as drawn, and by their source; for each vertex its edges, values old and new, owner and informant.
    let data = edges * (8.0 + 4.0) + vertices * (4.0 + 4.0 + 16.0 + 8.0) + pairs * 8.0;
    Rounds { tasks: 2.0 * ranks, outputs: pairs.min(edges), kept: 0.0, run: 0.0, data }
}

fn of_collective(spec: &Collective, ranks: f64) -> Rounds {
    let servers = f64::from(spec.servers.unwrap_or(0));
    let (tasks, outputs) = of_operation(spec.operation, servers, ranks);
    Rounds { tasks, outputs, kept: 1.0, run: f64::from(spec.iterations), data: 0.0 }
}

/// Returns the tasks and outputs of one operation.
fn of_operation(operation: Operation, servers: f64, ranks: f64) -> (f64, f64) {
    match operation {
        Operation::RingAllReduce => (2.0 * ranks * ranks, 4.0 * ranks * ranks),
        Operation::HalvingDoubling => (2.0 * ranks * ranks.log2(), 4.0 * ranks * ranks.log2()),
        Operation::AllGather => (ranks * ranks, 2.0 * ranks * ranks),
        Operation::AllToAll => (2.0 * ranks, ranks * ranks),
        Operation::ParameterServer => (3.0 * ranks, 2.0 * servers * ranks),
    }
}

fn of_training(spec: &Training, ranks: f64) -> Rounds {
    let tensors = tensors(spec.model);
    let bytes = tensors.iter().sum::<u64>() as f64 * 4.0;
    let buckets = (bytes / spec.bucket.get().max(1) as f64).ceil().clamp(1.0, tensors.len() as f64);
    let servers = f64::from(spec.servers.unwrap_or(0));
    let (tasks, outputs) = of_operation(spec.operation, servers, ranks);
    let (tasks, outputs) = (tasks * buckets, outputs * buckets);
    Rounds { tasks, outputs, kept: 1.0, run: f64::from(spec.iterations), data: 0.0 }
}

/// Returns the rounds of a key-value store: a request is two tasks, and two messages.
fn of_key_value(spec: &KeyValue, ranks: f64) -> Rounds {
    let connections = (ranks - f64::from(spec.servers)).max(0.0) * f64::from(spec.connections);
    let requests = 2.0 * f64::from(spec.requests);
    Rounds { tasks: requests + connections, outputs: requests, kept: 1.0, run: 1.0, data: 0.0 }
}

fn of_word_count(spec: &WordCount, ranks: f64) -> Rounds {
    let reducers = spec.reducers.map_or(ranks, f64::from);
    let mappers = if spec.reducers.is_some() { (ranks - reducers).max(0.0) } else { ranks };
    let texts = f64::from(spec.iterations);
    let outputs = mappers * reducers;
    // In a pipeline, arrivals and reductions are tasks of their own.
    let tasks = match spec.shuffle {
        Shuffle::Stages => mappers + reducers,
        Shuffle::Own | Shuffle::First => 2.0 * outputs + mappers,
    };
    let data = f64::from(spec.vocabulary) * 12.0 + texts * outputs * SHUFFLED;
    Rounds { tasks, outputs, kept: texts, run: texts, data }
}

/// Returns the rounds of an embedding: each batch of a rank asks owners, and each of them has a task.
fn of_embedding(spec: &Embedding, ranks: f64) -> Rounds {
    let owners = match spec.spread {
        EmbeddingSpread::Tables => ranks.min(TABLES),
        EmbeddingSpread::Rows => ranks.min(TABLES * f64::from(spec.batch)),
    };
    let asked = ranks * f64::from(spec.batches) * owners;
    Rounds { tasks: asked, outputs: 2.0 * asked, kept: 1.0, run: 1.0, data: f64::from(spec.batch) * 8.0 }
}
