//! Memory that the computation of a job needs: its data, its tasks, and the messages between tasks.

use super::{MESSAGE, Need};
use unrack_rack::jobs::{
    Embedding, EmbeddingSpread, Experts, JobSpec, Jobs, KeyValue, Kronecker, Shuffle, Training, WordCount,
};
use unrack_rack::{Collective, Operation};
use unrack_workload::jobs::model::tensors;

/// Bytes of a descriptor in a queue inside a host.
pub(super) const QUEUED: f64 = 64.0;
/// Bytes of a task: 24 while the tasks are assembled, 32 after they are sorted, 48 with its loads, and 12 while it
/// runs.
const TASK: f64 = 24.0 + 32.0 + 48.0 + 12.0;
/// Bytes of an output of a task: 16 while the tasks are assembled, and 16 after they are sorted.
const OUTPUT: f64 = 16.0 + 16.0;
/// Bytes for the data that one mapper produces for one reducer.
const SHUFFLED: f64 = 40.0;
/// Number of supersteps until no label changes, on Kronecker graphs. It is small because their diameter is small.
const SUPERSTEPS: f64 = 8.0;
/// Number of tables of an embedding.
const TABLES: f64 = 26.0;

/// Tasks and outputs of one round, and the numbers of rounds.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    tasks: f64,
    outputs: f64,
    /// Number of rounds that are kept in memory, each with its own tasks.
    kept: f64,
    /// Number of rounds that are run.
    run: f64,
    /// Further bytes that are needed while the rounds are computed.
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

fn rounds(job: &JobSpec, ranks: f64) -> Rounds {
    match job {
        JobSpec { pagerank: Some(spec), .. } => {
            let (batches, iterations) = (f64::from(spec.batches), f64::from(spec.iterations));
            Rounds { kept: batches, run: batches * iterations, ..of_graph(&spec.graph(), ranks, 1.0) }
        }
        JobSpec { components: Some(spec), .. } => {
            Rounds { kept: SUPERSTEPS, run: SUPERSTEPS, ..of_graph(&spec.graph(), ranks, 2.0) }
        }
        JobSpec { training: Some(spec), .. } => of_training(spec, ranks),
        JobSpec { key_value: Some(spec), .. } => of_key_value(spec, ranks),
        JobSpec { word_count: Some(spec), .. } => of_word_count(spec, ranks),
        JobSpec { embedding: Some(spec), .. } => of_embedding(spec, ranks),
        JobSpec { experts: Some(spec), .. } => of_experts(spec, ranks),
        JobSpec { collective: Some(spec), .. } => of_collective(spec, ranks),
        _ => Rounds::default(),
    }
}

/// Returns the rounds of a graph whose edges are stored `ways` times. Two ranks exchange one message per round if an
/// edge connects their vertices.
fn of_graph(graph: &Kronecker, ranks: f64, ways: f64) -> Rounds {
    let vertices = f64::from(graph.scale).exp2();
    let edges = vertices * f64::from(graph.degree) * ways;
    let pairs = ranks * ranks;
    // Edges as drawn, and edges by source. Each vertex has its edges, its old and new value, its owner, and its
    // informant.
    let data = edges * (8.0 + 4.0) + vertices * (4.0 + 4.0 + 16.0 + 8.0) + pairs * 8.0;
    Rounds { tasks: 2.0 * ranks, outputs: pairs.min(edges), kept: 0.0, run: 0.0, data }
}

fn of_collective(spec: &Collective, ranks: f64) -> Rounds {
    let servers = f64::from(spec.servers.unwrap_or(0));
    let (tasks, outputs) = of_operation(spec.operation, servers, ranks);
    Rounds { tasks, outputs, kept: 1.0, run: f64::from(spec.iterations), data: 0.0 }
}

/// Returns the numbers of tasks and outputs of one operation.
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

/// Returns the rounds of a key-value store. Each request needs two tasks and two messages.
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
    // In a pipeline, each arrival and each reduction is a separate task.
    let tasks = match spec.shuffle {
        Shuffle::Stages => mappers + reducers,
        Shuffle::Own | Shuffle::First => 2.0 * outputs + mappers,
    };
    let data = f64::from(spec.vocabulary) * 12.0 + texts * outputs * SHUFFLED;
    Rounds { tasks, outputs, kept: texts, run: texts, data }
}

/// Returns the rounds of an embedding job. Each batch of a rank sends requests to the owners of the rows, and each
/// owner has a task for it.
fn of_embedding(spec: &Embedding, ranks: f64) -> Rounds {
    let owners = match spec.spread {
        EmbeddingSpread::Tables => ranks.min(TABLES),
        EmbeddingSpread::Rows => ranks.min(TABLES * f64::from(spec.batch)),
    };
    let asked = ranks * f64::from(spec.batches) * owners;
    Rounds { tasks: asked, outputs: 2.0 * asked, kept: 1.0, run: 1.0, data: f64::from(spec.batch) * 8.0 }
}

/// Returns the rounds of a mixture of experts. In each layer, each rank sends tokens to each rank, and gets them back.
fn of_experts(spec: &Experts, ranks: f64) -> Rounds {
    let layers = f64::from(spec.layers);
    let outputs = layers * ranks * (ranks - 1.0).min(f64::from(spec.tokens) * f64::from(spec.top)) * 2.0;
    Rounds { tasks: ranks * (2.0 * layers + 1.0), outputs, kept: 1.0, run: 1.0, data: ranks * ranks * 8.0 }
}
